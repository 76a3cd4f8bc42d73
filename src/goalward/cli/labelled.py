"""The rows and labels that a table names, for commands that take them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from goalward.errors import BadParameter, DataMissing
from goalward.tables.cells import texts
from goalward.tables.formulas import unescaped
from goalward.tables.rows import row_number, short

__all__ = ["labelled"]


def labelled(path: Path, names: NDArray[Any] | None, total: int) -> tuple[NDArray[Any], list[Any]]:
    """Return the positions and labels that a table names.

    Parameters
    ----------
    names
        Ids of the pool's rows, where rows are named by them.
    total
        How many rows the pool has.
    """
    table = _table(path)
    if names is None:
        expected = f"positions from 0 to {total - 1}"
        found = [_position(cell, total) for cell in table["row"]]
        remedy = "Correct them; for ids, pass --ids COLUMN."
    else:
        place = {str(name): i for i, name in enumerate(names.tolist())}
        expected = f"ids of the pool, like {short(next(iter(place), ''))},"
        found = [place.get(cell, f"{short(cell)} is not an id") for cell in texts(table["row"])]
        remedy = "Correct them, or leave those rows out."
    # As an editor counts: after the header of a text table.
    first = 1 if path.suffix.lower() == ".parquet" else 2
    wrong = [(line, why) for line, why in enumerate(found, start=first) if isinstance(why, str)]
    if wrong:
        said = "; ".join(f"line {line}, {why}" for line, why in wrong[:5])
        raise BadParameter(
            f"{path} names {len(wrong)} rows that the pool does not have ({said}"
            f"{'; ...' if len(wrong) > 5 else ''}); {expected} were expected. {remedy}"
        )
    at = np.array(found, dtype=np.int64)
    if len(np.unique(at)) < len(at):
        raise BadParameter(f"{path} names a row twice; each once was expected. Keep one of them.")
    return at, table["label"].to_list()


def _table(path: Path) -> pl.DataFrame:
    if not path.exists():
        raise DataMissing(f"{path} is not there; a table of row and label was expected.")
    try:
        if path.suffix.lower() == ".parquet":
            table = pl.read_parquet(path)
        else:
            # Rows as they are written: true is not 1, and among ids 007 is not 7.
            table = unescaped(pl.read_csv(path, schema_overrides={"row": pl.String}))
    except (OSError, pl.exceptions.PolarsError) as error:
        raise DataMissing(f"{path} cannot be read ({error}); a table was expected.") from error
    missing = {"row", "label"} - set(table.columns)
    if missing:
        raise DataMissing(
            f"{path} has the columns {', '.join(table.columns)}; row and label were expected. "
            "Rename them."
        )
    return table


def _position(cell: Any, total: int) -> int | str:
    row = row_number(cell)
    if row is None:
        return f"{short(cell)} is not a row number"
    return row if 0 <= row < total else f"row {row} is not in the pool of {total}"
