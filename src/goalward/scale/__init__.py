"""One query over a pool of any size: on threads, on a GPU, on a cluster."""

from goalward.core.kernels.compiled import accelerate
from goalward.pool import PoolFile, open_pool
from goalward.scale.rank import Ranking, rank

__all__ = ["PoolFile", "Ranking", "accelerate", "open_pool", "rank"]
