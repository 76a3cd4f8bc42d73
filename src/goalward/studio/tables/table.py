"""A table as a pool: which columns a person sees, and which numbers a model sees."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from goalward.core.npy import NpyFile, stamp_of
from goalward.errors import BadInput, BadParameter, DataMissing
from goalward.studio.tables.cache import cached_arrays, digests
from goalward.studio.tables.cells import as_json, as_text, listed
from goalward.studio.tables.columns import READ, Kinds, copies_in, notes_of, without_text
from goalward.studio.tables.encoder import Encoder, Tick, Vectors, from_npy, joined, silent
from goalward.studio.tables.numbers import Categories, Numbers, SideBySide, TamedNumbers
from goalward.studio.tables.pictures import Pictures, Pixels, paths
from goalward.studio.tables.read import PICTURE, beside, written
from goalward.studio.tables.words import DRAWN, Sentences, Words, installed, pretrained, text_way

__all__ = ["Loaded", "Table", "named_table"]


# A table in memory: its cells at once, its features when they are needed.


if TYPE_CHECKING:
    pass


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


TEXT_RECIPE = "tfidf-svd-256/1"
"""Changes whenever `Words` computes something else: old caches are then left alone, and
studies made with the old one must still find it, or say what takes its place."""
COLUMNS_RECIPE = "columns/1"
"""Changes whenever `TamedNumbers` or `Categories` do."""
WEIGHT = 0.4
"""Root mean square length of the numbers of a row, and of its values, beside a text's of 1. In
tables where columns tell more than texts, 0.35 to 1 were as right; where they tell nothing, 0.35
cost 2 points at 100 labels, 0.5 cost 5 and 1 cost 11. 0.4 lies between what was measured."""
QUICK = 2000
"""Texts whose TF-IDF nobody waits for."""
PLAIN = "small grey pixels, edges and colours"
Names = Sequence[str] | str | None


@dataclass(frozen=True)
class Table:
    """A file whose rows are to be labelled: .csv, .tsv, .xlsx, .json, .jsonl or .parquet, also .gz.

    Or a folder of pictures, those in its subfolders too.

    Parameters
    ----------
    text, image
        The columns a person reads, one or several, or the one with paths of pictures.
    numeric, category
        Columns of numbers and of values that are features, beside the text if there is one.
        Default: where there is no image, all that are such.
    embeddings
        Features: "tfidf", "minilm" (with the `[text]` extra), the folder of a sentence encoder,
        or a .npy file. "auto" takes the .npy file of the table's name beside it if there is one,
        else TF-IDF of texts and "pixels" of pictures, for which the folder or the name of an image
        encoder does more (with the `[vision]` extra). "columns" leaves texts to people, and takes numbers and values alone.
    separator, encoding, sheet
        Of a text file, and of a workbook; found out by default.
    guesses
        The column of a second opinion, and perhaps one that says how sure it is: no features, and
        not among the columns a person sees.
    notes
        What was found in the table that a person should know; `settled` says it.
    alone
        Take no column that is not named.
    beside
        How columns stand beside a text: "columns/1" in studies of earlier versions.

    Examples
    --------
    >>> Table("reviews.csv", text="text").texts
    ('text',)
    """

    path: str
    text: Names = None
    image: str | None = None
    numeric: tuple[str, ...] = ()
    embeddings: str = "auto"
    category: tuple[str, ...] = ()
    separator: str | None = None
    encoding: str | None = None
    notes: tuple[str, ...] = field(default=(), compare=False, repr=False)
    guesses: tuple[str, ...] = ()
    alone: bool = False
    beside: str = "columns/2"
    sheet: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", os.fspath(self.path))
        for name in ("numeric", "category", "notes", "guesses"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not isinstance(self.text, str | None):
            one = len(self.text) == 1
            object.__setattr__(self, "text", self.text[0] if one else tuple(self.text) or None)

    @property
    def texts(self) -> tuple[str, ...]:
        """The columns that are read, none or several."""
        return (self.text,) if isinstance(self.text, str) else tuple(self.text or ())

    def settled(self) -> Table:
        """Return the same table with every choice made, so that it stays as it is later."""
        frame, how = written(self.path, self.separator, self.encoding, self.sheet)
        encoding, separator, sheet, _ = how
        made = replace(self._named(frame), separator=separator, encoding=encoding, sheet=sheet)
        npy = beside(self.path, ".npy")
        embeddings = made.embeddings
        if embeddings == "auto" and npy.is_file():
            embeddings = str(npy)
        elif embeddings == "auto" and made.texts:
            embeddings, said = text_way(frame.height)
            made = replace(made, notes=(*made.notes, said) if said else made.notes)
        elif embeddings == "auto":
            alone = made.image and not made.numeric + made.category
            embeddings = "pixels" if alone else "columns"
        elif embeddings == "tfidf" and frame.height > DRAWN:
            embeddings = "tfidf-drawn"
        elif embeddings == "numeric":
            # By its first name, which stays that of the features it had.
            embeddings = "columns"
        if embeddings == "columns" and not made.numeric + made.category:
            raise BadParameter(
                "Features of columns were asked for, and none is named; columns of numbers or values "
                "were expected. Name some of them."
            )
        made = replace(made, embeddings=embeddings)
        if made.texts and made.features.startswith("sentences/"):
            installed(embeddings)
        elif made.features.startswith("pictures/"):
            # What a person names is fetched, what a stored study names is not.
            pretrained(embeddings, fetch=True)
        features = () if made.vectors else made.numeric
        read = joined(frame, made.texts) if made.texts else None
        return replace(made, notes=(*made.notes, *notes_of(self.path, frame, how, features, read)))

    def _named(self, frame: pl.DataFrame) -> Table:
        """Return the table with columns that it has: those named, else what they are taken for."""
        made = replace(self, image=PICTURE) if Path(self.path).is_dir() else self
        if isinstance(self.text, str) and self.text not in frame.columns and "," in self.text:
            made = replace(made, text=tuple(name.strip() for name in self.text.split(",")))
        name = Path(self.path).name
        for one in (*made.texts, made.image, *made.numeric, *made.category, *made.guesses):
            if one is not None and one not in frame.columns:
                raise BadParameter(
                    f"{name} has the columns {listed(frame.columns)}; one called {one!r} was expected. "
                    "Correct the name."
                )
        if made.image or made.numeric or made.category or (made.texts and made.alone):
            return made
        kinds = Kinds.of(frame.drop(made.guesses, *made.texts))
        if made.texts:
            kinds = replace(
                kinds, texts=made.texts, left=kinds.left | dict.fromkeys(kinds.texts, READ)
            )
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
            f"{name} has no column to learn from: {why or 'none at all'}; a text, or numbers, were "
            "expected. Name a column to read, or some of numbers or values."
        )

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
        named = {"numeric": "numbers/1", "columns": COLUMNS_RECIPE}
        named |= {"tfidf": TEXT_RECIPE, "tfidf-drawn": "tfidf-drawn/1", "pixels": "pixels/1"}
        kind = "pictures" if self.pictured else "sentences"
        text = named.get(self.embeddings, f"{kind}/1/{self.embeddings}")
        return f"{text}+{self.beside}" if self._beside_text else text

    @property
    def pictured(self) -> bool:
        """Whether the features are made of pictures."""
        alone = self.vectors or self.embeddings in ("numeric", "columns")
        return bool(self.image and not self.texts and not alone)

    @property
    def _beside_text(self) -> bool:
        """Whether numbers or values stand beside vectors of the text."""
        alone = self.vectors or self.embeddings in ("numeric", "columns") or self.pictured
        return bool(not alone and (self.numeric or self.category))

    @property
    def says(self) -> str:
        """What the model looks at, for people."""
        if self.vectors:
            return f"vectors of {self.vectors.name}"
        parts = []
        if self.embeddings not in ("numeric", "columns"):
            named = {"tfidf": "TF-IDF", "tfidf-drawn": "TF-IDF"}
            named |= {"minilm": "MiniLM vectors", "pixels": PLAIN}
            way = named.get(self.embeddings, f"{Path(self.embeddings).name} vectors")
            parts.append(f"{way} of {', '.join(self.texts) or self.image}")
        numbers = self.numeric if not parts or self._beside_text else ()
        parts += [f"the numbers of {', '.join(numbers)}"] if numbers else []
        parts += [f"the values of {', '.join(self.category)}"] if self.category else []
        return ", and ".join(parts)

    def fingerprint(self) -> dict[str, str]:
        """Return digests of the files the pool is made of."""
        return digests(self.files)

    def read(self) -> pl.DataFrame:
        """Return the table as a frame."""
        return written(self.path, self.separator, self.encoding, self.sheet)[0]

    def load(self, tick: Tick = silent) -> Loaded:
        """Return the table; its features are computed once and then cached by content."""
        loaded = Loaded(self.read(), self, tick)
        if self.quick(loaded.frame.height):
            loaded.prepare(tick)
        return loaded

    def quick(self, rows: int) -> bool:
        """Return whether the features of so many rows are a matter of a second."""
        slow = self.pictured or (self.texts and not self.vectors and self.embeddings != "columns")
        return not slow or (self.embeddings == "tfidf" and rows <= QUICK)

    def encoder(self, tick: Tick = silent, frame: pl.DataFrame | None = None) -> Encoder:
        """Return what makes the features, as it is for the rows of this table.

        Computed once, like the features themselves.
        """
        frame = self.read() if frame is None else frame
        if self.vectors:
            return Vectors(int(from_npy(self.vectors, frame.height).shape[1]))
        if self.embeddings == "numeric":
            return Numbers.fitted(frame, self.numeric)
        parts = self._columns(frame)
        if self.embeddings != "columns":
            arrays = self._arrays(frame, tick, lambda name: name != "X")
            described = json.loads(arrays.pop("described").tobytes())
            # The same texts may stand under another name elsewhere.
            columns = [self.image] if self.pictured else list(self.texts)
            text = Encoder.restored({**described, "columns": columns}, arrays)
            parts = [(text, 1.0), *(parts if self._beside_text else [])]
        if len(parts) == 1:
            return parts[0][0]
        return SideBySide([part for part, _ in parts], [scale for _, scale in parts])

    def _columns(self, frame: pl.DataFrame) -> list[tuple[Encoder, float]]:
        """Return what makes features of columns, and what they are multiplied by."""
        weight = WEIGHT if self.beside != "columns/1" else 1.0
        found: list[tuple[Encoder, float]] = []
        if self.numeric:
            scale = weight * len(self.numeric) ** -0.5 if self._beside_text else 1.0
            found.append((TamedNumbers.fitted(frame, self.numeric), scale))
        if self.category:
            length = 1.0 if self.beside == "columns/1" else len(self.category) ** -0.5
            scale = weight * length if self._beside_text else 1.0
            found.append((Categories.fitted(frame, self.category), scale))
        return found

    def features_of(self, frame: pl.DataFrame, tick: Tick) -> NDArray[Any] | NpyFile:
        """Return the features of the table's own rows."""
        if self.vectors:
            return from_npy(self.vectors, frame.height)
        if self.embeddings in ("numeric", "columns"):
            return self.encoder(tick, frame).transform(frame, tick)
        X = self._arrays(frame, tick, lambda name: name == "X")["X"]
        if not self._beside_text:
            return X
        # Vectors of texts, which take long to make, are kept without their columns.
        columns = [part.transform(frame, tick) * scale for part, scale in self._columns(frame)]
        return np.concatenate([X, *columns], axis=1, dtype=np.float32)

    def _arrays(
        self, frame: pl.DataFrame, tick: Tick, wanted: Callable[[str], bool]
    ) -> dict[str, NDArray[Any]]:
        """Return features of texts or pictures ("X"), or the state of what makes them."""
        if not self.texts and not self.image:
            raise BadParameter(
                f"embeddings={self.embeddings!r} came without a text column; one was expected. Name the column to read."
            )
        model = self.embeddings
        if self.pictured:
            read = paths(frame, str(self.image), Path(self.path))
            content = [f"{path} {stamp_of(path)}" for path in read]
            plain: Callable[..., Any] = Pixels.fitted
            learned: Callable[..., Any] = Pictures.fitted
        else:
            read = content = joined(frame, self.texts)
            drawn = DRAWN if model == "tfidf-drawn" else None
            plain, learned = partial(Words.fitted, drawn=drawn), Sentences.fitted

        def compute() -> dict[str, NDArray[Any]]:
            by_name = model in ("tfidf", "tfidf-drawn", "pixels")
            encoder, X = plain(read, tick) if by_name else learned(read, model, tick)
            described, arrays = encoder.state()
            kept = np.frombuffer(json.dumps(described).encode(), dtype=np.uint8)
            return {"X": X, "described": kept, **arrays}

        recipe = self.features.partition("+")[0]
        arrays = cached_arrays(recipe, content, wanted, compute)
        return {name: array for name, array in arrays.items() if wanted(name)}


def named_table(pool: Any) -> Table | None:
    """Return the table that a pool is, or is the path of; None for rows in memory."""
    path = isinstance(pool, (str, os.PathLike))
    return Table(os.fspath(pool)) if path else pool if isinstance(pool, Table) else None
