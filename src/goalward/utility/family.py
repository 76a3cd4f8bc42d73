"""One model, its goal, and all models that differ from it by a few added rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array, Rows, cholesky, like, namespace, rows_at
from goalward.goals import Goal, Term
from goalward.models import Fitted, contrasts
from goalward.solvers.cholesky import dense_curvature
from goalward.utility.added import Base, Singles, Window
from goalward.utility.span import Span

__all__ = ["CHUNK", "Family", "base_of"]

CHUNK = 2**18
"""Numbers in one array of a chunk of models: 2 MB, so that a sweep stays in the cache."""


@dataclass(frozen=True)
class Family:
    """What utilities beyond first order share: coordinates, one inverse, the goal's rows.

    Parameters
    ----------
    goal_coordinates
        The rows of each term of the goal in the coordinates of `span`.
    before
        The goal at the model itself.
    """

    fitted: Fitted
    span: Span
    base: Base
    terms: list[Term]
    goal_coordinates: list[Float[Array, "_ q"]]
    before: float

    @classmethod
    def of(cls, fitted: Fitted, goal: Goal) -> Family:
        """Return the family of a model, moved to its optimum first.

        Its distance from the optimum would count as gain otherwise.
        """
        fitted.linear("ImplicitStep")
        fitted = fitted.polished(tol=1e-10)
        span = Span.of(fitted)
        base = base_of(fitted, span)
        dtype = fitted.params.dtype
        terms = [
            term._replace(X=like(term.X, fitted.params, dtype=dtype)) for term in goal.terms(fitted)
        ]
        coordinates = [span.coordinates(term.X) for term in terms]
        before = sum(
            term.weight * float(term.kernel.value(Z @ base.start @ base.Q.T))
            for term, Z in zip(terms, coordinates, strict=True)
        )
        return cls(fitted, span, base, terms, coordinates, before)

    def rows(self, rows: Rows) -> Rows:
        """Return rows in the precision of the model."""
        return like(rows, self.fitted.params, dtype=self.fitted.params.dtype)

    def chunks(self, rows: Rows) -> Iterator[Rows]:
        """Return rows in chunks whose models, one per label, fit the cache."""
        step = max(1, CHUNK // (self._largest() * self.fitted.n_classes))
        for first in range(0, rows.shape[0], step):
            yield rows_at(rows, slice(first, first + step))

    def singles(self, rows: Rows) -> tuple[Float[Array, "n q"], Singles]:
        """Return coordinates of rows, and the models that add one of them under each label."""
        Z = self.span.coordinates(rows)
        xp = namespace(Z)
        K = self.fitted.n_classes
        shape = (1, K - 1, rows.shape[0], K)
        targets = xp.broadcast_to(self.base.Q.T[None, :, None, :], shape)
        weights = xp.broadcast_to(self.fitted.label_weights, (1, 1, rows.shape[0], K))
        added = Singles.of(
            self.base,
            Z.T,
            self.span.squared_outside(rows, Z),
            xp.reshape(targets, (1, K - 1, -1)),
            xp.reshape(weights, (1, 1, -1)),
        )
        return Z, added

    def windows(
        self, rows: Rows, codes: NDArray[Any]
    ) -> Iterator[tuple[Float[Array, "b q"], Window, NDArray[Any]]]:
        """Return the models that add all rows under each of `codes` (L, b), in chunks."""
        size = rows.shape[0]
        Z = self.span.coordinates(rows)
        xp = namespace(Z)
        S = self.span.outside(rows, Z, rows, Z)
        S = xp.zeros((size, size), dtype=Z.dtype, device=Z.device) if S is None else S
        step = max(1, CHUNK // self._largest())
        for first in range(0, codes.shape[0], step):
            part = codes[first : first + step]
            index = like(part.T.reshape(-1), Z)
            targets = xp.reshape(xp.take(self.base.Q, index, axis=0), (size, part.shape[0], -1))
            weights = xp.take(self.fitted.label_weights, index, axis=0)
            added = Window.of(
                self.base,
                Z,
                S,
                xp.permute_dims(targets, (0, 2, 1)) + 0.0,
                xp.reshape(weights, (size, 1, part.shape[0])),
            )
            yield Z, added, part

    def change(
        self, psi: Float[Array, "q c m"], a: Float[Array, "b c m"], rows: Rows, Z: Array
    ) -> Float[Array, " m"]:
        """Return the goal of every model, less what it was before."""
        xp = namespace(psi)
        q, c, m = psi.shape
        total: Any = -self.before
        for term, Z_goal in zip(self.terms, self.goal_coordinates, strict=True):
            f = xp.reshape(Z_goal @ xp.reshape(psi, (q, c * m)), (-1, c, m))
            E = self.span.outside(term.X, Z_goal, rows, Z)
            if E is not None:
                f = f + _moved_outside(E, a)
            # Classes first in memory, last in the view: reductions run over whole slabs.
            logits = xp.tensordot(self.base.Q, f, axes=([1], [1]))  # (K, rows, models)
            value = term.kernel.value(xp.permute_dims(logits, (2, 1, 0)))
            total = total + term.weight * value
        return total

    def _largest(self) -> int:
        """Return the numbers that one model takes in its largest array."""
        q, c = self.base.start.shape
        # Logits of goal rows pass once, so they may take more than what is swept over.
        rows = max(int(Z.shape[0]) for Z in self.goal_coordinates)
        return max(int(q * c), rows * int(c + 1) // 4)


def base_of(fitted: Fitted, span: Span) -> Base:
    """Return what all models near `fitted` share, in the coordinates of `span`."""
    labelled = fitted.labelled
    B = span.coordinates(labelled.X)
    Q = contrasts(fitted.n_classes, fitted.params)
    rho = fitted.weight_penalty
    xp = namespace(B)
    ridge = xp.full((B.shape[1],), rho, dtype=B.dtype, device=B.device)
    if span.intercept:
        ridge = xp.concat([ridge[:-1], fitted.penalty[-1:]])
    # The same objective in the coordinates: its optimum there has the same logits.
    H = dense_curvature(B, fitted.hessian.blocks(), ridge)
    start = fitted.params @ Q
    if span.basis is not None:
        inside = span.basis.T @ (labelled.X @ start[: fitted.n_features, :])
        start = xp.concat([inside, start[-1:, :]]) if span.intercept else inside
    q, c = start.shape
    inverse = cholesky(H)(xp.eye(q * c, dtype=H.dtype, device=H.device))
    inverse = xp.reshape(inverse, (q, c, q, c))
    heaviest = float(xp.max(fitted.label_weights))
    return Base(B, labelled.targets @ Q, labelled.weights, ridge, rho, start, inverse, Q, heaviest)


def _moved_outside(E: Float[Array, "m s"], a: Float[Array, "b c n"]) -> Float[Array, "m c n"]:
    """Return how directions outside the span move the goal's logits.

    With one added row per model, each model has its own column of E; else all share them.
    """
    xp = namespace(a)
    b, c, n_models = a.shape
    if b == 1:
        by_row = xp.reshape(a, (1, c, E.shape[1], -1))
        return xp.reshape(E[:, None, :, None] * by_row, (E.shape[0], c, n_models))
    return xp.reshape(E @ xp.reshape(a, (b, c * n_models)), (E.shape[0], c, n_models))
