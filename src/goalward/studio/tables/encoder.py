"""What makes numbers of rows: fitted to one table, kept as plain data, used on any other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from goalward.core.npy import NpyFile
from goalward.core.rows import clean_rows
from goalward.errors import BadInput, DataMissing, PoolChanged, ShapeMismatch
from goalward.studio.tables.cells import listed, texts
from goalward.studio.tables.read import beside, read_table

__all__ = ["Encoder", "Rows", "Tick", "Vectors", "checked_columns", "from_npy", "joined", "silent"]

Tick = Callable[[str], None]
"""Says what is being done."""
Rows = pl.DataFrame | Sequence[str] | NDArray[Any]
"""A frame with the columns that are read, texts, or vectors made elsewhere."""


def silent(message: str) -> None:
    """Say nothing."""


class Encoder(ABC):
    """Features of rows, by what was learned from the rows of one table.

    The kinds of it are frozen dataclasses of numbers, texts and arrays: nothing else is kept.

    Examples
    --------
    >>> import polars as pl
    >>> from goalward.studio.tables.numbers import Numbers
    >>> encoder = Numbers.fitted(pl.DataFrame({"size": [1.0, 3.0]}), ["size"])
    >>> Encoder.restored(*encoder.state()).transform(pl.DataFrame({"size": [5.0]}))
    array([[3.]], dtype=float32)
    """

    kinds: ClassVar[dict[str, type[Encoder]]] = {}

    def __init_subclass__(cls) -> None:
        cls.kinds[cls.__name__.lower()] = cls

    @abstractmethod
    def transform(self, rows: Rows, tick: Tick = silent) -> NDArray[Any]:
        """Return a row of numbers for each row."""

    def read(self, path: str | Path, tick: Tick = silent) -> tuple[pl.DataFrame, Any]:
        """Return a table that is like the one it was fitted to, and its features."""
        frame = read_table(path)
        return frame, self.transform(frame, tick)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return all there is to keep: what JSON can hold, and arrays by name."""
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
        known = Encoder.kinds.get(str(kind))
        try:
            if known is not None:
                return known.made(plain, arrays)
        except (TypeError, ValueError, LookupError) as error:
            raise BadInput(f"Features of the kind {kind!r} cannot be these: {error}.") from error
        raise BadInput(
            f"Features of the kind {kind!r} came; one of {', '.join(sorted(Encoder.kinds))} was "
            "expected. Upgrade goalward."
        )


@dataclass(frozen=True, eq=False)
class Vectors(Encoder):
    """Vectors made elsewhere, taken as they are: an array, or a .npy file beside a table."""

    width: int

    def transform(self, rows: Rows, tick: Tick = silent) -> NDArray[Any]:
        """Return the vectors, checked."""
        if isinstance(rows, pl.DataFrame) or (len(rows) and isinstance(rows[0], str)):
            raise BadInput(
                f"Rows of a table came, and the model reads vectors of {self.width} numbers that were "
                "made elsewhere. Pass those, or put them beside the table as a .npy file of its name."
            )
        X: NDArray[Any] = clean_rows(rows, "rows")
        if X.shape[1] != self.width:
            raise ShapeMismatch(
                f"The rows have {X.shape[1]} numbers; {self.width} were expected, as the model learned "
                "them."
            )
        return X

    def read(self, path: str | Path, tick: Tick = silent) -> tuple[pl.DataFrame, Any]:
        """Return a table, and the vectors beside it."""
        frame, npy = read_table(path), beside(path, ".npy")
        if not npy.is_file():
            raise DataMissing(
                f"{npy.name} is not beside {Path(path).name}; the model reads vectors of "
                f"{self.width} numbers from there. Make them as those of the study were made."
            )
        found = from_npy(npy, frame.height)
        if found.shape[1] != self.width:
            self.transform(found.rows(0, 1))
        return frame, found


def checked_columns(frame: pl.DataFrame, names: Sequence[str]) -> None:
    """Raise if a frame lacks columns that are read."""
    missing = [name for name in names if name not in frame.columns]
    if missing:
        raise DataMissing(
            f"The table has the columns {listed(frame.columns)} and no {missing[0]!r}, which the "
            "model reads. Rename a column, or bring a table like the study's."
        )


def joined(rows: Rows, columns: Sequence[str]) -> list[str]:
    """Return the texts of rows: those given, or of these columns with empty lines between."""
    if not isinstance(rows, pl.DataFrame):
        if isinstance(rows, str) or not all(isinstance(text, str) for text in rows):
            raise BadInput("One text, or no texts, came; a list of texts was expected: ['good'].")
        return list(rows)
    checked_columns(rows, columns)
    parts = [texts(rows[name]).fill_null("").to_list() for name in columns]
    if len(parts) == 1:
        return parts[0]
    return ["\n\n".join(filter(None, cells)) for cells in zip(*parts, strict=True)]


def from_npy(path: Path, n_rows: int) -> NpyFile:
    """Return vectors from a .npy file, a row for each of the table; read when they are needed."""
    try:
        found = NpyFile(path, changed=PoolChanged)
    except (OSError, BadInput) as error:
        raise BadInput(
            f"{path.name} could not be read ({error}); a plain array was expected. Save it with "
            "np.save(path, X)."
        ) from error
    if found.ndim != 2 or found.shape[0] != n_rows or found.dtype.kind not in "fiu":
        raise BadInput(
            f"{path.name} holds {found.dtype} of shape {found.shape}; ({n_rows}, d) numbers, a row "
            "for each row of the table, were expected."
        )
    return found
