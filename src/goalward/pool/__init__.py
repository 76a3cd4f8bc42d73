"""Rows without a label, read in blocks."""

from goalward.pool.files import PoolFile, open_pool
from goalward.pool.pool import Pool, as_pool, blocks, n_rows, take_rows

__all__ = ["Pool", "PoolFile", "as_pool", "blocks", "n_rows", "open_pool", "take_rows"]
