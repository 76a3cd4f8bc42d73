"""Computed features, kept under what they were computed from."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from platformdirs import user_cache_path

__all__ = ["cached", "content_key"]


def content_key(recipe: str, texts: Iterable[str]) -> str:
    """Return a digest of texts and of what is done to them."""
    digest = sha256(recipe.encode())
    for text in texts:
        content = text.encode("utf-8", "surrogatepass")
        # Lengths first: two texts are not one longer text.
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.hexdigest()


def cached(key: str, n_rows: int, compute: Callable[[], NDArray[Any]]) -> NDArray[Any]:
    """Return features from the per-user cache, or computed and put there.

    A file that is damaged is computed again; one that cannot be written is done without.
    """
    path = Path(user_cache_path("goalward")) / "features" / f"{key}.npy"
    try:
        found: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
        if found.ndim == 2 and found.shape[0] == n_rows and found.dtype == np.float32:
            return found
    except (OSError, ValueError):
        pass
    features = np.ascontiguousarray(compute(), dtype=np.float32)
    partial = path.with_name(f"{key}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            np.save(file, features, allow_pickle=False)
        partial.replace(path)
    except OSError:
        # A cache saves time and nothing else: a full disk is no reason to stop here.
        partial.unlink(missing_ok=True)
    return features
