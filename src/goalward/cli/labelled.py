"""The rows and labels that a table names, for commands that take them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.errors import BadParameter
from goalward.tables.labels import label_column, read_labels, rows_meant, short

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
    table, first = read_labels(path, label="label", key="row")
    if names is None:
        places, expected = None, f"positions from 0 to {total - 1}"
        remedy = "Correct them; for ids, pass --ids COLUMN."
    else:
        places = {str(name): i for i, name in enumerate(names.tolist())}
        expected = f"ids of the pool, like {short(next(iter(places), ''))},"
        remedy = "Correct them, or leave those rows out."
    rows = list(rows_meant(table["row"], places, total))
    wrong = [(line, why) for line, why in enumerate(rows, start=first) if isinstance(why, str)]
    if wrong:
        said = "; ".join(f"line {line}, {why}" for line, why in wrong[:5])
        raise BadParameter(
            f"{path} names {len(wrong)} rows that the pool does not have ({said}"
            f"{'; ...' if len(wrong) > 5 else ''}); {expected} were expected. {remedy}"
        )
    at = np.array(rows, dtype=np.int64)
    if len(np.unique(at)) < len(at):
        raise BadParameter(f"{path} names a row twice; each once was expected. Keep one of them.")
    return at, label_column(table, "label")
