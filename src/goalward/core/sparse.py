"""Sparse rows that are what they say: SciPy multiplies by indices without looking at them.

An index outside the matrix reads, or ends, the process's own memory, so every matrix is looked at
once where it comes in. That takes a pass over its indices, a few percent of a product with it.
"""

from __future__ import annotations

import zipfile
from copy import copy
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse

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
