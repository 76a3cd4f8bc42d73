"""Datasets by name, and those that scikit-learn carries: always there, no network."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.preprocessing import scale

from goalward.errors import BadParameter
from goalward.lab.datasets.dataset import Dataset, Stratified
from goalward.lab.datasets.files import from_file
from goalward.lab.datasets.keel import KEEL, keel
from goalward.lab.datasets.letter import letter
from goalward.lab.datasets.rt_polarity import rt_polarity
from goalward.lab.datasets.synth2 import synth2
from goalward.learners import Logistic

__all__ = ["DATASETS", "breast_cancer", "digits", "digits_3v8", "load", "wine"]


def digits() -> Dataset:
    """Return the 1,797 handwritten digits, 8 x 8 grey levels in [0, 1]."""
    X, y = load_digits(return_X_y=True)
    split = Stratified(y, per_class=2, test=0.25)
    return Dataset("digits", X / 16.0, y, split, Logistic(C=1.0), "scikit-learn load_digits")


def digits_3v8() -> Dataset:
    """Return the digits 3 against 8: two classes that are easily confused."""
    X, y = load_digits(return_X_y=True)
    keep = (y == 3) | (y == 8)
    X, y = X[keep] / 16.0, y[keep]
    split = Stratified(y, per_class=5, test=0.25)
    source = "scikit-learn load_digits, 3 against 8"
    return Dataset("digits-3v8", X, y, split, Logistic(C=0.05), source)


def breast_cancer() -> Dataset:
    """Return the Wisconsin diagnostic breast cancer data, z-scored."""
    X, y = load_breast_cancer(return_X_y=True)
    split = Stratified(y, per_class=5, test=0.25)
    source = "scikit-learn load_breast_cancer, z-scored"
    return Dataset("breast-cancer", scale(X), y, split, Logistic(C=0.5), source)


def wine() -> Dataset:
    """Return the wine recognition data, z-scored."""
    X, y = load_wine(return_X_y=True)
    split = Stratified(y, per_class=2, test=0.25)
    source = "scikit-learn load_wine, z-scored"
    return Dataset("wine", scale(X), y, split, Logistic(C=1.0), source)


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
    **{name: partial(keel, name) for name in KEEL},
}


def load(name: str, *, label: str = "label", C: float | None = None) -> Dataset:
    """Return a dataset by its name, or a user's table by its path.

    Examples
    --------
    >>> load("digits").X.shape
    (1797, 64)
    """
    if name in DATASETS:
        return DATASETS[name]()
    if Path(name).is_file():
        return from_file(Path(name), label=label, C=1.0 if C is None else C)
    raise BadParameter(
        f"{name!r} is neither a dataset nor a file; one of {', '.join(DATASETS)}, or the path of a "
        ".csv, .parquet or .npz file, was expected. Check the spelling."
    )
