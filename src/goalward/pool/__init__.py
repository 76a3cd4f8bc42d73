"""Rows without a label, read in blocks."""

from goalward.pool.blocks import blocks, n_rows, take_rows

__all__ = ["blocks", "n_rows", "take_rows"]
