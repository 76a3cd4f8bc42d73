"""Computed features, kept under what they were computed from."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import polars as pl
from numpy.typing import NDArray
from platformdirs import user_cache_path

from goalward.core.npy import NpyFile, stamp_of
from goalward.core.whole_file import whole_file
from goalward.errors import NotWritten, PoolChanged
from goalward.studio.tables.cells import as_text
from goalward.studio.tables.read import PICTURE

__all__ = ["LOOKED", "Watch", "cached", "cached_arrays", "digests", "rows_digest"]


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


# The files of a table, looked at again: another content is another table.


LOOKED = "looked-at/1:"
"""Before digests of folders whose pictures were looked into; earlier versions took their sizes."""
ENDS = 2**15
"""Bytes at the beginning, and at the end, of a picture."""


class Watch:
    """The files of a table whose digests were right, and the stamps they had then.

    Parameters
    ----------
    digests
        SHA-256 of its files, as they must be; `PoolChanged` if they are not.
    """

    def __init__(self, files: Mapping[str, Path], digests: Mapping[str, str]) -> None:
        self._files, self._digests = files, digests
        self._stamps: dict[str, Any] = {}
        self.check()

    def check(self, rows: Any = None) -> None:
        """Raise `PoolChanged` if a file has another content.

        Their stamps are looked at, a matter of microseconds; the content where they differ. A file
        that was touched, or put back, is the same file: `rows` that are read from it go on.
        """
        files = self._files
        # Stamps first: what changes while the digest is taken shows at the next look.
        stamps = {name: _stamps(path) for name, path in files.items()}
        if stamps == self._stamps:
            return
        for name, digest in digests(files, self._digests).items():
            if digest != self._digests[name]:
                raise PoolChanged(
                    f"{files[name]} is not the file the study was made with (its SHA-256 differs), so "
                    "row numbers may mean other rows. If rows were appended, start `goalward label` "
                    "again, or call study.extend(); else restore it, or start a new study and import "
                    "the labels."
                )
        self._stamps = stamps
        if isinstance(rows, NpyFile):
            rows.stamp = stamps["vectors"][0] or rows.stamp


def digests(files: Mapping[str, Path], like: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return what tells the content of files from any other, in the way of those that are `like` it."""
    return {name: _digest(path, (like or {}).get(name, LOOKED)) for name, path in files.items()}


def rows_digest(frame: pl.DataFrame, folder: Path | None = None) -> str:
    """Return what tells rows from any others, by what stands in their cells.

    Parameters
    ----------
    folder
        That of pictures, which are looked into.
    """
    if folder is not None:
        looked = [repr(_ends(folder / name)) for name in frame[PICTURE]]
        frame = frame.with_columns(pl.Series("looked", looked, dtype=pl.String))
    found = sha256()
    for part in as_text(frame).iter_slices(2**16):
        found.update(part.write_csv().encode())
    return found.hexdigest()


def _stamps(path: Path) -> list[Any]:
    """Return the stamps of a file, or of a folder and those in it, which change with their lists."""
    inside = (one for one in path.rglob("*") if one.is_dir()) if path.is_dir() else ()
    return [stamp_of(one) for one in (path, *inside)]


def _digest(path: Path, like: str) -> str:
    try:
        if path.is_dir():
            found = sorted((p.relative_to(path).as_posix(), p) for p in path.rglob("*"))
            looked = _ends if like.startswith(LOOKED) else (lambda one: one.stat().st_size)
            listed = [(name, looked(one)) for name, one in found if one.is_file()]
            digest = sha256(repr(listed).encode("utf-8", "surrogateescape")).hexdigest()
            return f"{LOOKED}{digest}" if like.startswith(LOOKED) else digest
        with path.open("rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise PoolChanged(
            f"{path} could not be opened ({error.strerror}); it holds rows of the study. Put it back, "
            "or say where it is now when the study is opened."
        ) from error


def _ends(path: Path) -> tuple[int, int]:
    """Return the size of a picture and a checksum of its ends: many large ones take no time."""
    size = path.stat().st_size
    with path.open("rb") as file:
        first = file.read(ENDS)
        file.seek(max(size - ENDS, len(first)))
        return size, crc32(file.read(), crc32(first))
