"""Functions over the array API standard; the only module that knows array libraries."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import array_api_compat
import array_api_compat.numpy
import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import NDArray

from goalward.errors import NotConverged

Array: TypeAlias = Any
"""An array of NumPy, PyTorch, CuPy or any library of the array API standard."""

if TYPE_CHECKING:
    UsersArray: TypeAlias = NDArray[Any]
else:
    UsersArray = Any
"""An `Array` that a user is given, of the library of the rows; NumPy's to a type checker."""

Rows: TypeAlias = Any
"""An `Array` of two axes, or a SciPy sparse matrix."""


is_sparse: Callable[[object], bool] = scipy.sparse.issparse


def namespace(*arrays: object) -> Any:
    """Return the array library of `arrays`; sparse rows count as NumPy."""
    if type(arrays[0]) is np.ndarray and all(type(a) is np.ndarray for a in arrays):
        return array_api_compat.numpy  # the common case, without asking around
    dense_ones = [a for a in arrays if array_api_compat.is_array_api_obj(a)]
    return array_api_compat.array_namespace(*(dense_ones or [np.empty(0)]))


def plain_rows(X: Any) -> Any:
    """Return rows as scikit-learn takes them: NumPy, or sparse as they are."""
    return X if is_sparse(X) else to_numpy(X)


def to_numpy(array: object) -> NDArray[Any]:
    """Return `array` as NumPy, copied from its device if need be."""
    if isinstance(array, np.ndarray):
        return array
    if array_api_compat.is_torch_array(array):
        return np.asarray(array.detach().cpu())  # type: ignore[attr-defined]
    if array_api_compat.is_cupy_array(array):
        return np.asarray(array.get())  # type: ignore[attr-defined]
    return np.asarray(array)


def like(array: object, reference: Array, *, dtype: Any = None) -> Array:
    """Return `array` in the library and on the device of `reference`; sparse rows stay sparse."""
    if is_sparse(array):
        return array if dtype is None else astype(array, dtype)
    xp = namespace(reference)
    device = "cpu" if is_sparse(reference) else array_api_compat.device(reference)
    if array_api_compat.is_array_api_obj(array) and namespace(array) is xp:
        moved = array_api_compat.to_device(array, device)
    else:
        plain = to_numpy(array)
        half = plain.dtype == np.float16
        moved = xp.asarray(plain.astype(np.float32) if half else plain, device=device)
    return moved if dtype is None else xp.astype(moved, dtype, copy=False)


def astype(array: Array, dtype: Any) -> Array:
    """Return `array`, sparse or not, in another dtype."""
    if is_sparse(array):
        return array.astype(dtype, copy=False)
    return namespace(array).astype(array, dtype, copy=False)


def dense(X: Rows) -> Array:
    """Return `X` as a dense array."""
    return X.toarray() if is_sparse(X) else X


def columns(X: Array) -> Array:
    """Return Xᵀ with contiguous columns of X where that is faster."""
    return X.T.contiguous() if array_api_compat.is_torch_array(X) else X.T


def rows_at(X: Rows, index: slice | NDArray[Any]) -> Rows:
    """Return the rows of `X` at a slice (a view where possible) or at positions."""
    if isinstance(X, np.ndarray) or is_sparse(X):
        return X[index]
    if isinstance(index, slice):
        start, stop, _ = index.indices(X.shape[0])
        return X[start:stop, ...]
    if not array_api_compat.is_array_api_obj(X):
        return X[index]  # rows on disk
    return namespace(X).take(X, like(index, X), axis=0)


def put_at(into: Array, index: NDArray[Any], values: Array, *, axis: int) -> Array:
    """Return `into` with `values` at the positions `index` of an axis."""
    size = into.shape[axis]
    if len(index) in (0, size):
        return values if len(index) else into
    xp = namespace(into)
    source, mask = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=bool)
    source[index], mask[index] = np.arange(len(index)), True
    shape = tuple(size if i == axis else 1 for i in range(into.ndim))
    where = xp.reshape(like(mask, into), shape)
    return xp.where(where, xp.take(values, like(source, into), axis=axis), into)


def stack_rows(above: Rows, below: Rows) -> Rows:
    """Return the rows of both, sparse if either is."""
    if is_sparse(above) or is_sparse(below):
        return scipy.sparse.vstack([above, below], format="csr")
    return namespace(above, below).concat([above, below], axis=0)


def scale_rows(X: Rows, factor: Array) -> Rows:
    """Return diag(factor) X, sparse where X is."""
    if is_sparse(X):
        return scipy.sparse.csr_array(X).multiply(factor[:, None]).tocsr()
    return X * factor[:, None]


def with_constant(X: Rows) -> Rows:
    """Return rows with a column of ones, for an intercept; sparse where X is."""
    if is_sparse(X):
        return scipy.sparse.hstack([X, np.ones((X.shape[0], 1))], format="csr")
    xp = namespace(X)
    return xp.concat([X, xp.ones((X.shape[0], 1), dtype=X.dtype, device=X.device)], axis=1)


def pairs(Z: Array) -> Array:
    """Return z_j z_l, j ≤ l, of every row: (n, q(q+1)/2), in the order of NumPy's triu_indices."""
    n, q = Z.shape
    if type(Z) is np.ndarray and q >= 64:
        # Contiguous slices for each j: gathering columns takes several times as long.
        out, at = np.empty((n, q * (q + 1) // 2), dtype=Z.dtype), 0
        for j in range(q):
            np.multiply(Z[:, j:], Z[:, j, None], out=out[:, at : at + q - j])
            at += q - j
        return out
    xp = namespace(Z)
    upper, lower = (like(index, Z) for index in np.triu_indices(q))
    return xp.take(Z, upper, axis=1) * xp.take(Z, lower, axis=1)


def eps(array: Array) -> float:
    """Return the rounding unit of `array`'s numbers."""
    return float(namespace(array).finfo(array.dtype).eps)


def inner(a: Array, b: Array) -> float:
    """Return the sum of products of all entries."""
    if type(a) is np.ndarray and type(b) is np.ndarray:
        return float(np.vdot(a, b))
    return float(namespace(a, b).sum(a * b))


def norm(array: Array) -> float:
    """Return the Euclidean norm over all entries, safe from overflow of the squares."""
    if 0 in array.shape:
        return 0.0
    xp = namespace(array)
    if array.dtype == xp.float64:
        plain = type(array) is np.ndarray
        square = float(np.vdot(array, array) if plain else xp.sum(array * array))
        if 1e-250 < square < 1e250:
            return float(square**0.5)
    largest = float(xp.max(xp.abs(array)))
    if largest == 0.0 or not np.isfinite(largest):
        return largest
    scaled = array / largest
    return float(largest * float(xp.sum(scaled * scaled)) ** 0.5)


def log_softmax(logits: Array, *, axis: int = -1) -> Array:
    """Return log p for p = softmax(logits), without overflow."""
    xp = namespace(logits)
    shifted = logits - xp.max(logits, axis=axis, keepdims=True)
    return shifted - xp.log(xp.sum(xp.exp(shifted), axis=axis, keepdims=True))


def softmax(logits: Array, *, axis: int = -1) -> Array:
    """Return p = softmax(logits), without overflow."""
    xp = namespace(logits)
    if array_api_compat.is_torch_array(logits):
        return logits.softmax(dim=axis)  # one pass
    exp = xp.exp(logits - xp.max(logits, axis=axis, keepdims=True))
    return exp / xp.sum(exp, axis=axis, keepdims=True)


def _factor(A: Array) -> Any:
    """Return the Cholesky factor of A: SciPy's pair for NumPy, else a lower triangle."""
    try:
        if array_api_compat.is_numpy_array(A):
            return scipy.linalg.cho_factor(A, lower=True, check_finite=False)
        return namespace(A).linalg.cholesky(A)
    except (np.linalg.LinAlgError, RuntimeError) as error:
        raise NotConverged(
            f"The {A.shape[0]} x {A.shape[1]} curvature is not positive definite in "
            "floating point; a larger penalty makes it so. Lower C, rescale the "
            "features, or use ConjugateGradient()."
        ) from error


def cholesky(A: Array) -> Callable[[Array], Array]:
    """Return the map b -> A⁻¹b of a symmetric positive definite A, factored once."""
    xp, lower = namespace(A), _factor(A)
    if array_api_compat.is_numpy_array(A):
        return lambda b: scipy.linalg.cho_solve(lower, b, check_finite=False)
    if array_api_compat.is_torch_array(A):
        import torch

        def solve(b: Array) -> Array:
            right = b if b.ndim == 2 else b[:, None]
            solution = torch.cholesky_solve(right, lower)
            return solution if b.ndim == 2 else solution[:, 0]

        return solve
    return lambda b: xp.linalg.solve(lower.T, xp.linalg.solve(lower, b))


def leading_eigenvectors(A: Array, count: int) -> tuple[Array, Array]:
    """Return the `count` largest eigenvalues of a symmetric A, ascending, and their vectors."""
    first = max(0, A.shape[0] - count)
    if type(A) is np.ndarray:
        ends = [first, A.shape[0] - 1]
        values, vectors = scipy.linalg.eigh(A, subset_by_index=ends, check_finite=False)
        return values, vectors
    values, vectors = namespace(A).linalg.eigh(A)
    return values[first:], vectors[:, first:]


def definite_inverse(A: Array) -> Array:
    """Return A⁻¹ of a symmetric positive definite A, symmetric to the last bit."""
    if array_api_compat.is_numpy_array(A):
        (potri,) = scipy.linalg.get_lapack_funcs(("potri",), (A,))
        lower, _ = potri(_factor(A)[0], lower=True)
        return np.tril(lower) + np.tril(lower, -1).T
    xp = namespace(A)
    inverse = cholesky(A)(xp.eye(A.shape[0], dtype=A.dtype, device=A.device))
    return (inverse + inverse.T) / 2
