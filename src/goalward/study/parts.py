"""Arrays inside a study: bytes in pieces, with their type and shape beside them."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from goalward.core.arrays import is_sparse
from goalward.core.rows import clean_rows, column_names, held
from goalward.core.sparse import check_sparse
from goalward.errors import BadInput, Damaged
from goalward.journal.store import Store

__all__ = ["as_parts", "digest_of", "from_parts", "in_memory"]

PART = 64 * 2**20
"""Bytes of an array kept in one piece: SQLite holds at most 1 GB in one."""


def in_memory(pool: Any) -> Any:
    """Return rows as a list of texts or a table of numbers, whatever held them."""
    pool = held(pool)
    columns = column_names(pool) or ()
    if len(columns) == 1:
        column = list(pool[columns[0]])
        return column if all(isinstance(cell, str) for cell in column) else pool
    if len(getattr(pool, "shape", ())) == 1:
        return list(pool)
    try:
        return pool if not columns else clean_rows(pool, "pool")
    except BadInput as error:
        raise BadInput(
            f"A frame with the columns {', '.join(columns[:8])} came, not all of them numbers ({error}); "
            "numbers, or one column of texts, were expected. Pass frame['text'], or write the frame to a "
            "file that keeps every column, and pass gw.tables.Table(path, text=...)."
        ) from error


def as_parts(X: Any) -> tuple[dict[str, Any], list[bytes]]:
    """Return how an array, or a sparse matrix, is kept, and its bytes."""
    if is_sparse(X):
        X = scipy.sparse.csr_array(X)
        arrays = [X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)]
        kind = "sparse"
    else:
        arrays, kind = [X], "array"
    kept, parts = zip(*map(_in_parts, arrays), strict=True)
    record = {"kind": kind, "n_rows": int(X.shape[0]), "shape": list(X.shape), "arrays": kept}
    return record, [part for one in parts for part in one]


def _in_parts(array: NDArray[Any]) -> tuple[dict[str, Any], list[bytes]]:
    # Little-endian bytes with their type and shape beside them: nothing to unpickle.
    plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    content = plain.tobytes()
    parts = [content[first : first + PART] for first in range(0, max(len(content), 1), PART)]
    digests = [sha256(part).hexdigest() for part in parts]
    return {"dtype": plain.dtype.str, "shape": list(plain.shape), "parts": digests}, parts


def from_parts(journal: Store, kept: Mapping[str, Any]) -> Any:
    """Return an array, or a sparse matrix, that is kept in a journal."""
    X, *others = (_restored(journal, one) for one in kept["arrays"])
    if kept["kind"] != "sparse":
        return X
    try:
        matrix = scipy.sparse.csr_array((X, *others), shape=tuple(kept["shape"]))
        check_sparse(matrix, "The pool")
    except ValueError as error:
        raise Damaged(
            f"The rows of {journal.name} are no sparse matrix any more ({error}); those that were "
            "stored were expected. Restore a backup of the study."
        ) from error
    return matrix


def _restored(journal: Store, kept: Mapping[str, Any]) -> NDArray[Any]:
    dtype, shape = kept["dtype"], tuple(kept["shape"])
    content = b"".join(journal.blob(part) for part in kept["parts"])
    if dtype not in ("<f4", "<f8", "<i8") or len(content) != int(
        np.prod(shape, dtype=object) * int(dtype[2])
    ):
        raise Damaged(
            f"An array of {journal.name} says {dtype} of shape {shape} and has {len(content)} bytes; "
            "as many as that takes were expected. Restore a backup of the study."
        )
    return np.frombuffer(content, dtype=dtype).reshape(shape)


def digest_of(X: Any) -> str:
    """Return what tells the numbers of rows from any other."""
    digest = sha256(f"{X.dtype.str}{X.shape}".encode())
    for first in range(0, X.shape[0], 4096):
        digest.update(np.ascontiguousarray(X[first : first + 4096]).tobytes())
    return digest.hexdigest()
