"""Rows that goals without labels look at: a sample of the pool."""

from __future__ import annotations

from typing import Any

import numpy as np

from goalward.pool import n_rows, take_rows

__all__ = ["REFERENCE", "reference_rows"]

REFERENCE = 1000
"""Rows drawn. Few of them lie near a boundary, so 1,000 were better than 500 on digits."""


def reference_rows(X: Any, count: int = REFERENCE, seed: int = 0) -> Any:
    """Return `count` rows drawn by the seed, in their order; all of them if they are fewer."""
    total = n_rows(X)
    if total <= count:
        return X
    chosen = np.random.default_rng(seed).permutation(total)[:count]
    return take_rows(X, np.sort(chosen))
