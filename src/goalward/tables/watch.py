"""The files of a table, looked at again: another content is another table."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any
from zlib import crc32

import polars as pl

from goalward.core.npy import NpyFile, stamp_of
from goalward.errors import PoolChanged
from goalward.tables.cells import as_text
from goalward.tables.read import PICTURE

__all__ = ["LOOKED", "Watch", "digests", "rows_digest"]

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
