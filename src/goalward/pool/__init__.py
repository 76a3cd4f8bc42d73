"""Rows without a label, read in blocks."""

from goalward.pool.blocks import blocks, n_rows, take_rows
from goalward.pool.files import PoolFile, open_pool

__all__ = ["PoolFile", "blocks", "n_rows", "open_pool", "take_rows"]
