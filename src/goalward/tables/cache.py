"""Computed features, kept under what they were computed from."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from platformdirs import user_cache_path

from goalward.core.npy import npy_header
from goalward.core.whole_file import whole_file
from goalward.errors import BadInput, NotWritten

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

    A file that is damaged or was changed is computed again: a digest of its key and bytes stands
    at its end. One that cannot be written is done without.
    """
    path = Path(user_cache_path("goalward")) / "features" / f"{key}.npy"
    found = _read(path, key)
    if found is not None and found.ndim == 2 and found.shape[0] == n_rows:
        return found
    features = np.ascontiguousarray(compute(), dtype=np.float32)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(features))
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with whole_file(path, force=True) as partial, open(partial, "wb", opener=_own) as file:
            digest = sha256(key.encode())
            for part in (header.getvalue(), features.reshape(-1).view(np.uint8).data):
                file.write(part)
                digest.update(part)
            file.write(digest.digest())
    except (OSError, NotWritten):
        # A cache saves time and nothing else: a full disk is no reason to stop here.
        pass
    return features


def _read(path: Path, key: str) -> NDArray[Any] | None:
    """Return the features of a file that is whole, and of this key."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    body = memoryview(content)[:-32]
    digest = sha256(key.encode())
    digest.update(body)
    if digest.digest() != content[-32:]:
        return None
    start = io.BytesIO(content[:4096])
    try:
        header = npy_header(start)
    except BadInput:
        return None
    if header.dtype != np.float32 or header.fortran or start.tell() + header.nbytes != len(body):
        return None
    return np.frombuffer(body, np.float32, offset=start.tell()).reshape(header.shape)


def _own(path: str, flags: int) -> int:
    """Open a file that only its user reads: texts can be guessed from their features."""
    return os.open(path, flags, 0o600)
