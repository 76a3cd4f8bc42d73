"""A table as a pool: which columns a person sees, and which numbers a model sees."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import file_digest
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import polars.selectors as cs
from numpy.typing import NDArray

from goalward.core.npy import NpyFile, stamp_of
from goalward.errors import BadInput, BadParameter, PoolChanged
from goalward.tables.cache import cached_arrays
from goalward.tables.cells import as_json
from goalward.tables.encoder import Encoder, Tick, Vectors, from_npy, joined, silent
from goalward.tables.numbers import Numbers, floats
from goalward.tables.read import read_table
from goalward.tables.words import Sentences, Words

__all__ = ["Loaded", "Table", "Watch"]

TEXT_RECIPE = "tfidf-svd-256/1"
"""Changes whenever `Words` computes something else: old caches are then left alone, and
studies made with the old one must still find it, or say what takes its place."""


@dataclass(frozen=True, eq=False)
class Loaded:
    """A table in memory."""

    frame: pl.DataFrame = field(repr=False)
    X: NDArray[Any] | NpyFile = field(repr=False)
    source: Table

    @property
    def folder(self) -> Path:
        """Where the table lies; paths of pictures start here."""
        return Path(self.source.path).absolute().parent

    @cached_property
    def _shown(self) -> pl.DataFrame:
        return as_json(self.frame)

    def encoder(self, tick: Tick = silent) -> Encoder:
        """Return what makes numbers of other rows as it did of these."""
        return self.source.encoder(tick, self.frame)

    def show(self, row: int) -> dict[str, Any]:
        """Return what a person is shown of a row, as JSON holds it."""
        values = self._shown.row(row, named=True)
        main = {"text": values.pop(self.source.text)} if self.source.text else {}
        if self.source.image:
            main["image"] = values.pop(self.source.image)
        return {"row": row, **main, "columns": values}


@dataclass(frozen=True)
class Table:
    """A CSV, TSV, JSONL or Parquet file whose rows are to be labelled.

    Parameters
    ----------
    text, image
        The column a person reads, or holds the path of a picture.
    numeric
        Columns that are features. Default: where there is no text or image, all that hold
        numbers.
    embeddings
        Features: "tfidf", "minilm" (with the `[text]` extra), the folder of a sentence encoder,
        or a .npy file. "auto" takes the .npy file of the table's name beside it if there is one,
        the numeric columns if they are named, else TF-IDF.

    Examples
    --------
    >>> Table("reviews.csv", text="text")
    Table(path='reviews.csv', text='text', image=None, numeric=(), embeddings='auto')
    """

    path: str
    text: str | None = None
    image: str | None = None
    numeric: tuple[str, ...] = ()
    embeddings: str = "auto"

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", os.fspath(self.path))
        object.__setattr__(self, "numeric", tuple(self.numeric))

    def settled(self) -> Table:
        """Return the same table with every choice made, so that it stays as it is later."""
        frame = read_table(self.path)
        for name in (self.text, self.image, *self.numeric):
            if name is not None and name not in frame.columns:
                raise BadParameter(
                    f"{Path(self.path).name} has the columns {', '.join(frame.columns[:12])}; one "
                    f"called {name!r} was expected. Check --text, --image and --numeric."
                )
        text, numeric = self.text, self.numeric
        if text is None and self.image is None and not numeric:
            text, numeric = _guessed(frame, Path(self.path).name)
        embeddings = self.embeddings
        if embeddings == "auto":
            beside = Path(self.path).with_suffix(".npy")
            if beside.is_file():
                embeddings = str(beside)
            elif numeric:
                embeddings = "numeric"
            elif text is not None:
                embeddings = "tfidf"
            else:
                raise BadParameter(
                    f"Pictures came without vectors; {beside.name} beside the table (a row of "
                    "numbers for each row), or numeric columns, were expected. Compute them with an "
                    "image encoder, or name columns with --numeric."
                )
        return Table(self.path, text, self.image, numeric, embeddings)

    @property
    def files(self) -> dict[str, Path]:
        """What the pool is made of."""
        return {"table": Path(self.path)} | ({"vectors": self.vectors} if self.vectors else {})

    @property
    def vectors(self) -> Path | None:
        """The .npy file that the features are read from, if they are."""
        return Path(self.embeddings) if self.embeddings.endswith(".npy") else None

    @property
    def features(self) -> str:
        """What makes numbers of the rows, by a name that changes whenever the numbers do."""
        if self.vectors:
            return "vectors/1"
        named = {"numeric": "numbers/1", "tfidf": TEXT_RECIPE}
        return named.get(self.embeddings, f"sentences/1/{self.embeddings}")

    def fingerprint(self) -> dict[str, str]:
        """Return digests of the files the pool is made of."""
        return {name: _digest(path) for name, path in self.files.items()}

    def load(self, tick: Tick = silent) -> Loaded:
        """Return the table and its features, computed once and then cached by content."""
        frame = read_table(self.path)
        return Loaded(frame, self._features(frame, tick), self)

    def encoder(self, tick: Tick = silent, frame: pl.DataFrame | None = None) -> Encoder:
        """Return what makes the features, as it is for the rows of this table.

        Computed once, like the features themselves.
        """
        frame = read_table(self.path) if frame is None else frame
        if self.vectors:
            return Vectors(int(from_npy(self.vectors, frame.height).shape[1]))
        if self.embeddings == "numeric":
            return Numbers.fitted(frame, self.numeric)
        arrays = self._text_arrays(frame, tick, lambda name: name != "X")
        described = json.loads(arrays.pop("described").tobytes())
        # The same texts may stand under another name elsewhere.
        return Encoder.restored({**described, "columns": [self.text]}, arrays)

    def _features(self, frame: pl.DataFrame, tick: Tick) -> NDArray[Any] | NpyFile:
        if self.vectors:
            return from_npy(self.vectors, frame.height)
        if self.embeddings == "numeric":
            return Numbers.fitted(frame, self.numeric).transform(frame)
        return self._text_arrays(frame, tick, lambda name: name == "X")["X"]

    def _text_arrays(
        self, frame: pl.DataFrame, tick: Tick, wanted: Callable[[str], bool]
    ) -> dict[str, NDArray[Any]]:
        """Return features of the texts ("X"), or the state of what makes them."""
        if self.text is None:
            raise BadParameter(
                f"embeddings={self.embeddings!r} came without a text column; one was expected. Name it "
                "with --text."
            )
        read = joined(frame, [self.text])

        def compute() -> dict[str, NDArray[Any]]:
            tfidf = self.embeddings == "tfidf"
            made = (
                Words.fitted(read, tick) if tfidf else Sentences.fitted(read, self.embeddings, tick)
            )
            described, arrays = made[0].state()
            plain = np.frombuffer(json.dumps(described).encode(), dtype=np.uint8)
            return {"X": made[1], "described": plain, **arrays}

        return {
            k: v
            for k, v in cached_arrays(self.features, read, wanted, compute).items()
            if wanted(k)
        }


class Watch:
    """The files of a table whose digests were right, and the stamps they had then.

    Parameters
    ----------
    digests
        SHA-256 of its files, as they must be; `PoolChanged` if they are not.
    """

    def __init__(self, table: Table, digests: Mapping[str, str]) -> None:
        self._table, self._digests = table, digests
        self._stamps: dict[str, Any] = {}
        self.check()

    def check(self, rows: Any = None) -> None:
        """Raise `PoolChanged` if a file has another content.

        Their stamps are looked at, a matter of microseconds; the content where they differ. A file
        that was touched, or put back, is the same file: `rows` that are read from it go on.
        """
        files = self._table.files
        # Stamps first: what changes while the digest is taken shows at the next look.
        stamps = {name: stamp_of(path) for name, path in files.items()}
        if stamps == self._stamps:
            return
        for name, digest in self._table.fingerprint().items():
            if digest != self._digests[name]:
                raise PoolChanged(
                    f"{files[name]} is not the file the study was made with (its SHA-256 differs), so "
                    "row numbers may mean other rows. Restore it, or start a new study and import "
                    "the labels."
                )
        self._stamps = stamps
        if isinstance(rows, NpyFile):
            rows.stamp = stamps["vectors"] or rows.stamp


def _guessed(frame: pl.DataFrame, name: str) -> tuple[str | None, tuple[str, ...]]:
    """Return the text column, or the numeric ones, where there is only one way to read a table."""
    # Lists, structs and bytes are shown and exported, and are neither.
    flat = frame.select(~(cs.nested() | cs.binary()))
    words = [
        c.name
        for c in flat
        if isinstance(c.dtype, (pl.Categorical, pl.Enum)) or not np.isfinite(floats(c)).all()
    ]
    if "text" in words or len(words) == 1:
        return ("text" if "text" in words else words[0]), ()
    if flat.columns and not words:
        return None, tuple(flat.columns)
    raise BadInput(
        f"{name} has the text columns {', '.join(words[:8]) or 'none'}; one to be read was expected. "
        "Name it with --text, or features with --numeric."
    )


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise PoolChanged(
            f"{path} could not be opened ({error.strerror}); it holds rows of the study. Put it back, "
            "or say where it is now: Study.open(url, pool=path), --table on the command line."
        ) from error
