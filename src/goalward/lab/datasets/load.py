"""Datasets by name, those that scikit-learn carries among them; or a user's own table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.preprocessing import scale

from goalward.core.arrays import is_sparse, to_numpy
from goalward.core.place import described
from goalward.core.rows import clean_rows
from goalward.core.sparse import check_archive
from goalward.errors import BadInput, BadParameter, Unsupported
from goalward.lab.datasets.dataset import Dataset, stratified
from goalward.lab.datasets.keel import KEEL, keel
from goalward.lab.datasets.letter import letter
from goalward.lab.datasets.pictures import fashion_mnist, mnist
from goalward.lab.datasets.rt_polarity import rt_polarity
from goalward.lab.datasets.synth2 import synth2
from goalward.lab.datasets.text import text

__all__ = [
    "DATASETS",
    "as_dataset",
    "breast_cancer",
    "digits",
    "digits_3v8",
    "from_arrays",
    "from_file",
    "load",
    "wine",
]


def digits() -> Dataset:
    """Return the 1,797 handwritten digits, 8 x 8 grey levels in [0, 1]."""
    X, y = load_digits(return_X_y=True)
    return stratified("digits", X / 16.0, y, "scikit-learn load_digits")


def digits_3v8() -> Dataset:
    """Return the digits 3 against 8: two classes that are easily confused."""
    X, y = load_digits(return_X_y=True)
    keep = (y == 3) | (y == 8)
    source = "scikit-learn load_digits, 3 against 8"
    return stratified("digits-3v8", X[keep] / 16.0, y[keep], source, C=0.05, per_class=5)


def breast_cancer() -> Dataset:
    """Return the Wisconsin diagnostic breast cancer data, z-scored."""
    X, y = load_breast_cancer(return_X_y=True)
    source = "scikit-learn load_breast_cancer, z-scored"
    return stratified("breast-cancer", scale(X), y, source, C=0.5, per_class=5)


def wine() -> Dataset:
    """Return the wine recognition data, z-scored."""
    X, y = load_wine(return_X_y=True)
    return stratified("wine", scale(X), y, "scikit-learn load_wine, z-scored")


def ringnorm() -> Dataset:
    """Return 7,400 rows of Breiman's ringnorm: two Gaussians of different spread around one another.

    No linear model is right here. KEEL's copy, `ring`, has lost its decimal points.
    """
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 3700)
    spread, centre = np.where(y, 1.0, 2.0)[:, None], np.where(y, 2 / 20**0.5, 0.0)[:, None]
    X = centre + spread * rng.standard_normal((len(y), 20))
    return stratified("ringnorm", scale(X), y, "generated from seed 0, z-scored", C=0.5)


DATASETS: dict[str, Callable[[], Dataset]] = {
    "synth2": synth2,
    "letter": letter,
    "rt-polarity": rt_polarity,
    "rt-polarity:minilm": partial(rt_polarity, "minilm"),
    "rt-polarity:smollm2": partial(rt_polarity, "smollm2"),
    "digits": digits,
    "digits-3v8": digits_3v8,
    "breast-cancer": breast_cancer,
    "wine": wine,
    "ringnorm": ringnorm,
    "mnist": mnist,
    "fashion-mnist": fashion_mnist,
    "subj": partial(text, "subj"),
    "trec": partial(text, "trec"),
    **{name: partial(keel, name) for name in KEEL},
}


def load(name: str, *, label: str = "label") -> Dataset:
    """Return a dataset by its name, or a user's table by its path.

    Examples
    --------
    >>> load("digits").X.shape
    (1797, 64)
    """
    if name in DATASETS:
        return DATASETS[name]()
    if Path(name).is_file():
        return from_file(Path(name), label=label)
    raise BadParameter(
        f"{name!r} is neither a dataset nor a file; one of {', '.join(DATASETS)}, or the path of a "
        ".csv, .parquet or .npz file, was expected. Check the spelling."
    )


def as_dataset(given: Any) -> Dataset:
    """Return a dataset, the one of a name, or that of your own (X, y)."""
    if isinstance(given, tuple) and len(given) == 2:
        return from_arrays(*given)
    if not isinstance(given, str | Dataset):
        raise BadParameter(
            f"dataset is {described(given)}; a name, (X, y) or a Dataset was expected. Use 'digits', say."
        )
    return load(given) if isinstance(given, str) else given


def from_arrays(X: Any, y: Any, *, name: str = "data", C: float = 1.0) -> Dataset:
    """Return your own rows and labels as a task, a quarter of it held out.

    Examples
    --------
    >>> from_arrays([[0.0], [1.0], [0.1], [1.1], [0.2], [1.2], [0.3], [1.3]], list("abababab")).classes
    ['a', 'b']
    """
    rows, y = clean_rows(X, name), np.ravel(y)
    if is_sparse(rows):
        raise Unsupported(
            f"{name} came as sparse rows, which are not simulated; dense ones were expected. Use "
            "TruncatedSVD, or X.toarray()."
        )
    X = to_numpy(rows)
    if len(y) != len(X):
        raise BadInput(
            f"{name} has {len(X)} rows and {len(y)} labels; as many of one as of the other were "
            "expected. Give every row a label."
        )
    counts = np.unique(y, return_counts=True)[1]
    if len(counts) < 2 or counts.min() < 4:
        raise BadInput(
            f"{name} has {len(counts)} classes, the smallest with {counts.min()} rows; two or "
            "more classes of at least 4 rows were expected. Merge or drop rare classes."
        )
    return stratified(name, X, y, name, C=C)


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
    return replace(from_arrays(X, y, name=path.name, C=C), name=path.stem)


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
        if not {"X", "y"} <= set(arrays):
            raise BadInput(
                f"{path.name} holds {', '.join(sorted(arrays))}; X and y were expected. Save it "
                "with np.savez(path, X=X, y=y)."
            )
        return arrays["X"], arrays["y"]


def _table(path: Path, label: str) -> tuple[NDArray[Any], NDArray[Any]]:
    readers: dict[str, Callable[[Path], pl.DataFrame]]
    readers = {".csv": pl.read_csv, ".parquet": pl.read_parquet}
    if path.suffix.lower() not in readers:
        raise BadInput(
            f"{path.name} ends in {path.suffix!r}; .csv, .parquet or .npz was expected. Convert it."
        )
    try:
        table = readers[path.suffix.lower()](path)
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
    features = table.drop(label)
    for name, kind in features.schema.items():
        if not (kind.is_numeric() or kind == pl.Boolean):
            raise BadInput(
                f"Column {name!r} of {path.name} is not numeric; numbers were expected. Encode or "
                "drop it."
            )
    return features.to_numpy().astype(np.float64), table[label].to_numpy()
