"""The files of a table, looked at again: another content is another table."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

import polars as pl

from goalward.core.npy import NpyFile, stamp_of
from goalward.errors import PoolChanged
from goalward.tables.cells import as_text

__all__ = ["Watch", "digests"]


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
        stamps = {name: stamp_of(path) for name, path in files.items()}
        if stamps == self._stamps:
            return
        for name, digest in digests(files).items():
            if digest != self._digests[name]:
                raise PoolChanged(
                    f"{files[name]} is not the file the study was made with (its SHA-256 differs), so "
                    "row numbers may mean other rows. If rows were appended, start `goalward label` "
                    "again, or call study.extend(); else restore it, or start a new study and import "
                    "the labels."
                )
        self._stamps = stamps
        if isinstance(rows, NpyFile):
            rows.stamp = stamps["vectors"] or rows.stamp


def digests(files: Mapping[str, Path]) -> dict[str, str]:
    """Return what tells the content of files from any other."""
    return {name: _digest(path) for name, path in files.items()}


def rows_digest(frame: pl.DataFrame) -> str:
    """Return what tells rows from any others, by what stands in their cells."""
    found = sha256()
    for part in as_text(frame).iter_slices(2**16):
        found.update(part.write_csv().encode())
    return found.hexdigest()


def _digest(path: Path) -> str:
    try:
        if path.is_dir():
            # Of many pictures what they are called and how large they are, which takes no time.
            found = sorted((p.relative_to(path).as_posix(), p) for p in path.rglob("*"))
            listed = [(name, one.stat().st_size) for name, one in found if one.is_file()]
            return sha256(repr(listed).encode("utf-8", "surrogateescape")).hexdigest()
        with path.open("rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise PoolChanged(
            f"{path} could not be opened ({error.strerror}); it holds rows of the study. Put it back, "
            "or say where it is now: Study.open(url, pool=path), --table on the command line."
        ) from error
