"""Sparse rows that are what they say: SciPy multiplies by indices without looking at them.

An index outside the matrix reads, or ends, the process's own memory, so every matrix is looked at
once where it comes in. That takes a pass over its indices, a few percent of a product with it.
"""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from goalward.core.arrays import is_sparse
from goalward.core.npy import Header, npy_header
from goalward.errors import BadInput, DataMissing

__all__ = ["check_archive", "check_sparse", "read_sparse"]

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
    except (
        ValueError,
        TypeError,
        OSError,
        EOFError,
        KeyError,
        NotImplementedError,
        RuntimeError,
        MemoryError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
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
    rows, columns = X.shape if len(X.shape) == 2 else (1, X.shape[0])
    match X.format:
        case "csr":
            return _compressed(X, rows, columns, X.data.shape)
        case "csc":
            return _compressed(X, columns, rows, X.data.shape)
        case "bsr":
            high, wide = X.blocksize
            if X.data.ndim != 3 or rows % high or columns % wide:
                return f"blocks of {high} x {wide}; blocks that divide its shape were expected"
            return _compressed(X, rows // high, columns // wide, X.data.shape[:1])
        case "coo":
            return _coordinates(X.coords, X.shape, X.data.shape)
        case "dok":
            keys = np.array([np.atleast_1d(key) for key, _ in X.items()], dtype=object)
            keys = keys.reshape(-1, len(X.shape))
            if any(not isinstance(i, (int, np.integer)) for i in keys.ravel()):
                return "keys that are not whole numbers; these were expected"
            return _coordinates(tuple(keys.T.astype(np.int64)), X.shape, keys.shape[:1])
        case "lil":
            if len(X.rows) != rows or len(X.data) != rows:
                return f"{len(X.rows)} lists; {rows}, one for each row, were expected"
            if any(len(a) != len(b) for a, b in zip(X.rows, X.data, strict=True)):
                return "rows of more indices than numbers; as many of both were expected"
            flat = np.array([i for row in X.rows for i in row])
            return _indices(flat, columns) if len(flat) else None
        case "dia":
            if X.data.ndim != 2 or X.offsets.shape != X.data.shape[:1]:
                return f"{X.offsets.size} offsets; one for each diagonal was expected"
            return None if X.offsets.dtype.kind in "iu" else "offsets that are not whole numbers"
    return f"the format {X.format!r}; one of SciPy's was expected"


def _compressed(X: Any, major: int, minor: int, stored: tuple[int, ...]) -> str | None:
    indptr, indices = X.indptr, X.indices
    if indptr.dtype.kind not in "iu" or indptr.shape != (major + 1,):
        return (
            f"an indptr of shape {indptr.shape} ({indptr.dtype}); {major + 1} whole numbers were "
            "expected"
        )
    if indices.ndim != 1 or indices.shape != stored:
        return f"{indices.size} indices for {stored[0]} numbers; as many of both were expected"
    last = int(indptr[-1])
    if (
        indptr[0] != 0
        or last > len(indices)
        or (major > 1 and bool(np.any(indptr[1:] < indptr[:-1])))
    ):
        return (
            f"an indptr from {indptr[0]} to {last}; numbers that rise from 0 to at most "
            f"{len(indices)} were expected"
        )
    return _indices(indices, minor)


def _coordinates(
    coords: tuple[NDArray[Any], ...], shape: tuple[int, ...], stored: tuple[int, ...]
) -> str | None:
    if len(coords) != len(shape) or any(one.shape != stored for one in coords):
        return "coordinates that are not as many as its numbers; one row and column were expected"
    faults = (_indices(one, size) for one, size in zip(coords, shape, strict=True))
    return next((wrong for wrong in faults if wrong is not None), None)


def _indices(indices: NDArray[Any], size: int) -> str | None:
    if indices.size == 0:
        return None
    if indices.dtype.kind not in "iu":
        return f"indices of type {indices.dtype}; whole numbers were expected"
    low, high = int(indices.min()), int(indices.max())
    if low < 0 or high >= size:
        outside = low if low < 0 else high
        return f"the index {outside}; indices from 0 to {size - 1} were expected"
    return None
