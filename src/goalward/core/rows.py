"""The door for features: lists, frames, arrays and sparse matrices become clean rows."""

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
    """Return rows that can be counted and indexed: a lazy frame collected, a dataset as a frame.

    A `LazyFrame` of polars and a `Dataset` of Hugging Face are read whole; one of its columns is a list.
    """
    kind = f"{type(X).__module__.partition('.')[0]}.{type(X).__name__}"
    if kind == "polars.LazyFrame":
        return X.collect()
    if kind == "datasets.Dataset":
        return X.to_pandas()
    if kind == "datasets.Column":
        return list(X)
    if isinstance(X, Mapping) and not is_sparse(X):
        names = ", ".join(map(repr, list(X)[:5]))
        raise BadInput(
            f"A {type(X).__name__} with the keys {names} came; rows were expected. Pass the part that "
            f"holds them, x[{next(iter(X), 'train')!r}], or make a frame of it."
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
    """Return `X` as finite rows of floating numbers, without changing the caller's.

    Raises `BadInput` with what came, what was expected and what to do. With finite=False, for
    blocks of a pool, the numbers are not looked at: a caller who multiplies them sees NaN and
    infinity come out, and calls `check_finite` then, which saves a pass over a large pool. Nor are
    the indices of sparse rows, which `goalward.core.pool.blocks` has looked at.
    """
    X = held(X)
    if finite:
        check_sparse(X, name)
    rows = _floating(X, name)
    if rows.ndim != 2:
        hint = " For one feature use X.reshape(-1, 1)." if rows.ndim == 1 else ""
        raise ShapeMismatch(
            f"{name} has shape {tuple(rows.shape)}; rows by features, (n, d), was "
            f"expected. Pass a table with one line per row.{hint}"
        )
    if rows.shape[0] < least:
        raise Empty(f"{name} has no rows; at least 1 was expected. Pass some rows.")
    if n_features is not None and rows.shape[1] != n_features:
        raise ShapeMismatch(
            f"{name} has {rows.shape[1]} features; {n_features} were expected, as in "
            "the labelled rows. Build all of them with the same features, in order."
        )
    if rows.shape[1] == 0:
        raise ShapeMismatch(f"{name} has no features; at least 1 was expected. Add a column.")
    if finite:
        check_finite(rows, name)
    return rows


def column_names(X: object) -> tuple[str, ...] | None:
    """Return the names of a frame's columns; None for what has none, or has only numbers."""
    columns = getattr(X, "columns", None)
    if columns is None or getattr(X, "shape", None) is None:
        return None
    names = tuple(columns)
    return names if names and all(isinstance(name, str) for name in names) else None


def check_columns(X: object, expected: tuple[str, ...], name: str) -> None:
    """Raise if `X` is a frame whose columns are others, or in another order."""
    names = column_names(X)
    if names is not None and names != expected:
        raise ShapeMismatch(
            f"{name} has the columns {', '.join(names[:8])}; {', '.join(expected[:8])} were "
            "expected, in that order, as in the labelled rows. Reorder them."
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
    if X is None or room_of(X):
        raise BadInput(f"{name} is {described(X)}; rows by features, (n, d), were expected.")
    try:
        plain = to_numpy(X)
    except BadInput:
        raise  # rows on disk that have changed
    except ValueError as error:
        raise ShapeMismatch(
            f"{name} has rows of different lengths ({error}); a table was expected. Give every row "
            "the same features."
        ) from error
    if plain.dtype in (np.float32, np.float64):
        return plain
    if plain.dtype == np.float16:
        return plain.astype(np.float32)
    if np.iscomplexobj(plain):
        raise BadInput(
            f"{name} holds complex numbers; real ones were expected. Complex data not "
            "supported: pass real and imaginary parts as columns."
        )
    try:
        return plain.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise BadInput(
            f"{name} holds values that are not numbers ({error}); numbers were expected. "
            "Encode text and categories as numbers first, in a scikit-learn Pipeline say."
        ) from error


def check_finite(rows: Rows, name: str, *, start: int = 0) -> None:
    """Raise if any number is NaN, infinite, or too large to be squared; rows count from `start`."""
    values = rows.data[: rows.indptr[-1]] if is_sparse(rows) else rows
    xp = namespace(values)
    if 0 in values.shape:
        return
    # NaN and infinity survive a maximum and a minimum; no array of absolute values is made.
    high, low = float(xp.max(values)), float(xp.min(values))
    limit = float(xp.finfo(values.dtype).max) ** 0.5 * 1e-3
    if high <= limit and -low <= limit:
        return
    largest = max(high, -low)
    if np.isfinite(high) and np.isfinite(low):
        raise TooLarge(
            f"{name} holds the number {largest:.3g}, whose square overflows; at most "
            f"{limit:.0e} was expected. Rescale the features, with StandardScaler say."
        )
    bad = ~np.isfinite(to_numpy(values))
    if is_sparse(rows):
        at = int(bad.argmax())
        row, column = np.searchsorted(rows.indptr, at, side="right") - 1, rows.indices[at]
    else:
        row, column = np.argwhere(bad)[0]
    raise NotFinite(
        f"{name} has {bad.sum()} NaN or infinite numbers, the first in row {start + row}, column "
        f"{column}; finite numbers were expected. Drop those rows or impute them."
    )


SMALL = 64 * 2**20
RATIO = 100
"""What a file unpacks to: up to 64 MB, or 100 times its size, is believed. Real matrices shrink by
less than 20; zeros alone by 1,000."""


def check_sparse(X: Any, name: str) -> None:
    """Raise if a sparse matrix points outside itself, or holds no numbers; pass what is not sparse."""
    if not is_sparse(X):
        return
    wrong = _fault(X)
    if wrong is not None:
        raise BadInput(
            f"{name} is a sparse matrix ({X.format}, {' x '.join(map(str, X.shape))}) with {wrong}. "
            "Build it again from (data, (row, column)): scipy.sparse.coo_array checks what it gets."
        )


def read_sparse(path: Path) -> scipy.sparse.csr_array:
    """Return the matrix of a .npz file of SciPy, checked before and after it is unpacked."""
    try:
        with path.open("rb") as file:
            headers = check_archive(file)
            for name in ("indices", "indptr", "row", "col", "offsets"):
                if name in headers and headers[name].dtype.kind not in "iu":
                    raise BadInput(f"{name} that are {headers[name].dtype}, not whole numbers")
            matrix = scipy.sparse.load_npz(file)
        check_sparse(matrix, path.name)
        if len(matrix.shape) != 2:
            raise BadInput(f"a shape of {matrix.shape}; (rows, features) were expected")
        # Rows without a number take room once their ends are written down.
        if matrix.format != "csr" and not _believable(8 * matrix.shape[0], path.stat().st_size):
            raise BadInput(f"{matrix.shape[0]} rows, most of them empty")
        return scipy.sparse.csr_array(matrix)
    except Exception as error:  # damaged archives fail in a dozen ways
        raise DataMissing(
            f"{path} is not a sparse matrix of SciPy ({error}); one was expected. Save it with "
            "scipy.sparse.save_npz, or dense rows with numpy.save as .npy."
        ) from error


def check_archive(file: BinaryIO) -> dict[str, Header]:
    """Return the headers of an archive of arrays; nothing is unpacked.

    Raises `BadInput` where it would come to more than its size can stand for.
    """
    headers = {}
    size = file.seek(0, 2)
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        total = sum(member.file_size for member in members)
        if not _believable(total, size):
            raise BadInput(
                f"{size:,} bytes that unpack to {total:,}; at most {RATIO} times as many were "
                "expected: save it with compressed=False if it is as regular as that"
            )
        for member in members:
            with archive.open(member) as part:
                header = npy_header(part)
                held = member.file_size - part.tell()
            if header.nbytes != held:
                raise BadInput(
                    f"{member.filename} declares {header.nbytes:,} bytes and holds {held:,}; as many "
                    "as it declares were expected"
                )
            headers[member.filename.removesuffix(".npy")] = header
    file.seek(0)
    return headers


def _believable(unpacked: int, size: int) -> bool:
    return unpacked <= max(SMALL, RATIO * size)


def _fault(X: Any) -> str | None:
    """Return what is wrong with a sparse matrix of any format, and what was expected."""
    if X.dtype.kind == "c":
        return "complex numbers; real ones were expected. Complex data not supported"
    if X.dtype.kind not in "fiub":
        return f"values of type {X.dtype}; numbers were expected"
    try:
        _check_indices(X)
    except (ValueError, TypeError, OverflowError) as error:
        return f"an index or a pointer that is wrong ({error}); those of its shape were expected"
    return None


def _check_indices(X: Any) -> None:
    match X.format:
        case "csr" | "csc" | "bsr":
            if X.indptr.dtype.kind != "i" or X.indices.dtype.kind != "i":
                raise TypeError(f"{X.indptr.dtype} and {X.indices.dtype} are not whole numbers")
            if X.format == "bsr" and np.any(np.mod(X.shape, X.blocksize)):
                raise ValueError(f"blocks of {X.blocksize} do not divide {X.shape}")
            # A copy of the face, not of the numbers: SciPy trims what it checks.
            copy(X).check_format(full_check=True)
            # SciPy does not look at pointers that end where they began.
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
    """A block of unlabelled rows.

    Parameters
    ----------
    ids
        Positions in the pool, unless the caller gave others.
    X
        Their features, clean and in the model's array library.
    predicted
        What the model predicts for them, or how to get it from X: most rules never ask.
    start
        Where the first of them stands in the pool, for messages.
    """

    ids: NDArray[Any]
    X: Rows
    predicted: Float[Array, "n k"] | Callable[[Any], Any]
    start: int = 0

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def proba(self) -> Float[Array, "n k"]:
        """What the model predicts for them."""
        return self.predicted(self.X) if callable(self.predicted) else self.predicted

    def at(self, position: int) -> Candidates:
        """Return one of them."""
        only = np.array([position])
        p = self.predicted
        there = p if callable(p) else rows_at(p, only)
        return Candidates(self.ids[only], rows_at(self.X, only), there)


@dataclass(frozen=True)
class Labelled:
    """Rows with what is known of their labels: a distribution and a weight each."""

    X: Rows
    targets: Float[Array, "n k"]
    weights: Float[Array, " n"]

    def __len__(self) -> int:
        return int(self.targets.shape[0])

    @cached_property
    def n_seen(self) -> int:
        """How many classes have a label."""
        xp = namespace(self.targets)
        return int(xp.sum(xp.astype(self.weights @ self.targets > 0, xp.int64)))

    @cached_property
    def gram(self) -> Float[Array, "n n"]:
        """X Xᵀ, computed once for every solve and retraining that needs it."""
        return dense(self.X @ self.X.T)

    @cached_property
    def squares(self) -> Rows:
        """X∘X, computed once for all steps of a fit."""
        return self.X.multiply(self.X) if is_sparse(self.X) else self.X * self.X

    @cached_property
    def spectra(self) -> dict[bool, tuple[Array, Array]]:
        """Eigenvalues and eigenvectors of XᵀWX, without and with a constant column, as asked."""
        return {}

    def spectrum(self, intercept: bool) -> tuple[Float[Array, " r"], Float[Array, "p r"]]:
        """Return the eigenvalues and eigenvectors of XᵀWX, of which there are min(n, p).

        The labels do not enter, so one decomposition serves all steps of a fit.
        """
        if intercept not in self.spectra:
            xp = namespace(self.weights)
            root = dense(scale_rows(self.X, xp.sqrt(self.weights)))
            if intercept:
                root = xp.concat([root, xp.sqrt(self.weights)[:, None]], axis=1)
            if root.shape[0] < root.shape[1]:
                values, inner = xp.linalg.eigh(root @ root.T)
                # Directions that the rows do not reach, but for rounding, are left out.
                kept = xp.astype(values > 1e-12 * values[-1], values.dtype)
                scale = xp.sqrt(xp.maximum(values, 1e-12 * values[-1:]))
                vectors = (root.T @ inner) * (kept / scale)
            else:
                values, vectors = xp.linalg.eigh(root.T @ root)
            self.spectra[intercept] = (xp.maximum(values, xp.zeros_like(values)), vectors)
        return self.spectra[intercept]
