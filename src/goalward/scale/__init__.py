"""One query over a pool of any size: engines for threads, a GPU and a cluster."""

from goalward.core.kernels.compiled import accelerate
from goalward.core.pool_files import PoolFile, open_pool
from goalward.scale.cluster import Dask
from goalward.scale.gpu import Cuda
from goalward.scale.rank import Ranking, rank
from goalward.scale.threads import Threads

__all__ = ["Cuda", "Dask", "PoolFile", "Ranking", "Threads", "accelerate", "open_pool", "rank"]
