"""A user's own table as a task: CSV, Parquet or NPZ."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import polars as pl
from numpy.typing import NDArray

from goalward.core.rows import clean_rows
from goalward.core.sparse import check_archive
from goalward.errors import BadInput
from goalward.lab.datasets.dataset import Dataset, Stratified
from goalward.learners import Logistic

__all__ = ["from_file"]


def from_file(path: Path, *, label: str = "label", C: float = 1.0) -> Dataset:
    """Return a table of numbers with a label column as a task, a quarter of it held out.

    Parameters
    ----------
    path
        .csv or .parquet with a column of labels, the others numbers; or .npz with X and y.
    label
        The name of the label column.
    """
    X, y = _npz(path) if path.suffix.lower() == ".npz" else _table(path, label)
    X = clean_rows(X, f"{path.name}")
    y = np.ravel(y)
    if len(y) != len(X):
        raise BadInput(
            f"{path.name} has {len(X)} rows and {len(y)} labels; as many of one as of the other were "
            "expected. Give every row a label."
        )
    counts = np.unique(y, return_counts=True)[1]
    if len(counts) < 2 or counts.min() < 4:
        raise BadInput(
            f"{path.name} has {len(counts)} classes, the smallest with {counts.min()} rows; two or "
            "more classes of at least 4 rows were expected. Merge or drop rare classes."
        )
    split = Stratified(y, per_class=2, test=0.25)
    return Dataset(path.stem, np.asarray(X), y, split, Logistic(C=C), str(path.name))


def _npz(path: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    try:
        with path.open("rb") as file:
            check_archive(file)
        loaded = np.load(path, allow_pickle=False)
    except (ValueError, OSError, EOFError, BadZipFile) as error:
        raise BadInput(
            f"{path.name} could not be read ({error}); an archive of plain arrays was expected. Save "
            "it with np.savez(path, X=X, y=y)."
        ) from error
    with loaded as arrays:
        missing = {"X", "y"} - set(arrays)
        if missing:
            raise BadInput(
                f"{path.name} holds {', '.join(sorted(arrays))}; X and y were expected. Save it "
                "with np.savez(path, X=X, y=y)."
            )
        return arrays["X"], arrays["y"]


def _table(path: Path, label: str) -> tuple[NDArray[Any], NDArray[Any]]:
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise BadInput(
            f"{path.name} ends in {path.suffix!r}; .csv, .parquet or .npz was expected. Convert it."
        )
    try:
        table = pl.read_csv(path) if path.suffix.lower() == ".csv" else pl.read_parquet(path)
    except (pl.exceptions.PolarsError, UnicodeDecodeError) as error:
        raise BadInput(
            f"{path.name} could not be read ({error}); a UTF-8 table was expected. Check its "
            "encoding and format."
        ) from error
    if label not in table.columns:
        raise BadInput(
            f"{path.name} has the columns {', '.join(table.columns[:10])}; a label column "
            f"{label!r} was expected. Name it with --label."
        )
    if table[label].null_count():
        raise BadInput(
            f"{table[label].null_count()} rows of {path.name} have no {label!r}; a label for every row "
            "was expected, since the simulation answers from it. Drop those rows."
        )
    rest = table.drop(label)
    texts = [
        name for name, kind in rest.schema.items() if not (kind.is_numeric() or kind == pl.Boolean)
    ]
    if texts:
        raise BadInput(
            f"Column {texts[0]!r} of {path.name} is not numeric; numbers were expected. Encode or "
            "drop it."
        )
    return rest.to_numpy().astype(np.float64), table[label].to_numpy()
