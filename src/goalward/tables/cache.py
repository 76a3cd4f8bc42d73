"""Computed features, kept under what they were computed from."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from platformdirs import user_cache_path

from goalward.core.whole_file import whole_file
from goalward.errors import NotWritten

__all__ = ["cached", "cached_arrays"]

Arrays = dict[str, NDArray[Any]]


def cached(recipe: str, texts: Sequence[str], compute: Callable[[], NDArray[Any]]) -> NDArray[Any]:
    """Return the features of texts from the per-user cache, or computed and put there."""

    def features() -> Arrays:
        return {"X": np.asarray(compute(), dtype=np.float32)}

    return cached_arrays(recipe, texts, lambda name: name == "X", features)["X"]


def cached_arrays(
    recipe: str, texts: Sequence[str], wanted: Callable[[str], bool], compute: Callable[[], Arrays]
) -> Arrays:
    """Return the arrays made of texts that are wanted, from the per-user cache, or all computed.

    A file that is damaged or another's is computed again: an archive has checksums, and its "X" the
    name of its key. One that cannot be written is done without.

    Parameters
    ----------
    recipe
        What is done to the texts, by a name that changes whenever the features do.
    """
    key = _content_key(recipe, texts)
    path = Path(user_cache_path("goalward")) / "features" / f"{key}.npz"
    # Whatever is wrong with a file that need not be there.
    with suppress(Exception), path.open("rb") as stored, np.load(stored) as archive:
        found = {"X" if name == key else name: name for name in archive.files}
        there = {name: archive[found[name]] for name in found if wanted(name)}
        if "X" in found and there:
            return there
    arrays = compute()
    # A cache saves time and nothing else: a full disk is no reason to stop here.
    with suppress(OSError, NotWritten):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Only the user reads it: texts can be guessed from their features.
        own = partial(os.open, mode=0o600)
        with whole_file(path, force=True) as place, open(place, "wb", opener=own) as file:
            kept: dict[str, Any] = {key if name == "X" else name: a for name, a in arrays.items()}
            np.savez(file, **kept)
    return arrays


def _content_key(recipe: str, texts: Sequence[str]) -> str:
    digest = sha256(recipe.encode())
    for text in texts:
        content = text.encode("utf-8", "surrogatepass")
        # Lengths first: two texts are not one longer text.
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.hexdigest()
