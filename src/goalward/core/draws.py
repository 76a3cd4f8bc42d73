"""Rows drawn by a seed: the same in every round and process."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.pool import n_rows, take_rows
from goalward.core.rows import held


def salt(rng: np.random.Generator) -> np.uint64:
    """Return a number that breaks ties between positions in a pool."""
    return rng.integers(2**63, dtype=np.uint64)


def mixed(keys: NDArray[Any]) -> NDArray[Any]:
    """Return SplitMix64's finaliser (Steele et al. 2014), a hash of each key."""
    with np.errstate(over="ignore"):
        z = keys + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        shuffled: NDArray[Any] = z ^ (z >> np.uint64(31))
    return shuffled


REFERENCE = 1000
"""Rows drawn. Few of them lie near a boundary, so 1,000 were better than 500 on digits."""


BLOCK = 2**18
"""Rows that a study reads together, to limit memory."""


def reference_rows(X: Any, count: int = REFERENCE, seed: int = 0) -> Any:
    """Return at most `count` rows drawn by the seed, in order; suggestions depend on the draw."""
    X = held(X)
    total = n_rows(X)
    if total <= count:
        return X
    return take_rows(X, np.sort(np.random.default_rng(seed).permutation(total)[:count]))


def ranked_rows(X: Any, count: int, seed: int) -> Any:
    """Return rows drawn without a permutation, for `goalward rank` on large files."""
    total = n_rows(X)
    if total <= count:
        return X
    chosen = np.random.default_rng(seed).choice(total, size=count, replace=False)
    return take_rows(X, np.sort(chosen))


def drawn_rows(total: int, count: int, seed: int, purpose: str = "goal") -> NDArray[Any]:
    """Return at most `count` row numbers, in order, drawn by seed and purpose."""
    if total <= count:
        return np.arange(total)
    kept: NDArray[Any] = np.empty(0, dtype=np.int64)
    for first in range(0, total, BLOCK):
        kept = np.concatenate([kept, np.arange(first, min(first + BLOCK, total))])
        if len(kept) > count:
            numbers = drawn_numbers(kept, seed, purpose)
            kept = kept[np.argpartition(numbers, count - 1)[:count]]
    return np.sort(kept)


def drawn_numbers(rows: Sequence[int] | NDArray[Any], seed: int, purpose: str) -> NDArray[Any]:
    """Return a number in [0, 1) for each row that depends on seed, purpose and row only."""
    key = blake2b(f"{seed}/{purpose}".encode(), digest_size=8).digest()
    salt = np.uint64(int.from_bytes(key, "little"))
    return np.asarray(mixed(np.asarray(rows, dtype=np.uint64) ^ salt) / 2.0**64)
