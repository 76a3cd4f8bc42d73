"""Encoders turn rows into features: fitted to one table, stored as plain data, used on any."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from goalward.core.files import NpyFile
from goalward.core.rows import clean_rows
from goalward.errors import BadInput, DataMissing, PoolChanged, ShapeMismatch
from goalward.studio.tables.cells import listed, texts
from goalward.studio.tables.columns import MOST_VALUES, is_missing, numbers_in
from goalward.studio.tables.read import beside, read_table

Tick = Callable[[str], None]
Rows = pl.DataFrame | Sequence[str] | NDArray[Any]
"""A frame with the columns that are read, texts, or vectors made elsewhere."""


def silent(message: str) -> None:
    """Report nothing."""


class Encoder(ABC):
    """Features of rows, learned from the unlabelled rows of one table.

    Subclasses are frozen dataclasses; their `fit` returns the encoder and the features of its rows.

    Examples
    --------
    >>> import polars as pl
    >>> from goalward.studio.tables.encoder import Categories
    >>> encoder, _ = Categories.fit(pl.DataFrame({"town": ["Rome", "Oslo"]}), ["town"])
    >>> Encoder.restored(*encoder.state()).transform(pl.DataFrame({"town": ["Rome"]}))
    array([[0., 1.]], dtype=float32)
    """

    kinds: ClassVar[dict[str, type[Encoder]]] = {}

    def __init_subclass__(cls) -> None:
        if "transform" in vars(cls):
            cls.kinds[cls.__name__.lower()] = cls

    @abstractmethod
    def transform(self, rows: Rows, tick: Tick = silent) -> NDArray[Any]:
        """Return the features of rows."""

    def read(self, path: str | Path, tick: Tick = silent) -> tuple[pl.DataFrame, Any]:
        """Return a table like the one it was fitted to, and its features."""
        frame = read_table(path)
        return frame, self.transform(frame, tick)

    def blank(self, frame: pl.DataFrame, X: Any) -> NDArray[Any]:
        """Return which rows of a frame, with features X, hold nothing to read."""
        return np.zeros(frame.height, dtype=bool)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the state to store: data for JSON, and arrays by name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
        plain = {name: value for name, value in values.items() if name not in arrays}
        return {"kind": type(self).__name__.lower(), **plain}, arrays

    @classmethod
    def made(cls, plain: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Encoder:
        """Return an encoder of this kind from its state."""
        return cls(**plain, **arrays)

    @staticmethod
    def restored(described: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Encoder:
        """Return the encoder of a state; anything else is `BadInput`."""
        kind, plain = described.get("kind"), {k: v for k, v in described.items() if k != "kind"}
        if kind not in Encoder.kinds:
            raise BadInput(
                f"An encoder must be one of {', '.join(Encoder.kinds)}, got {kind!r}. Upgrade goalward."
            )
        try:
            return Encoder.kinds[kind].made(plain, arrays)
        except (TypeError, ValueError, LookupError) as error:
            raise BadInput(f"The state of an encoder {kind!r} is damaged: {error}.") from error


@dataclass(frozen=True, eq=False)
class Vectors(Encoder):
    """Vectors made elsewhere, taken as they are: an array, or a .npy file beside a table."""

    width: int

    def transform(self, rows: Rows, tick: Tick = silent) -> NDArray[Any]:
        if isinstance(rows, pl.DataFrame) and all(kind.is_numeric() for kind in rows.dtypes):
            rows = rows.to_numpy()
        if isinstance(rows, pl.DataFrame) or (len(rows) and isinstance(rows[0], str)):
            raise BadInput(
                f"The model reads vectors of {self.width} numbers that were made elsewhere, got rows of "
                "a table. Pass vectors, or put them beside the table as a .npy file of its name."
            )
        X: NDArray[Any] = clean_rows(rows, "rows")
        if X.shape[1] != self.width:
            raise ShapeMismatch(f"Rows must have {self.width} numbers each, got {X.shape[1]}.")
        return X

    def read(self, path: str | Path, tick: Tick = silent) -> tuple[pl.DataFrame, Any]:
        frame, npy = read_table(path), beside(path, ".npy")
        if not npy.is_file():
            raise DataMissing(
                f"The model reads vectors of {self.width} numbers from {npy.name} beside "
                f"{Path(path).name}, and it is not there. Make them as those of the study were made."
            )
        vectors = from_npy(npy, frame.height)
        if vectors.shape[1] != self.width:
            self.transform(vectors.rows(0, 1))
        return frame, vectors


@dataclass(frozen=True, eq=False)
class Numbers(Encoder):
    """Columns of numbers: asinh((x - median) / width), then mean 0 and deviation 1; gaps are median."""

    columns: Sequence[str]
    commas: Sequence[str] = field(repr=False)
    median: NDArray[Any] = field(repr=False)
    width: NDArray[Any] = field(repr=False)
    mean: NDArray[Any] = field(repr=False)
    spread: NDArray[Any] = field(repr=False)

    @classmethod
    def fit(cls, frame: pl.DataFrame, columns: Sequence[str]) -> tuple[Self, NDArray[Any]]:
        cells = [numbers_in(frame[name]) for name in columns]
        X = np.stack([values for values, _ in cells], axis=1)
        for name, column in zip(columns, X.T, strict=True):
            if not np.isfinite(column).any():
                raise BadInput(
                    f"Column {name!r} must hold numbers, and holds none. Leave it out, or take it as text."
                )
        low, median, high = np.nanquantile(X, [0.25, 0.5, 0.75], axis=0)
        deviation = np.nanstd(X, axis=0)
        width = np.where(high > low, (high - low) / 1.349, np.where(deviation > 0, deviation, 1.0))
        tamed = np.arcsinh((np.where(np.isnan(X), median, X) - median) / width)
        spread = tamed.std(axis=0)
        shape = tamed.mean(axis=0), np.where(spread > 0, spread, 1.0)
        encoder = cls(list(columns), [comma for _, comma in cells], median, width, *shape)
        return encoder, encoder.transform(frame)

    def transform(self, rows: Rows, tick: Tick = silent) -> NDArray[Any]:
        frame = _frame(rows, self.columns)
        pairs = zip(self.columns, self.commas, strict=True)
        X = np.stack([numbers_in(frame[name], comma)[0] for name, comma in pairs], axis=1)
        tamed = np.arcsinh((np.where(np.isnan(X), self.median, X) - self.median) / self.width)
        return np.asarray((tamed - self.mean) / self.spread, dtype=np.float32)


@dataclass(frozen=True, eq=False)
class Categories(Encoder):
    """A 0/1 column for each value of some columns; a value that was not fitted has none."""

    columns: Sequence[str]
    values: Sequence[Sequence[str]] = field(repr=False)

    @classmethod
    def fit(cls, frame: pl.DataFrame, columns: Sequence[str]) -> tuple[Self, NDArray[Any]]:
        """Return the encoder of the most frequent values of a frame's columns, and their features."""
        values = []
        for name in columns:
            cells = texts(frame[name])
            counts = cells.filter(~is_missing(cells)).rename("value").value_counts()
            kept = counts.sort(["count", "value"], descending=[True, False])["value"]
            values.append(sorted(kept[:MOST_VALUES].to_list()))
        encoder = cls(list(columns), values)
        return encoder, encoder.transform(frame)

    def transform(self, rows: Rows, tick: Tick = silent) -> NDArray[Any]:
        frame = _frame(rows, self.columns)
        pairs = zip(self.columns, self.values, strict=True)
        made = [texts(frame[name]).fill_null("") == value for name, all_ in pairs for value in all_]
        return np.stack([column.to_numpy() for column in made], axis=1).astype(np.float32)


@dataclass(frozen=True, eq=False)
class Concatenated(Encoder):
    """Several encoders side by side, each multiplied by its scale."""

    parts: Sequence[Encoder]
    scales: Sequence[float]

    def transform(self, rows: Rows, tick: Tick = silent) -> NDArray[Any]:
        made = [p.transform(rows, tick) * s for p, s in zip(self.parts, self.scales, strict=True)]
        return np.concatenate(made, axis=1, dtype=np.float32)

    def blank(self, frame: pl.DataFrame, X: Any) -> NDArray[Any]:
        return np.asarray(np.any([part.blank(frame, None) for part in self.parts], axis=0))

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        states = [part.state() for part in self.parts]
        arrays = {f"{i}.{name}": a for i, s in enumerate(states) for name, a in s[1].items()}
        plain = {"parts": [described for described, _ in states], "scales": list(self.scales)}
        return {"kind": "concatenated", **plain}, arrays

    @classmethod
    def made(cls, plain: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        own: list[dict[str, NDArray[Any]]] = [{} for _ in plain["parts"]]
        for name, array in arrays.items():
            part, _, rest = name.partition(".")
            own[int(part)][rest] = array
        parts = [Encoder.restored(*pair) for pair in zip(plain["parts"], own, strict=True)]
        return cls(parts, plain["scales"])


def joined(rows: Rows, columns: Sequence[str]) -> list[str]:
    """Return the texts of rows: those given, or of these columns with empty lines between."""
    if not isinstance(rows, pl.DataFrame):
        if isinstance(rows, str) or not all(isinstance(text, str) for text in rows):
            raise BadInput("Rows must be a list of texts, such as ['good'], or a frame.")
        return list(rows)
    frame = _frame(rows, columns)
    parts = [texts(frame[name]).fill_null("").to_list() for name in columns]
    if len(parts) == 1:
        return parts[0]
    return ["\n\n".join(filter(None, cells)) for cells in zip(*parts, strict=True)]


def from_npy(path: Path, n_rows: int) -> NpyFile:
    """Return vectors from a .npy file, a row for each of the table; read when they are needed."""
    try:
        vectors = NpyFile(path, changed=PoolChanged)
    except (OSError, BadInput) as error:
        raise BadInput(
            f"{path.name} must be a plain array ({error}). Save it with np.save(path, X)."
        ) from error
    if vectors.ndim != 2 or vectors.shape[0] != n_rows or vectors.dtype.kind not in "fiu":
        raise BadInput(
            f"{path.name} must hold ({n_rows}, d) numbers, got {vectors.dtype} {vectors.shape}."
        )
    return vectors


def _frame(rows: Rows, columns: Sequence[str]) -> pl.DataFrame:
    """Return rows that are a frame with some columns, else raise."""
    if not isinstance(rows, pl.DataFrame):
        raise BadInput(
            f"Rows must be a frame with the columns {', '.join(columns)}, got a {type(rows).__name__}. "
            "Pass polars.DataFrame(...)."
        )
    missing = [name for name in columns if name not in rows.columns]
    if missing:
        raise DataMissing(
            f"Column {missing[0]!r}, which the model reads, is not in the table (columns: "
            f"{listed(rows.columns)}). Rename a column, or bring a table like the study's."
        )
    return rows
