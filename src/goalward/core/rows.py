"""Validation of features: lists, frames, arrays and sparse matrices become clean rows."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import array_api_compat
import numpy as np
import scipy.sparse
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arguments import described, room_of
from goalward.core.arrays import (
    Array,
    Rows,
    dense,
    is_sparse,
    namespace,
    rows_at,
    scale_rows,
    to_numpy,
)
from goalward.core.files import Header, npy_header
from goalward.errors import BadInput, DataMissing, Empty, NotFinite, ShapeMismatch, TooLarge


def held(X: Any) -> Any:
    """Return rows that have a length and an index: lazy frames and datasets become frames."""
    if isinstance(X, np.ndarray):
        return X
    kind = f"{type(X).__module__.partition('.')[0]}.{type(X).__name__}"
    if kind == "polars.LazyFrame":
        return X.collect()
    if kind == "datasets.Dataset":
        return X.to_pandas()
    if kind == "datasets.Column":
        return list(X)
    if isinstance(X, Mapping) and not is_sparse(X):
        raise BadInput(
            f"Rows must be an array, a frame or a list, got a {type(X).__name__} with the keys "
            f"{', '.join(map(repr, list(X)[:5]))}. Pass the part that holds them, "
            f"x[{next(iter(X), 'train')!r}], or make a frame of it."
        )
    return X


def clean_rows(
    X: object,
    name: str = "X",
    *,
    n_features: int | None = None,
    finite: bool = True,
    least: int = 1,
) -> Rows:
    """Return `X` as finite floating rows; finite=False leaves the check of values to the caller."""
    X = held(X)
    if finite and is_sparse(X):
        check_sparse(X, name)
    plain = isinstance(X, np.ndarray) and X.dtype in (np.float32, np.float64)
    rows: Any = X if plain else _floating(X, name)
    if rows.ndim != 2:
        hint = " For one feature use X.reshape(-1, 1)." if rows.ndim == 1 else ""
        raise ShapeMismatch(
            f"{name} must be rows by features, (n, d), got shape {tuple(rows.shape)}. Pass a table "
            f"with one line per row.{hint}"
        )
    if rows.shape[0] < least:
        raise Empty(f"{name} has no rows; it needs at least 1. Pass some rows.")
    if n_features is not None and rows.shape[1] != n_features:
        raise ShapeMismatch(
            f"{name} must have {n_features} features, as the rows of the model have, got {rows.shape[1]}. "
            "Build labelled rows and pool with the same features, in order."
        )
    if rows.shape[1] == 0:
        raise ShapeMismatch(f"{name} has no features; it needs at least 1. Add a column.")
    if finite:
        check_finite(rows, name)
    return rows


def column_names(X: object) -> tuple[str, ...] | None:
    """Return the column names of a frame, or None if there are none or only numbers."""
    columns = getattr(X, "columns", None)
    if columns is None or getattr(X, "shape", None) is None:
        return None
    names = tuple(columns)
    return names if names and all(isinstance(name, str) for name in names) else None


def check_columns(X: object, expected: tuple[str, ...], name: str) -> None:
    """Raise if `X` is a frame with other columns or another order."""
    names = column_names(X)
    if names is not None and names != expected:
        raise ShapeMismatch(
            f"{name} must have the columns {', '.join(expected[:8])} of the labelled rows, in that "
            f"order, got {', '.join(names[:8])}. Reorder them."
        )


def _floating(X: object, name: str) -> Rows:
    if is_sparse(X):
        csr = scipy.sparse.csr_array(X)
        return csr if csr.dtype in (np.float32, np.float64) else csr.astype(np.float64)
    if array_api_compat.is_array_api_obj(X) and not isinstance(X, np.ndarray):
        xp = namespace(X)
        array: Any = X
        if array_api_compat.is_torch_array(array):
            array = array.detach()
        if array.dtype in (xp.float32, xp.float64):
            return array
        half = str(array.dtype).endswith("float16")  # bfloat16 too
        return xp.astype(array, xp.float32 if half else xp.float64)
    if not isinstance(X, np.ndarray) and (X is None or room_of(X)):
        raise BadInput(f"{name} must be rows by features, (n, d), got {described(X)}.")
    try:
        plain = to_numpy(X)
    except BadInput:
        raise  # rows on disk that have changed
    except ValueError as error:
        raise ShapeMismatch(
            f"{name} must be a table, got rows of different lengths ({error}). Give every row the "
            "same features."
        ) from error
    if plain.dtype in (np.float32, np.float64):
        return plain
    if plain.dtype == np.float16:
        return plain.astype(np.float32)
    if np.iscomplexobj(plain):
        raise BadInput(
            f"{name} must hold real numbers. Complex data not supported: pass real and imaginary "
            "parts as columns."
        )
    try:
        return plain.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise BadInput(
            f"{name} must hold numbers, got values that are not numbers ({error}). Encode text and "
            "categories first, in a scikit-learn Pipeline say."
        ) from error


def check_finite(rows: Rows, name: str, *, start: int = 0) -> None:
    """Raise if any number is NaN, infinite, or too large to be squared; rows count from `start`."""
    values = rows.data[: rows.indptr[-1]] if is_sparse(rows) else rows
    xp = namespace(values)
    if 0 in values.shape:
        return
    # NaN and infinity survive max and min, so no array of absolute values is needed.
    high, low = float(xp.max(values)), float(xp.min(values))
    limit = float(xp.finfo(values.dtype).max) ** 0.5 * 1e-3
    if high <= limit and -low <= limit:
        return
    largest = max(high, -low)
    if np.isfinite(high) and np.isfinite(low):
        raise TooLarge(
            f"{name} must hold numbers of at most {limit:.0e}, got {largest:.3g}, whose square "
            f"overflows. Rescale the features, with StandardScaler say."
        )
    bad = ~np.isfinite(to_numpy(values))
    if is_sparse(rows):
        at = int(bad.argmax())
        row, column = np.searchsorted(rows.indptr, at, side="right") - 1, rows.indices[at]
    else:
        row, column = np.argwhere(bad)[0]
    raise NotFinite(
        f"{name} must be finite, got {bad.sum()} NaN or infinite numbers, the first in row "
        f"{start + row}, column {column}. Drop those rows or impute them."
    )


SMALL = 64 * 2**20
RATIO = 100
"""Largest accepted ratio of unpacked to packed size; real matrices stay below 20."""


def check_sparse(X: Any, name: str) -> None:
    """Raise if a sparse matrix has invalid indices or no numbers."""
    wrong = None
    if X.dtype.kind == "c":
        wrong = "complex numbers. Complex data not supported"
    elif X.dtype.kind not in "fiub":
        wrong = f"values of type {X.dtype}"
    else:
        try:
            _check_indices(X)
        except (ValueError, TypeError, OverflowError) as error:
            wrong = f"an index or a pointer that is wrong ({error})"
    if wrong is not None:
        raise BadInput(
            f"{name} is a sparse matrix ({X.format}, {' x '.join(map(str, X.shape))}) with {wrong}. "
            "Build it again from (data, (row, column)): scipy.sparse.coo_array checks its input."
        )


def read_sparse(path: Path) -> scipy.sparse.csr_array:
    """Return the matrix of a SciPy .npz file, checked before and after unpacking."""
    try:
        with path.open("rb") as file:
            headers = check_archive(file)
            for name in ("indices", "indptr", "row", "col", "offsets"):
                if name in headers and headers[name].dtype.kind not in "iu":
                    raise BadInput(f"{name} that are {headers[name].dtype}, not whole numbers")
            matrix = scipy.sparse.load_npz(file)
        check_sparse(matrix, path.name)
        if len(matrix.shape) != 2:
            raise BadInput(f"a shape of {matrix.shape}, not (rows, features)")
        # Empty rows take memory once unpacked.
        most = max(SMALL, RATIO * path.stat().st_size)
        if matrix.format != "csr" and 8 * matrix.shape[0] > most:
            raise BadInput(f"{matrix.shape[0]} rows, most of them empty")
        return scipy.sparse.csr_array(matrix)
    except Exception as error:  # damaged archives fail in a dozen ways
        raise DataMissing(
            f"{path} must be a sparse matrix of SciPy ({error}). Save it with "
            "scipy.sparse.save_npz, or dense rows with numpy.save as .npy."
        ) from error


def check_archive(file: BinaryIO) -> dict[str, Header]:
    """Return the headers of an .npz archive; raise `BadInput` if it would unpack to too much."""
    headers = {}
    size = file.seek(0, 2)
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        total = sum(member.file_size for member in members)
        if total > max(SMALL, RATIO * size):
            raise BadInput(
                f"{size:,} bytes that unpack to {total:,}, more than {RATIO} times as many: save it "
                "with compressed=False if it is as regular as that"
            )
        for member in members:
            with archive.open(member) as part:
                header = npy_header(part)
                held = member.file_size - part.tell()
            if header.nbytes != held:
                raise BadInput(
                    f"{member.filename} declares {header.nbytes:,} bytes and holds {held:,}"
                )
            headers[member.filename.removesuffix(".npy")] = header
    file.seek(0)
    return headers


def _check_indices(X: Any) -> None:
    match X.format:
        case "csr" | "csc" | "bsr":
            if X.indptr.dtype.kind != "i" or X.indices.dtype.kind != "i":
                raise TypeError(f"{X.indptr.dtype} and {X.indices.dtype} are not whole numbers")
            if X.format == "bsr" and np.any(np.mod(X.shape, X.blocksize)):
                raise ValueError(f"blocks of {X.blocksize} do not divide {X.shape}")
            # A shallow copy, since SciPy trims the arrays it checks.
            copy(X).check_format(full_check=True)
            # SciPy does not check that pointers increase.
            if np.any(np.diff(X.indptr) < 0):
                raise ValueError("indptr must be a non-decreasing sequence")
        case "coo":
            scipy.sparse.coo_array((X.data, X.coords), shape=X.shape)
        case "lil":
            lists = zip(X.rows, X.data, strict=True)
            if len(X.rows) != X.shape[0] or any(len(a) != len(b) for a, b in lists):
                raise ValueError("rows do not have as many indices as numbers")
            _check_indices(X.tocsr())
        case "dia":
            if X.offsets.shape != X.data.shape[:1] or X.offsets.dtype.kind not in "iu":
                raise ValueError(f"{X.offsets.size} offsets for diagonals of shape {X.data.shape}")
        case _:
            X.tocoo()


@dataclass(frozen=True, eq=False)
class Candidates:
    """A block of unlabelled rows; `start` is the pool position of the first, for messages."""

    ids: NDArray[Any]
    X: Rows
    predicted: Float[Array, "n k"] | Callable[[Any], Any]
    start: int = 0

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def proba(self) -> Float[Array, "n k"]:
        return self.predicted(self.X) if callable(self.predicted) else self.predicted

    def at(self, position: int) -> Candidates:
        only = np.array([position])
        p = self.predicted
        there = p if callable(p) else rows_at(p, only)
        return Candidates(self.ids[only], rows_at(self.X, only), there)


@dataclass(frozen=True)
class Labelled:
    """Labelled rows: features, a target distribution and a weight each."""

    X: Rows
    targets: Float[Array, "n k"]
    weights: Float[Array, " n"]

    def __len__(self) -> int:
        return int(self.targets.shape[0])

    @cached_property
    def gram(self) -> Float[Array, "n n"]:
        """X Xᵀ, cached for solves and retraining."""
        return dense(self.X @ self.X.T)

    @cached_property
    def squares(self) -> Rows:
        """X∘X, cached for all steps of a fit."""
        return self.X.multiply(self.X) if is_sparse(self.X) else self.X * self.X

    @cached_property
    def spectra(self) -> dict[bool, tuple[Array, Array]]:
        """Cached eigenpairs of XᵀWX, without and with a constant column."""
        return {}

    def spectrum(self, intercept: bool) -> tuple[Float[Array, " r"], Float[Array, "p r"]]:
        """Return the min(n, p) eigenpairs of XᵀWX, shared by all steps of a fit."""
        if intercept not in self.spectra:
            xp = namespace(self.weights)
            root = dense(scale_rows(self.X, xp.sqrt(self.weights)))
            if intercept:
                root = xp.concat([root, xp.sqrt(self.weights)[:, None]], axis=1)
            if root.shape[0] < root.shape[1]:
                values, inner = xp.linalg.eigh(root @ root.T)
                # Drop directions that are zero up to rounding.
                kept = xp.astype(values > 1e-12 * values[-1], values.dtype)
                scale = xp.sqrt(xp.maximum(values, 1e-12 * values[-1:]))
                vectors = (root.T @ inner) * (kept / scale)
            else:
                values, vectors = xp.linalg.eigh(root.T @ root)
            self.spectra[intercept] = (xp.maximum(values, xp.zeros_like(values)), vectors)
        return self.spectra[intercept]
