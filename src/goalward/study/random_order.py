"""Chance that only the seed and a row decide: no answer, model or order of events has a say."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.selection.top import mixed

__all__ = ["draws", "random_order"]


def draws(rows: NDArray[Any], seed: int, purpose: str) -> NDArray[Any]:
    """Return a number in [0, 1) for each row, independent between purposes."""
    key = blake2b(f"{seed}/{purpose}".encode(), digest_size=8).digest()
    salt = np.uint64(int.from_bytes(key, "little"))
    drawn: NDArray[Any] = mixed(np.asarray(rows, dtype=np.uint64) ^ salt) / 2.0**64
    return drawn


def random_order(n_rows: int, seed: int, purpose: str) -> NDArray[Any]:
    """Return all rows in a random order."""
    return np.argsort(draws(np.arange(n_rows), seed, purpose), kind="stable")
