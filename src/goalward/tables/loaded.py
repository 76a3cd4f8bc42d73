"""A table in memory: its cells at once, its features when they are needed."""

from __future__ import annotations

import re
import threading
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from goalward.core.npy import NpyFile
from goalward.errors import BadInput, DataMissing
from goalward.tables.cells import as_json, as_text
from goalward.tables.columns import copies_in, without_text
from goalward.tables.encoder import Encoder, Tick, joined, silent

if TYPE_CHECKING:
    from goalward.tables.table import Table

__all__ = ["Loaded"]

LARGEST = 32 * 2**20
"""Bytes of a picture that is shown."""
SIGNATURES = {
    rb"\x89PNG\r\n\x1a\n": "image/png",
    rb"\xff\xd8\xff": "image/jpeg",
    rb"GIF8[79]a": "image/gif",
    rb"BM": "image/bmp",
    rb"RIFF....WEBP": "image/webp",
    rb"....ftypavi[fs]": "image/avif",
}


class Loaded:
    """A table in memory; what takes long to compute of it is computed when it is first needed.

    Parameters
    ----------
    source
        What the table is.
    """

    def __init__(self, frame: pl.DataFrame, source: Table, tick: Tick = silent) -> None:
        self.frame, self.source, self._tick = frame, source, tick
        self._X: NDArray[Any] | NpyFile | None = None
        self._lock = threading.Lock()

    @property
    def ready(self) -> bool:
        """Whether the features are there."""
        return self._X is not None

    @property
    def X(self) -> NDArray[Any] | NpyFile:
        """The features."""
        return self.prepare()

    def prepare(self, tick: Tick | None = None) -> NDArray[Any] | NpyFile:
        """Return the features, computed if they are not there; others wait for it."""
        if self._X is None:
            with self._lock:
                if self._X is None:
                    self._X = self.source.features_of(self.frame, tick or self._tick)
        return self._X

    @property
    def folder(self) -> Path:
        """Where the table lies, or the pictures; their paths start here."""
        path = Path(self.source.path).absolute()
        return path if path.is_dir() else path.parent

    @cached_property
    def _shown(self) -> pl.DataFrame:
        return as_json(self.frame.drop(self.source.guesses))

    def encoder(self, tick: Tick = silent) -> Encoder:
        """Return what makes numbers of other rows as it did of these."""
        return self.source.encoder(tick, self.frame)

    def copies(self) -> dict[int, int]:
        """Return row -> the first row with the same text, and the same in other columns that are read."""
        source = self.source
        read = [*source.texts, *source.numeric, *source.category]
        return copies_in(self.frame.select(read)) if source.texts else {}

    def aside(self) -> tuple[list[int], list[str]]:
        """Return the rows that nobody can answer, and what to say of them if that is news."""
        source = self.source
        if source.pictured:
            gone = np.flatnonzero(~np.any(self.X, axis=1)).tolist()
            first = self.frame[str(source.image)][gone[0]] if gone else ""
            said = f"{len(gone)} pictures cannot be read (first {first}); they are set aside."
            return gone, [said] if gone else []
        if not source.texts or source.image:
            return [], []
        rows = without_text(joined(self.frame, source.texts))
        if len(rows) == self.frame.height:
            raise BadInput(
                f"The texts of {Path(source.path).name} hold no words; some were expected. Choose "
                "another column to read."
            )
        return rows, []

    @property
    def words(self) -> pl.Series:
        """What a person is shown of every row, in one text each."""
        first = [*self.source.texts, *([self.source.image] if self.source.image else [])]
        cells = as_text(self._shown).select(pl.col(first), pl.exclude(first).cast(pl.String))
        words = pl.concat_str(pl.all(), separator=" ", ignore_nulls=True).alias("words")
        return cells.select(words)["words"] if cells.width else pl.Series([""] * cells.height)

    def show(self, row: int) -> dict[str, Any]:
        """Return what a person is shown of a row, as JSON holds it."""
        values = self._shown.row(row, named=True)
        read = [values.pop(name) for name in self.source.texts]
        main: dict[str, Any] = {}
        if read:
            main["text"] = read[0] if len(read) == 1 else "\n\n".join(str(t) for t in read if t)
        if self.source.image:
            main["image"] = values.pop(self.source.image)
        return {"row": row, **main, "columns": values}

    def picture(self, row: int, folder: Path | None = None) -> tuple[bytes, str]:
        """Return the picture of a row and its type.

        What the table names must lie, links followed, in `folder` (by default the table's own), and
        begin like a picture. SVG is left out: it can hold scripts.
        """
        named, home = self.show(row).get("image"), (folder or self.folder).resolve()
        if not named:
            raise DataMissing(f"Row {row} has no picture.")
        try:
            path = (home / str(named)).resolve(strict=True)
        except (OSError, ValueError, RuntimeError) as error:
            raise DataMissing(f"The picture of row {row} is not there.") from error
        if not path.is_relative_to(home) or not path.is_file():
            raise DataMissing(
                f"The picture of row {row} lies outside the folder of the table. Move it there, or let "
                "whoever runs the page start it with --images FOLDER."
            )
        try:
            if path.stat().st_size > LARGEST:
                raise DataMissing(f"The picture of row {row} is larger than {LARGEST // 2**20} MB.")
            content = path.read_bytes()
        except OSError as error:
            raise DataMissing(
                f"The picture of row {row} could not be read ({error.strerror or error}). Look at its "
                "permissions, or at the disk it lies on."
            ) from error
        for pattern, kind in SIGNATURES.items():
            if re.match(pattern, content, re.DOTALL):
                return content, kind
        raise DataMissing(f"The file of row {row} is no PNG, JPEG, GIF, WebP, AVIF or BMP picture.")
