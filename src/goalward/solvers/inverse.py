"""𝓗⁻¹ of a linear model in the K-1 contrasts: leverages M = J𝓗⁻¹Jᵀ, low-rank updates, draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from goalward.core.arrays import (
    Array,
    Rows,
    astype,
    definite_inverse,
    dense,
    is_sparse,
    leading_eigenvectors,
    like,
    namespace,
    pairs,
    rows_at,
    stack_rows,
    to_numpy,
    with_constant,
)
from goalward.solvers.cholesky import dense_curvature
from goalward.solvers.conjugate_gradient import by_products
from goalward.solvers.solution import LinearCurvature, Solve, in_basis, uniform_penalty

# A penalised optimum lies in the span of its rows. Outside the coordinates only the prior variance
# 1/ρ is known. Gram matrices are enough, so rows may be sparse.


Inside = Float[Array, "n q"]  # coordinates of rows
Blocks = Float[Array, "n c c"]
Matrix = Float[Array, "qc qc"]  # ordered (coordinate, contrast)
Pulled = Float[Array, "n c q c"]

LARGEST = 1000
"""Unknowns up to which a covariance is stored; inverting it takes 0.1 s."""

LARGEST_GRAM = 3000
"""Rows or features up to which a Gram matrix is decomposed."""

LARGEST_WORK = 5e10
"""Multiplications up to which leverages of labelled rows are computed exactly, in seconds."""

FREE = 1e-6
"""Penalty of a free intercept, relative to the others, where a gauge is needed."""


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Rows as features, or as parts along orthonormal columns of `basis` (or rowsᵀ basis).

    `ridge` is the penalty of each coordinate and `rho` that of all other directions; `kept` is the
    share of the rows' squared length along the columns.
    """

    ridge: Float[Array, " q"] = field(repr=False)
    rho: float
    intercept: bool
    basis: Float[Array, "_ r"] | None = field(default=None, repr=False)
    rows: Rows | None = field(default=None, repr=False)
    kept: float = 1.0

    @classmethod
    def features(cls, hessian: LinearCurvature) -> Coordinates:
        return cls(hessian.penalty, float(hessian.penalty[0]), hessian.intercept)

    @classmethod
    def spanned(cls, hessian: LinearCurvature) -> Coordinates:
        """Return the span of the labelled rows, or the features if they are fewer."""
        n_rows, n_features = hessian.labelled.X.shape
        if n_features <= n_rows:
            return cls.features(hessian)
        gram = hessian.labelled.gram
        xp = namespace(gram)
        values, vectors = xp.linalg.eigh(gram)
        # Dropping directions below rounding changes every logit by rounding only.
        count = int(xp.sum(xp.astype(values > values[-1] * 1e-14, xp.int64)))
        keep = slice(n_rows - count, n_rows)
        basis = vectors[:, keep] / xp.sqrt(values[keep])
        return cls._along(hessian, hessian.penalty, basis, rows=hessian.labelled.X)

    @classmethod
    def leading(
        cls, hessian: LinearCurvature, rows: Rows, *, largest: int = LARGEST
    ) -> Coordinates:
        """Return features, or leading directions of `rows` and labelled rows if too many."""
        room = max(1, largest // hessian.basis.shape[1] - hessian.intercept)
        penalty = astype(hessian.penalty, namespace(hessian.penalty).float64)
        if rows.shape[1] <= room:
            return cls(penalty, float(penalty[0]), hessian.intercept)
        known = hessian.labelled.X
        if is_sparse(rows) != is_sparse(known):
            rows, known = dense(rows), dense(known)
        basis, kept = _leading(stack_rows(rows, known), room)
        return cls._along(hessian, penalty, basis, kept=kept)

    @classmethod
    def _along(
        cls, hessian: LinearCurvature, penalty: Array, basis: Array, **more: Any
    ) -> Coordinates:
        rho, _ = uniform_penalty(hessian)
        xp = namespace(basis)
        ridge = xp.full((basis.shape[1],), rho, dtype=basis.dtype, device=basis.device)
        if hessian.intercept:
            ridge = xp.concat([ridge, penalty[-1:]])
        return cls(ridge, rho, hessian.intercept, basis, **more)

    def __call__(self, rows: Rows) -> Inside:
        X = like(rows, self.ridge, dtype=self.ridge.dtype)
        if self.rows is not None:
            X = dense(X @ self.rows.T)
        Z = dense(X) if self.basis is None else X @ self.basis
        return with_constant(Z) if self.intercept else Z

    def directions(self, Z: Inside) -> Float[Array, "n r"]:
        """Return coordinates without the constant."""
        return Z[:, :-1] if self.intercept else Z

    def outside(
        self, A: Rows, in_A: Float[Array, "a q"], B: Rows, in_B: Float[Array, "b q"]
    ) -> Float[Array, "a b"] | None:
        """Return ⟨a, b⟩ of the parts outside, or None if there are none."""
        if self.basis is None:
            return None
        return dense(A @ B.T) - self.directions(in_A) @ self.directions(in_B).T

    def squared_outside(self, rows: Rows, Z: Inside) -> Float[Array, " n"]:
        """Return ‖x‖² of the part of each row outside, at least 0."""
        xp = namespace(Z)
        if self.basis is None:
            return xp.zeros_like(Z[:, 0])
        X = like(rows, self.ridge, dtype=self.ridge.dtype)
        inside = self.directions(Z)
        squares = np.ravel(X.multiply(X).sum(axis=1)) if is_sparse(X) else xp.sum(X * X, axis=1)
        left = squares - xp.sum(inside * inside, axis=1)
        return xp.maximum(left, xp.zeros_like(left))


def _leading(rows: Rows, room: int) -> tuple[Float[Array, "d r"], float]:
    """Return the leading directions of (a sample of) rows and the share of squared length kept."""
    if min(rows.shape) > LARGEST_GRAM:
        rows = rows_at(rows, np.linspace(0, rows.shape[0] - 1, LARGEST_GRAM).astype(np.int64))
    m, d = rows.shape
    gram = dense(rows @ rows.T if m < d else rows.T @ rows)
    xp = namespace(gram)
    gram = astype(gram, xp.float64)
    values, vectors = leading_eigenvectors(gram, room)
    # Drop directions below rounding.
    floor = max(float(values[-1]), 0.0) * 1e-12
    first = values.shape[0] - int(xp.sum(xp.astype(values > floor, xp.int64)))
    values, vectors = values[first:], vectors[:, first:]
    if m < d:
        vectors = astype(rows, xp.float64).T @ vectors / xp.sqrt(values)
    total = float(xp.linalg.trace(gram))
    return vectors, float(xp.sum(values)) / total if total > 0 else 1.0


LARGEST_BLOCK = 2**22
"""Size of a temporary array (32 MB)."""

MOST_PAIRED = 256
"""Coordinates up to which pairs are formed."""


@dataclass(frozen=True, eq=False)
class Inverse:
    """The inverse of a linear model's curvature: the covariance of its parameters.

    Rows of `matrix` are ordered (coordinate, contrast); other directions have the prior's variance.

    Examples
    --------
    >>> from goalward.solvers.inverse import Coordinates
    >>> from goalward.testing import problem
    >>> task = problem(n_classes=3)
    >>> hessian = task.fitted.hessian
    >>> inverse = Inverse.of(hessian, Coordinates.features(hessian))
    >>> inverse.leverage(task.X_pool[:5]).shape
    (5, 2, 2)
    """

    matrix: Matrix = field(repr=False)
    coordinates: Coordinates

    @classmethod
    def of(cls, hessian: LinearCurvature, coordinates: Coordinates) -> Inverse:
        ridge = coordinates.ridge
        blocks = like(hessian.blocks(), ridge, dtype=ridge.dtype)
        H = dense_curvature(coordinates(hessian.labelled.X), blocks, ridge)
        return cls(definite_inverse(H), coordinates)

    @property
    def reason(self) -> str:
        basis = self.coordinates.basis
        if basis is None:
            return f"the covariance of all {self.matrix.shape[0]} unknowns"
        return (
            f"the covariance in {basis.shape[1]} of {basis.shape[0]} directions, "
            f"{self.coordinates.kept:.1%} of the rows' squared length"
        )

    def form(self, A: Matrix, Z: Inside) -> Blocks:
        """Return J A Jᵀ of every row with coordinates Z, for a symmetric A."""
        return self.forms((A,), Z)[0]

    def forms(self, matrices: Sequence[Matrix], Z: Inside) -> list[Blocks]:
        xp = namespace(Z)
        n, q = Z.shape
        apply = quadratic(matrices, q)
        step = rows_at_once(q, matrices[0].shape[0] // q)
        parts = [apply(rows_at(Z, slice(i, i + step))) for i in range(0, max(n, 1), step)]
        return parts[0] if len(parts) == 1 else [xp.concat(p) for p in zip(*parts, strict=True)]

    def pulled(self, Z: Inside) -> Pulled:
        """Return y = 𝓗⁻¹Jᵀ of every row."""
        return _product(Z, self.matrix)

    def leverage(self, rows: Rows, Z: Inside | None = None) -> Blocks:
        """Return M = J𝓗⁻¹Jᵀ of rows; Z = coordinates(rows) may be given."""
        Z = self.coordinates(rows) if Z is None else Z
        return self.with_outside(self.form(self.matrix, Z), rows, Z)

    def with_outside(self, M: Blocks, rows: Rows, Z: Inside) -> Blocks:
        """Return the leverage of rows, given that inside the coordinates."""
        if self.coordinates.basis is None:
            return M
        xp = namespace(Z)
        spread = self.coordinates.squared_outside(rows, Z) / self.coordinates.rho
        return M + spread[:, None, None] * xp.eye(M.shape[1], dtype=Z.dtype, device=Z.device)

    def joint_form(self, A: Matrix, Z: Inside) -> Float[Array, "nc nc"]:
        """Return J A Jᵀ of all rows jointly."""
        xp = namespace(Z)
        y = _product(Z, A)
        n, c = y.shape[:2]
        shared = xp.permute_dims(xp.tensordot(y, Z, axes=([2], [1])), (0, 1, 3, 2))
        return xp.reshape(shared, (n * c, n * c))

    def joint_leverage(self, rows: Rows, Z: Inside) -> Float[Array, "nc nc"]:
        """Return the joint covariance of the logits of all rows."""
        M = self.joint_form(self.matrix, Z)
        outside = self.coordinates.outside(rows, Z, rows, Z)
        if outside is None:
            return M
        xp = namespace(Z)
        size = M.shape[0]
        eye = xp.eye(size // Z.shape[0], dtype=Z.dtype, device=Z.device)
        spread = (outside / self.coordinates.rho)[:, None, :, None] * eye[None, :, None, :]
        return M + xp.reshape(spread, (size, size))

    def added(self, row: Rows, block: Float[Array, "c c"]) -> Inverse:
        """Return the inverse after a row with Λ = `block`: y S yᵀ less, y = 𝓗⁻¹Jᵀ, S = (I + ΛM)⁻¹Λ."""
        Z = self.coordinates(row)
        S = shrunk(block[None, :, :], self.leverage(row, Z))[0, :, :]
        y = namespace(block).reshape(self.pulled(Z), (block.shape[0], -1)).T
        return replace(self, matrix=self.matrix - y @ ((S + S.T) / 2) @ y.T)

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[Any]:
        """Return `count` draws from the Gaussian with covariance 𝓗⁻¹ and mean zero, (q, c, count)."""
        matrix = to_numpy(self.matrix)
        # The upper factor UUᵀ = 𝓗⁻¹: a Cholesky factor from the last row to the first.
        upper = np.linalg.cholesky(matrix[::-1, ::-1])[::-1, ::-1]
        drawn: NDArray[Any] = upper @ rng.standard_normal((len(matrix), count))
        return drawn.reshape(self.coordinates.ridge.shape[0], -1, count)


def shrunk(blocks: Blocks, M: Blocks) -> Blocks:
    """Return S = (I + ΛM)⁻¹Λ of every row."""
    xp, c = namespace(M), M.shape[1]
    if c == 1:
        return blocks / (1.0 + blocks * M)
    return xp.linalg.solve(xp.eye(c, dtype=M.dtype, device=M.device) + blocks @ M, blocks)


def _paired(q: int, c: int) -> bool:
    return c > 1 and q <= (64 if c == 2 else MOST_PAIRED)


def rows_at_once(q: int, c: int) -> int:
    """Return the number of rows whose forms fit into a block."""
    numbers = q * (q + 1) // 2 + 4 * c * c if _paired(q, c) else c * c * q
    return max(1, LARGEST_BLOCK // numbers)


def quadratic(matrices: Sequence[Matrix], q: int) -> Callable[[Inside], list[Blocks]]:
    """Return the map from Z to Σ_jl z_j A[j, :, l, :] z_l of rows, by pairs j ≤ l where faster."""
    c = matrices[0].shape[0] // q
    # On a GPU fewer calls matter more than fewer flops.
    if not (_paired(q, c) and type(matrices[0]) is np.ndarray):
        return lambda Z: [_summed(Z, _product(Z, A)) for A in matrices]
    xp = namespace(matrices[0])
    folded = xp.concat([_folded(A, q) for A in matrices], axis=1)
    a, b = np.triu_indices(c)
    position = np.empty((c, c), dtype=np.int64)
    position[a, b] = position[b, a] = np.arange(len(a))
    place = like(position.reshape(-1), folded)

    def apply(Z: Inside) -> list[Blocks]:
        packed, size = pairs(Z) @ folded, len(a)
        parts = [packed[:, i * size : (i + 1) * size] for i in range(len(matrices))]
        return [xp.reshape(xp.take(part, place, axis=1), (Z.shape[0], c, c)) for part in parts]

    return apply


def _folded(A: Matrix, q: int) -> Float[Array, "pairs cc"]:
    """Return A for pairs z_j z_l, j ≤ l, a column for each pair of contrasts."""
    xp, c = namespace(A), A.shape[0] // q
    upper, lower = np.triu_indices(q)
    a, b = np.triu_indices(c)
    blocks = xp.permute_dims(xp.reshape(A, (q, c, q, c)), (0, 2, 1, 3))
    flat = xp.take(xp.reshape(blocks, (q * q, c * c)), like(a * c + b, A), axis=1)
    folded = xp.take(flat, like(upper * q + lower, A), axis=0)
    other = xp.take(flat, like(lower * q + upper, A), axis=0)
    return folded + like((upper != lower).astype(float), A, dtype=A.dtype)[:, None] * other


def _summed(Z: Inside, y: Pulled) -> Blocks:
    """Return Σ_l y_l z_l of every row."""
    xp = namespace(Z)
    if y.shape[1] == 1:
        return xp.sum(y[:, 0, :, 0] * Z, axis=1)[:, None, None]
    return xp.sum(y * Z[:, None, :, None], axis=2)


def _product(Z: Inside, A: Matrix) -> Pulled:
    """Return Σ_j z_j A[j, ...] for every row."""
    xp = namespace(Z)
    n, q = Z.shape
    c = A.shape[0] // q
    return xp.reshape(Z @ xp.reshape(A, (q, -1)), (n, c, q, c))


def own_leverages(hessian: LinearCurvature, rows: Rows) -> Float[Array, "n c c"]:
    """Return M = J𝓗⁻¹Jᵀ of the labelled rows, `rows`; exact where `exact_route` says how."""
    route = exact_route(hessian)
    if route in (_by_column, _by_class):
        return route(hessian, rows)
    exact = Coordinates.features(hessian) if route is Inverse else None
    coordinates = exact or Coordinates.leading(hessian, rows)
    return Inverse.of(hessian, coordinates).leverage(rows, coordinates(rows))


def exact_route(hessian: LinearCurvature) -> Any:
    """Return what computes leverages of the labelled rows exactly; None if that takes too long."""
    n, classes = hessian.proba.shape
    q, c = int(hessian.penalty.shape[0]), hessian.basis.shape[1]
    least = min(n, q)
    if q * c <= LARGEST:
        return Inverse
    if c in (1, classes):
        return _by_column if c * n * least * least <= LARGEST_WORK else None
    if classes * n * n * least <= LARGEST_WORK:
        return _by_class
    return Inverse if (q * c) ** 2 * (q * c + n) <= LARGEST_WORK else None


def _whitened(hessian: LinearCurvature, rows: Rows) -> NDArray[Any]:
    """Return labelled rows with their constant, in coordinates where the penalty is 1."""
    penalty = np.asarray(to_numpy(hessian.penalty), dtype=np.float64)
    rho = np.maximum(penalty, FREE * penalty[0])
    X = to_numpy(dense(with_constant(rows) if hessian.intercept else rows))
    scaled: NDArray[Any] = X / np.sqrt(rho)
    return scaled


def _by_column(hessian: LinearCurvature, rows: Rows) -> Float[Array, "n c c"]:
    """Return the leverages of several labels, numbers or two classes: 𝓗 is a block a column."""
    X, bends = _whitened(hessian, rows), np.asarray(to_numpy(hessian.blocks()))
    n, c, _ = bends.shape
    thin = X.shape[1] <= n
    gram = X.T if thin else X @ X.T
    M = np.zeros((n, c, c))
    for k in range(c):
        if k and (bends[:, k, k] == bends[:, k - 1, k - 1]).all():
            M[:, k, k] = M[:, k - 1, k - 1]
            continue
        half = np.sqrt(bends[:, k, k])[:, None] * (X if thin else gram)
        inner = half.T @ half if thin else half * np.sqrt(bends[:, k, k])
        factor = np.linalg.cholesky(np.eye(len(inner)) + inner)
        part = solve_triangular(factor, gram if thin else half, lower=True, check_finite=False)
        own = (part**2).sum(axis=0)
        M[:, k, k] = own if thin else np.diag(gram) - own
    return M


def _by_class(hessian: LinearCurvature, rows: Rows) -> Float[Array, "n c c"]:
    """Return the leverages of softmax regression: 𝓗 = B - UUᵀ, B a block a class, U of rank n.

    Λ = diag(p) - ppᵀ, so B_k = XᵀW diag(p_k)X + ρ and U's columns are √w x ⊗ p. Woodbury: with
    G_k = X B_k⁻¹ Xᵀ, a row's block is diag(G_k) + A (I - UᵀB⁻¹U)⁻¹ Aᵀ, where A_k = G_k √w p_k.
    """
    X = _whitened(hessian, rows)
    P, w = np.asarray(to_numpy(hessian.proba)), np.asarray(to_numpy(hessian.labelled.weights))
    n, K = P.shape
    thin = X.shape[1] <= n
    gram = None if thin else X @ X.T
    G = np.empty((K, n, n))
    for k in range(K):
        root = np.sqrt(w * P[:, k])[:, None]
        if gram is None:
            half = root * X
            factor = np.linalg.cholesky(np.eye(X.shape[1]) + half.T @ half)
            part = solve_triangular(factor, X.T, lower=True, check_finite=False)
            G[k] = part.T @ part
        else:
            factor = np.linalg.cholesky(np.eye(n) + root * gram * root.T)
            part = solve_triangular(factor, root * gram, lower=True, check_finite=False)
            G[k] = gram - part.T @ part
    U = np.sqrt(w)[:, None] * P
    shared = np.eye(n) - sum(U[:, k, None] * G[k] * U[:, k] for k in range(K))
    A = (G * U.T[:, None, :]).transpose(1, 0, 2)
    A = np.ascontiguousarray(A)
    solved = (A.reshape(n * K, n) @ np.linalg.inv(shared)).reshape(n, K, n)
    joined = A @ np.ascontiguousarray(solved.transpose(0, 2, 1))
    joined[:, range(K), range(K)] += G[:, range(n), range(n)].T
    Q = np.asarray(to_numpy(hessian.basis))
    return np.asarray(Q.T @ joined @ Q)


@dataclass(frozen=True, eq=False)
class Updated:
    """Conjugate gradients preconditioned by the inverse of a nearby Hessian.

    A new row changes 𝓗⁻¹ by rank K-1 (Woodbury); iterations make the solution exact.

    Examples
    --------
    >>> from goalward.testing import problem
    >>> task = problem()
    >>> solver = Updated.of(task.fitted.hessian)
    >>> solver.prepare(task.fitted.hessian)(task.goal.gradient(task.fitted)).iterations
    1
    """

    inverse: Inverse = field(repr=False)
    tol: float | None = None

    @classmethod
    def of(cls, hessian: LinearCurvature) -> Updated:
        return cls(Inverse.of(hessian, Coordinates.features(hessian)))

    def added(self, row: Rows, block: Float[Array, "c c"]) -> Updated:
        return replace(self, inverse=self.inverse.added(row, block))

    def prepare(self, hessian: LinearCurvature) -> Solve:
        matrix = self.inverse.matrix

        def near(r: Float[Array, "p c"]) -> Float[Array, "p c"]:
            xp = namespace(r)
            return xp.reshape(matrix @ xp.reshape(r, (-1,)), r.shape)

        wide = partial(in_basis, hessian, apply=near)
        return by_products(hessian, wide, "Updated", self.tol, max_iter=500)


def fits(hessian: LinearCurvature, largest: int = 2500) -> bool:
    """Return whether an inverse by features pays for this Hessian."""
    c = hessian.basis.shape[1]
    size, rows = hessian.shape[0] * c, hessian.proba.shape[0] * c
    return not is_sparse(hessian.labelled.X) and 100 <= size <= largest and rows >= size / 2
