"""A table as a pool: which columns a person sees, and which numbers a model sees."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from goalward.core.files import NpyFile, stamp_of
from goalward.errors import BadInput, BadParameter, DataMissing
from goalward.studio.tables.cache import cached, digests
from goalward.studio.tables.cells import as_json, as_text, listed
from goalward.studio.tables.columns import READ, Kinds, copies_in, notes_of, without_text
from goalward.studio.tables.embeddings import (
    Pictures,
    Pixels,
    Sentences,
    Tfidf,
    default_embeddings,
    encoder_folder,
    picture_paths,
    pretrained,
)
from goalward.studio.tables.encoder import (
    Categories,
    Concatenated,
    Encoder,
    Numbers,
    Tick,
    Vectors,
    from_npy,
    joined,
    silent,
)
from goalward.studio.tables.read import PICTURE, beside, read_format

FEATURES = {
    "columns": ("columns/1", ""),
    "tfidf": ("tfidf-256/2", "TF-IDF"),
    "pixels": ("pixels/1", "small grey pixels, edges and colours"),
}
"""Recipes of features, which change whenever the features do, and their names for people."""
BESIDE = "columns/2"
"""The recipe of columns beside a text."""
WEIGHT = 0.4
"""Length (root mean square) of a row's columns beside a text's of 1. Where columns tell most, 0.35 to 1
did as well; where they tell nothing, 0.35 cost 2 points, 0.5 cost 5 and 1 cost 11."""
QUICK = 2000
"""Texts whose TF-IDF nobody waits for."""
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
SAMPLE_CLASSES = ("roads", "waste", "parks", "noise")
"""Classes of the sample: messages to a town."""


@dataclass(frozen=True)
class Table:
    """A file to label: .csv, .tsv, .xlsx, .json, .jsonl or .parquet, also .gz; or a folder of pictures.

    Parameters
    ----------
    text, image
        The column or columns of text, or the one with paths of pictures.
    numeric, category
        Columns used as features beside the text; by default all that fit, unless there is an image.
    embeddings
        "tfidf", "minilm" (`[text]` extra), "pixels", "columns" (only numbers and categories), the
        folder or name of an encoder (`[vision]` extra for images), or a .npy file. "auto" takes the
        .npy file of the table's name, else TF-IDF for texts and pixels for pictures.
    separator, encoding, sheet
        Of a text file, and of a workbook; detected by default.
    guesses
        The column of a second opinion, and perhaps of its probability; neither a feature nor shown.
    alone
        Use no column that is not named.

    Examples
    --------
    >>> Table("reviews.csv", text="text").texts
    ('text',)
    """

    path: str
    text: Sequence[str] | str | None = None
    image: str | None = None
    numeric: tuple[str, ...] = ()
    embeddings: str = "auto"
    category: tuple[str, ...] = ()
    separator: str | None = None
    encoding: str | None = None
    notes: tuple[str, ...] = field(default=(), compare=False, repr=False)
    guesses: tuple[str, ...] = ()
    alone: bool = False
    sheet: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", os.fspath(self.path))
        for name in ("numeric", "category", "notes", "guesses"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not isinstance(self.text, str | None):
            single = len(self.text) == 1
            object.__setattr__(self, "text", self.text[0] if single else tuple(self.text) or None)

    @property
    def texts(self) -> tuple[str, ...]:
        """The columns that are read, none or several."""
        return (self.text,) if isinstance(self.text, str) else tuple(self.text or ())

    def settled(self) -> Table:
        """Return the same table with every choice made, so that it stays as it is later."""
        frame, how = read_format(self.path, self.separator, self.encoding, self.sheet)
        made = replace(
            self._named(frame), separator=how.separator, encoding=how.encoding, sheet=how.sheet
        )
        npy, embeddings, notes = beside(self.path, ".npy"), made.embeddings, list(made.notes)
        if embeddings == "auto" and npy.is_file():
            embeddings = str(npy)
        elif embeddings == "auto" and made.texts:
            embeddings, note = default_embeddings(frame.height)
            notes += [note] if note else []
        elif embeddings == "auto":
            embeddings = "columns" if made.numeric + made.category else "pixels"
        if embeddings == "columns" and not made.numeric + made.category:
            raise BadParameter(
                "embeddings='columns' needs columns of numbers or values. Use --numeric or --category."
            )
        made = replace(made, embeddings=embeddings)
        if made.pictured and embeddings not in FEATURES:
            # What a person names is fetched, what a stored study names is not.
            pretrained(embeddings, fetch=True)
        elif made.embedded and embeddings not in FEATURES:
            encoder_folder(embeddings)
        read = joined(frame, made.texts) if made.texts else None
        notes += notes_of(self.path, frame, how, () if made.vectors else made.numeric, read)
        return replace(made, notes=tuple(notes))

    def _named(self, frame: pl.DataFrame) -> Table:
        """Return the table with columns that it has: those named, else by their kinds."""
        made = replace(self, image=PICTURE) if Path(self.path).is_dir() else self
        if isinstance(self.text, str) and self.text not in frame.columns and "," in self.text:
            made = replace(made, text=tuple(name.strip() for name in self.text.split(",")))
        file = Path(self.path).name
        for name in (*made.texts, made.image, *made.numeric, *made.category, *made.guesses):
            if name is not None and name not in frame.columns:
                raise BadParameter(
                    f"Column {name!r} is not in {file} (columns: {listed(frame.columns)}). Correct it."
                )
        if made.image or made.numeric or made.category or (made.texts and made.alone):
            return made
        kinds = Kinds.of(frame.drop(made.guesses, *made.texts))
        if made.texts:
            left = kinds.left | dict.fromkeys(kinds.texts, READ)
            kinds = replace(kinds, texts=made.texts, left=left)
        if kinds.texts:
            made = replace(made, text=kinds.texts)
            if (vectors := made.vectors or beside(self.path, ".npy")).is_file():
                return replace(made, notes=kinds.notes(f"beside {vectors.name}"))
        elif kinds.pictures:
            return replace(made, image=kinds.pictures[0], notes=kinds.notes("beside pictures"))
        if kinds.texts or kinds.numbers or kinds.categories:
            notes = kinds.notes()
            return replace(made, numeric=kinds.numbers, category=kinds.categories, notes=notes)
        why = "; ".join(f"{column} ({reason})" for column, reason in list(kinds.left.items())[:8])
        raise BadInput(
            f"{file} has no column of text or numbers to learn from: {why or 'none at all'}. Name a "
            "column to read, or some of numbers or values."
        )

    @property
    def files(self) -> dict[str, Path]:
        return {"table": Path(self.path)} | ({"vectors": self.vectors} if self.vectors else {})

    @property
    def vectors(self) -> Path | None:
        """The .npy file that the features are read from, if they are."""
        return Path(self.embeddings) if self.embeddings.endswith(".npy") else None

    @property
    def embedded(self) -> bool:
        """Whether texts or pictures become vectors here."""
        return not self.vectors and self.embeddings != "columns"

    @property
    def pictured(self) -> bool:
        return bool(self.embedded and self.image and not self.texts)

    @property
    def _weighed(self) -> bool:
        return bool(self.embedded and not self.pictured and (self.numeric or self.category))

    @property
    def features(self) -> str:
        """The recipe of the features, which changes whenever the numbers do."""
        if self.vectors:
            return "vectors/1"
        kind = "pictures" if self.pictured else "sentences"
        recipe = FEATURES.get(self.embeddings, (f"{kind}/1/{self.embeddings}",))[0]
        return f"{recipe}+{BESIDE}" if self._weighed else recipe

    @property
    def says(self) -> str:
        if self.vectors:
            return f"vectors of {self.vectors.name}"
        parts = []
        if self.embedded:
            model = "MiniLM" if self.embeddings == "minilm" else Path(self.embeddings).name
            name = FEATURES.get(self.embeddings, ("", f"{model} vectors"))[1]
            parts.append(f"{name} of {', '.join(self.texts) or self.image}")
        if not self.pictured:
            parts += [f"the numbers of {', '.join(self.numeric)}"] if self.numeric else []
            parts += [f"the values of {', '.join(self.category)}"] if self.category else []
        return ", and ".join(parts)

    def fingerprint(self) -> dict[str, str]:
        """Return digests of the files of the pool."""
        return digests(self.files)

    def read(self) -> pl.DataFrame:
        """Return the table as a frame."""
        return read_format(self.path, self.separator, self.encoding, self.sheet)[0]

    def load(self, tick: Tick = silent) -> Loaded:
        """Return the table; its features are computed once and then cached by content."""
        loaded = Loaded(self.read(), self, tick)
        slow = self.embedded and (self.texts or self.image)
        if not slow or (self.embeddings == "tfidf" and loaded.frame.height <= QUICK):
            loaded.prepare(tick)
        return loaded

    def encoder(self, tick: Tick = silent, frame: pl.DataFrame | None = None) -> Encoder:
        """Return the encoder of this table's rows; computed once, like the features."""
        frame = self.read() if frame is None else frame
        if self.vectors:
            return Vectors(int(from_npy(self.vectors, frame.height).shape[1]))
        parts = [(encoder, scale) for encoder, _, scale in self._columns(frame)]
        if self.embedded:
            arrays = self._embedding(frame, tick, features=False)
            described = json.loads(arrays.pop("described").tobytes())
            # The same texts may stand under another name elsewhere.
            columns = [self.image] if self.pictured else list(self.texts)
            parts.insert(0, (Encoder.restored({**described, "columns": columns}, arrays), 1.0))
        encoders, scales = zip(*parts, strict=True)
        return encoders[0] if len(parts) == 1 else Concatenated(list(encoders), list(scales))

    def features_of(self, frame: pl.DataFrame, tick: Tick) -> NDArray[Any] | NpyFile:
        """Return the features of the table's own rows."""
        if self.vectors:
            return from_npy(self.vectors, frame.height)
        parts = [X * scale for _, X, scale in self._columns(frame)]
        if self.embedded:
            # Vectors of texts, which take long to make, are kept without their columns.
            parts.insert(0, self._embedding(frame, tick, features=True)["X"])
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1, dtype=np.float32)

    def _columns(self, frame: pl.DataFrame) -> list[tuple[Encoder, NDArray[Any], float]]:
        """Return the encoders of columns, their features, and the scales of these."""
        kinds = ((Numbers, self.numeric), (Categories, self.category))
        return [
            (*kind.fit(frame, names), WEIGHT * len(names) ** -0.5 if self._weighed else 1.0)
            for kind, names in kinds
            if names and not self.pictured
        ]

    def _embedding(self, frame: pl.DataFrame, tick: Tick, *, features: bool) -> Any:
        """Return features of texts or pictures ("X"), or the state of their encoder."""
        if not self.texts and not self.image:
            raise BadParameter(
                f"embeddings={self.embeddings!r} needs a text column. Name the column to read."
            )
        model = self.embeddings
        if self.pictured:
            read = picture_paths(frame, str(self.image), Path(self.path))
            content = [f"{path} {stamp_of(path)}" for path in read]
        else:
            read = content = joined(frame, self.texts)

        def compute() -> dict[str, NDArray[Any]]:
            encoder: Encoder
            if model == "tfidf":
                encoder, X = Tfidf.fit(read, tick)
            elif model == "pixels":
                encoder, X = Pixels.fit(read, tick)
            else:
                encoder, X = (Pictures if self.pictured else Sentences).fit(read, model, tick)
            described, arrays = encoder.state()
            kept = np.frombuffer(json.dumps(described).encode(), dtype=np.uint8)
            return {"X": X, "described": kept, **arrays}

        return cached(self.features.partition("+")[0], content, compute, features=features)


class Loaded:
    """A table in memory; its features are computed when they are first needed."""

    def __init__(self, frame: pl.DataFrame, source: Table, tick: Tick = silent) -> None:
        self.frame, self.source, self._tick = frame, source, tick
        self._X: NDArray[Any] | NpyFile | None = None
        self._lock = threading.Lock()

    @property
    def ready(self) -> bool:
        return self._X is not None

    @property
    def X(self) -> NDArray[Any] | NpyFile:
        """The features."""
        return self.prepare()

    def prepare(self, tick: Tick | None = None) -> NDArray[Any] | NpyFile:
        """Return the features, computed once; other threads wait for it."""
        with self._lock:
            if self._X is None:
                self._X = self.source.features_of(self.frame, tick or self._tick)
            return self._X

    @property
    def folder(self) -> Path:
        """The folder of the table, or of the pictures; their paths start here."""
        path = Path(self.source.path).absolute()
        return path if path.is_dir() else path.parent

    @cached_property
    def _shown(self) -> pl.DataFrame:
        return as_json(self.frame.drop(self.source.guesses))

    def encoder(self, tick: Tick = silent) -> Encoder:
        """Return the encoder of these rows, for others."""
        return self.source.encoder(tick, self.frame)

    def copies(self) -> dict[int, int]:
        """Return row -> the first row with the same text, and the same in other columns that are read."""
        source = self.source
        read = [*source.texts, *source.numeric, *source.category]
        return copies_in(self.frame.select(read)) if source.texts else {}

    def aside(self) -> tuple[list[int], list[str]]:
        """Return the rows that nobody can answer, and a note about them if that is news."""
        source = self.source
        if source.pictured:
            gone = np.flatnonzero(~np.any(self.X, axis=1)).tolist()
            first = self.frame[str(source.image)][gone[0]] if gone else ""
            note = f"{len(gone)} pictures cannot be read (first {first}); they are set aside."
            return gone, [note] if gone else []
        if not source.texts or source.image:
            return [], []
        rows = without_text(joined(self.frame, source.texts))
        if len(rows) == self.frame.height:
            raise BadInput(
                f"The texts of {Path(source.path).name} hold no words. Choose another column to read."
            )
        return rows, []

    def words(self, first_row: int, n: int) -> pl.Series:
        """Return each of n rows as one text."""
        first = [*self.source.texts, *([self.source.image] if self.source.image else [])]
        rows = self._shown.slice(first_row, n)
        cells = as_text(rows).select(pl.col(first), pl.exclude(first).cast(pl.String))
        words = pl.concat_str(pl.all(), separator=" ", ignore_nulls=True).alias("words")
        return cells.select(words)["words"] if cells.width else pl.Series([""] * cells.height)

    def show(self, row: int) -> dict[str, Any]:
        """Return a row as people see it, as JSON holds it."""
        values = self._shown.row(row, named=True)
        read = [values.pop(name) for name in self.source.texts]
        main: dict[str, Any] = {}
        if read:
            main["text"] = read[0] if len(read) == 1 else "\n\n".join(str(t) for t in read if t)
        if self.source.image:
            main["image"] = values.pop(self.source.image)
        return {"row": row, **main, "columns": values}

    def picture(self, row: int, folder: Path | None = None) -> tuple[bytes, str]:
        """Return the picture of a row, which lies in `folder`, and its type; no SVG: it can hold scripts."""
        name, home = self.show(row).get("image"), (folder or self.folder).resolve()
        if not name:
            raise DataMissing(f"Row {row} has no picture.")
        try:
            path = (home / str(name)).resolve(strict=True)
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
                f"The picture of row {row} could not be read ({error.strerror or error}). Check its disk."
            ) from error
        for pattern, kind in SIGNATURES.items():
            if re.match(pattern, content, re.DOTALL):
                return content, kind
        raise DataMissing(
            f"The file of row {row} must be a PNG, JPEG, GIF, WebP, AVIF or BMP picture."
        )


def named_table(pool: Any) -> Table | None:
    """Return the table that a pool is, or is the path of; None for rows in memory."""
    path = isinstance(pool, (str, os.PathLike))
    return Table(os.fspath(pool)) if path else pool if isinstance(pool, Table) else None


def write_sample(folder: Path) -> Path:
    """Return the path of the sample, messages.csv, in `folder`; written if it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "messages.csv"
    if not path.exists():
        path.write_bytes((files("goalward.studio.tables") / "messages.csv").read_bytes())
    return path
