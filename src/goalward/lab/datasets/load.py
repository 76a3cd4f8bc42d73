"""Datasets by name, or a user's own table."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import polars as pl
from numpy.typing import NDArray

from goalward.core.arguments import described
from goalward.core.arrays import is_sparse, to_numpy
from goalward.core.rows import check_archive, clean_rows
from goalward.errors import BadInput, BadParameter, Unsupported
from goalward.lab.datasets import tables, text
from goalward.lab.datasets.dataset import Dataset, stratified

DATASETS: dict[str, Callable[[], Dataset]] = {
    "synth2": tables.synth2,
    "letter": tables.letter,
    "letter:sample": tables.letter_sample,
    "rt-polarity": text.rt_polarity,
    "rt-polarity:sample": text.rt_polarity_sample,
    "rt-polarity:minilm": partial(text.rt_polarity, "minilm"),
    "rt-polarity:smollm2": partial(text.rt_polarity, "smollm2"),
    "digits": tables.digits,
    "digits-3v8": tables.digits_3v8,
    "breast-cancer": tables.breast_cancer,
    "wine": tables.wine,
    "ringnorm": tables.ringnorm,
    "mnist": tables.mnist,
    "fashion-mnist": tables.fashion_mnist,
    "subj": partial(text.text, "subj"),
    "trec": partial(text.text, "trec"),
    **{name: partial(tables.keel, name) for name in tables.KEEL},
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
        f"A dataset must be one of {', '.join(DATASETS)}, or the path of a .csv, .parquet or .npz "
        f"file, got {name!r}. Check the spelling."
    )


def as_dataset(given: Any) -> Dataset:
    """Return a dataset, the one of a name, or that of your own (X, y)."""
    if isinstance(given, tuple) and len(given) == 2:
        return from_arrays(*given)
    if not isinstance(given, str | Dataset):
        raise BadParameter(
            f"dataset must be a name, (X, y) or a Dataset, got {described(given)}. Use 'digits', say."
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
            f"Simulations need dense rows, and {name} is sparse. Use TruncatedSVD, or X.toarray()."
        )
    X = to_numpy(rows)
    if len(y) != len(X):
        raise BadInput(
            f"Every row needs a label: {name} has {len(X)} rows and {len(y)} labels. Make them equal."
        )
    counts = np.unique(y, return_counts=True)[1]
    if len(counts) < 2 or counts.min() < 4:
        raise BadInput(
            f"{name} needs two classes or more of at least 4 rows, got {len(counts)} classes, the "
            f"smallest with {counts.min()} rows. Merge or drop rare classes."
        )
    return stratified(name, X, y, name, C=C)


def from_file(path: Path, *, label: str = "label", C: float = 1.0) -> Dataset:
    """Return a file as a task: .csv or .parquet of numbers and the column `label`, or .npz with X, y."""
    X, y = _npz(path) if path.suffix.lower() == ".npz" else _table(path, label)
    return replace(from_arrays(X, y, name=path.name, C=C), name=path.stem)


def _npz(path: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    remedy = "Save it with np.savez(path, X=X, y=y)."
    try:
        with path.open("rb") as file:
            check_archive(file)
        with np.load(path, allow_pickle=False) as arrays:
            if {"X", "y"} <= set(arrays):
                return arrays["X"], arrays["y"]
            names = ", ".join(sorted(arrays))
    except (ValueError, OSError, EOFError, BadZipFile) as error:
        raise BadInput(f"{path.name} could not be read ({error}). {remedy}") from error
    raise BadInput(f"{path.name} must hold X and y, got {names}. {remedy}")


def _table(path: Path, label: str) -> tuple[NDArray[Any], NDArray[Any]]:
    readers: dict[str, Callable[[Path], pl.DataFrame]]
    readers = {".csv": pl.read_csv, ".parquet": pl.read_parquet}
    if path.suffix.lower() not in readers:
        raise BadInput(
            f"A file must be .csv, .parquet or .npz, got {path.name}. Convert it to one of them."
        )
    try:
        table = readers[path.suffix.lower()](path)
    except (pl.exceptions.PolarsError, UnicodeDecodeError) as error:
        raise BadInput(
            f"{path.name} could not be read ({error}). Check its format, and that it is UTF-8."
        ) from error
    if label not in table.columns:
        raise BadInput(
            f"Column {label!r} is not in {path.name} ({', '.join(table.columns[:10])}). Use --label."
        )
    if missing := table[label].null_count():
        raise BadInput(
            f"Every row needs a label, and {missing} rows of {path.name} have no {label!r}. Drop them."
        )
    features = table.drop(label)
    for name, kind in features.schema.items():
        if not (kind.is_numeric() or kind == pl.Boolean):
            raise BadInput(
                f"Features must be numeric, and {name!r} of {path.name} is {kind}. Encode or drop it."
            )
    return features.to_numpy().astype(np.float64), table[label].to_numpy()


# The datasets that a recipe is designed on, and those that only confirm it.


_WORDS = {
    "numbers": (
        "breast-cancer wine letter ringnorm banana bands bupa contraceptive haberman ionosphere magic "
        "mammographic marketing monk-2 movement_libras penbased phoneme pima satimage segment sonar "
        "spambase texture twonorm vehicle vowel wisconsin"
    ),
    "categories": "breast chess german housevotes mushroom saheart splice tic-tac-toe",
    "imbalanced": (
        "abalone-17_vs_7-8-9-10 car-good ecoli1 flare-F glass-0-1-2-3_vs_4-5-6 "
        "kddcup-guess_passwd_vs_satan kr-vs-k-zero-one_vs_draw new-thyroid1 page-blocks0 "
        "shuttle-c0-vs-c4 winequality-red-4 yeast3"
    ),
    "text": "rt-polarity:minilm subj trec",
    "pictures": "digits mnist fashion-mnist",
}
KINDS = {kind: tuple(words.split()) for kind, words in _WORDS.items()}  # by features

GENERATED = ("banana", "monk-2", "ringnorm", "twonorm")  # drawn from a formula

SHAPED = ("digits", "breast-cancer", "wine", "segment", "vehicle", "spambase", "ringnorm")
"""Sets whose results shaped earlier versions (ringnorm as KEEL's `ring`)."""


def _digest(name: str) -> int:
    return int(sha256(name.encode()).hexdigest(), 16)


_NAMES = tuple(name for names in KINDS.values() for name in names)

DESIGN = tuple(name for name in _NAMES if name in SHAPED or _digest(name) % 4 == 0)  # to try ideas

CONFIRM = tuple(name for name in _NAMES if name not in DESIGN)  # for a fixed recipe

IMBALANCED = (*KINDS["imbalanced"], "trec")
"""Sets whose smallest class has at most half of an even share: balanced accuracy matters there."""

FACTORS = (
    *("segment", "satimage", "texture", "german", "mushroom"),
    *("shuttle-c0-vs-c4", "car-good", "flare-F"),
    *("trec", "rt-polarity:minilm", "mnist", "digits"),
)
"""For runs that change one setting: of observed sets with 1,000 rows or more, the first by SHA-256."""
