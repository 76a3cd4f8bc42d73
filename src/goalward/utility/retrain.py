"""The truth: the goal after really retraining with each label, for all of them at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from joblib import Parallel, delayed
from numpy.typing import NDArray

from goalward.arrays import Array, Rows, cholesky, like, namespace, rows_at, stack_rows, to_numpy
from goalward.errors import NotConverged
from goalward.goals import Goal, Term
from goalward.learners import Fitted, Labelled
from goalward.losses import contrasts
from goalward.solvers import Auto, ConjugateGradient
from goalward.solvers.cholesky import dense_curvature
from goalward.utility.added import Base, Singles, Window
from goalward.utility.chord import retrain
from goalward.utility.labelings import batch_codes, batch_rows
from goalward.utility.span import Span
from goalward.utility.threads import one_blas_thread
from goalward.utility.utility import Scored, Utility

__all__ = ["Retrain"]

CHUNK = 2**18
"""Numbers in one array of a chunk of models: 2 MB, so that a sweep stays in the cache."""


@dataclass(frozen=True)
class Retrain(Utility):
    """Δτ by retraining to the optimum at fixed penalty: exact, and made fast by structure.

    All models share one factorisation and are moved together (`goalward.utility.chord`);
    those that stall are retrained one by one by Newton's method. The penalty stays what it
    is in the fitted model, also on intercepts that were penalised because a class had no
    label yet.

    Parameters
    ----------
    tol
        Newton decrement at each optimum, relative to that of the added rows before.
    max_sweeps
        Chord steps before a model is handed to Newton's method.
    n_jobs
        Threads; None is 1, -1 all cores. BLAS is held to one thread in each.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Logistic().fit([[0.0], [1.0]], [0, 1])
    >>> goal = gw.goals.DevLoss([[2.0]], [1])
    >>> gw.utility.Retrain()(fitted, goal, [[1.5], [3.0]]).shape
    (2, 2)
    """

    n_jobs: int | None = field(default=None, kw_only=True)
    tol: float = field(default=1e-9, kw_only=True)
    max_sweeps: int = field(default=100, kw_only=True)

    def prepare(self, fitted: Fitted, goal: Goal) -> _Retrainer:
        """Return the utility with its shared factorisation made."""
        return _Retrainer.of(self, fitted, goal)

    def batch(
        self, fitted: Fitted, goal: Goal, X_batches: Any, labels: Any = None
    ) -> Float[Array, "b l"]:
        """Return Δτ of each batch under each labeling, retrained."""
        rows, n_batches, size = batch_rows(fitted, X_batches)
        codes = batch_codes(fitted, labels, n_batches, size)
        retrainer = self.prepare(fitted, goal)
        jobs = [
            (rows_at(rows, slice(i * size, (i + 1) * size)), codes[i if codes.shape[0] > 1 else 0])
            for i in range(n_batches)
        ]
        values = _run(retrainer.window, jobs, self.n_jobs)
        return namespace(values[0]).stack(values)


@dataclass(frozen=True)
class _Retrainer:
    """A model and goal with everything that its retrainings share."""

    options: Retrain
    fitted: Fitted
    span: Span
    base: Base
    terms: list[Term]
    goal_coordinates: list[Float[Array, "_ q"]]
    before: float
    report: None = None

    @classmethod
    def of(cls, options: Retrain, fitted: Fitted, goal: Goal) -> _Retrainer:
        # The start must be at its own optimum, or its distance from it would count as gain.
        fitted = fitted.polished(tol=1e-10)
        span = Span.of(fitted)
        Q = contrasts(fitted.n_classes, fitted.params)
        B = span.coordinates(fitted.labelled.X)
        base = _base(fitted, span, B, Q)
        terms = [
            term._replace(X=like(term.X, fitted.params, dtype=fitted.params.dtype))
            for term in goal.terms(fitted)
        ]
        coordinates = [span.coordinates(term.X) for term in terms]
        xp = namespace(fitted.params)
        before = sum(
            term.weight * float(term.kernel.value(xp.matmul(Z, base.start @ Q.T)))
            for term, Z in zip(terms, coordinates, strict=True)
        )
        return cls(options, fitted, span, base, terms, coordinates, before)

    def __call__(self, rows: Rows) -> Scored:
        """Return Δτ of every row under every label."""
        proba = self.fitted.loss.proba(self.fitted.logits_of(rows))
        rows = like(rows, self.fitted.params, dtype=self.fitted.params.dtype)
        values = _run(self.singles, [(part,) for part in self._chunks(rows)], self.options.n_jobs)
        return Scored(namespace(values[0]).concat(values, axis=0), proba)

    def singles(self, rows: Rows) -> Float[Array, "n k"]:
        """Return Δτ of each row under each label."""
        n_rows, n_classes = rows.shape[0], self.fitted.n_classes
        Z = self.span.coordinates(rows)
        S = self.span.squared_outside(rows, Z)
        xp = namespace(Z)
        targets = xp.permute_dims(self.base.Q, (1, 0))[None, :, None, :]  # (1, c, 1, K)
        shape = (1, n_classes - 1, n_rows, n_classes)
        targets = xp.reshape(xp.broadcast_to(targets, shape), (1, n_classes - 1, -1))
        weights = xp.broadcast_to(self.fitted.label_weights, (1, 1, n_rows, n_classes))
        weights = xp.reshape(weights, (1, 1, -1))
        added = Singles.of(self.base, Z.T, S, targets, weights)
        psi, a, converged = self._retrain(added)
        repeat = np.repeat(np.arange(n_rows), n_classes)
        values = self._goal(psi, rows, Z, lambda E: _per_row(E, a))
        labels = np.tile(np.arange(n_classes), n_rows)
        values = self._repair(values, converged, rows, lambda m: ([repeat[m]], [labels[m]]))
        return xp.reshape(values, (n_rows, n_classes))

    def window(self, rows: Rows, codes: NDArray[Any]) -> Float[Array, " l"]:
        """Return Δτ of one batch under each of the labelings `codes` (L, b)."""
        rows = like(rows, self.fitted.params, dtype=self.fitted.params.dtype)
        size, n_labelings = rows.shape[0], codes.shape[0]
        Z = self.span.coordinates(rows)
        xp = namespace(Z)
        S = self.span.outside(rows, Z, rows, Z)
        S = xp.zeros((size, size), dtype=Z.dtype, device=Z.device) if S is None else S
        step = max(1, CHUNK // self._largest())
        out = []
        for first in range(0, n_labelings, step):
            part = codes[first : first + step]
            flat = xp.take(self.base.Q, like(part.T.reshape(-1), Z), axis=0)
            targets = xp.reshape(flat, (size, part.shape[0], -1))
            targets = xp.permute_dims(targets, (0, 2, 1)) + 0.0
            weights = xp.take(self.fitted.label_weights, like(part.T.reshape(-1), Z), axis=0)
            weights = xp.reshape(weights, (size, 1, part.shape[0]))
            added = Window.of(self.base, Z, S, targets, weights)
            out.append(self._window(added, rows, Z, part))
        return xp.concat(out)

    def _window(
        self, added: Window, rows: Rows, Z: Float[Array, "b q"], codes: NDArray[Any]
    ) -> Float[Array, " l"]:
        psi, a, converged = self._retrain(added)
        values = self._goal(psi, rows, Z, lambda E: _shared(E, a))
        everyone = list(range(rows.shape[0]))
        return self._repair(values, converged, rows, lambda m: (everyone, list(codes[m])))

    def _retrain(self, added: Any) -> tuple[Array, Array, NDArray[Any]]:
        # A model that diverges overflows before it is found out and handed to Newton.
        with np.errstate(all="ignore"):
            return retrain(
                self.base, added, tol=self.options.tol, max_sweeps=self.options.max_sweeps
            )

    def _chunks(self, rows: Rows) -> Iterator[Rows]:
        step = max(1, CHUNK // (self._largest() * self.fitted.n_classes))
        for first in range(0, rows.shape[0], step):
            yield rows_at(rows, slice(first, first + step))

    def _largest(self) -> int:
        """Return the numbers that one model takes in its largest array."""
        q, c = self.base.start.shape
        # Logits of goal rows pass once, so they may take more than what is swept over.
        rows = max(int(Z.shape[0]) for Z in self.goal_coordinates)
        return max(int(q * c), rows * int(c + 1) // 4)

    def _goal(
        self, psi: Array, rows: Rows, Z: Array, outside: Callable[[Array], Array]
    ) -> Float[Array, " m"]:
        """Return the goal of every model, less what it was before."""
        xp = namespace(psi)
        q, c, m = psi.shape
        total: Any = -self.before
        for term, Z_goal in zip(self.terms, self.goal_coordinates, strict=True):
            f = xp.reshape(Z_goal @ xp.reshape(psi, (q, c * m)), (-1, c, m))
            E = self.span.outside(term.X, Z_goal, rows, Z)
            if E is not None:
                f = f + outside(E)
            # Classes first in memory, last in the view: reductions run over whole slabs.
            logits = xp.tensordot(self.base.Q, f, axes=([1], [1]))  # (K, rows, models)
            value = term.kernel.value(xp.permute_dims(logits, (2, 1, 0)))
            total = total + term.weight * value
        return total

    def _repair(
        self,
        values: Float[Array, " m"],
        converged: NDArray[Any],
        rows: Rows,
        which: Callable[[int], tuple[list[int], list[int]]],
    ) -> Float[Array, " m"]:
        """Return `values` with those of stalled models found by Newton's method."""
        if converged.all():
            return values
        plain = to_numpy(values).copy()
        for m in np.flatnonzero(~converged):
            index, codes = which(int(m))
            plain[m] = self._newton(rows_at(rows, np.asarray(index)), np.asarray(codes))
        return like(plain, values)

    def _newton(self, rows: Rows, codes: NDArray[Any]) -> float:
        fitted = self.fitted
        old = fitted.labelled
        xp = namespace(old.targets)
        new = like(np.eye(fitted.n_classes)[codes], old.targets)
        added = like(to_numpy(fitted.label_weights)[codes], old.weights)
        X = stack_rows(old.X, rows)
        labelled = Labelled(X, xp.concat([old.targets, new]), xp.concat([old.weights, added]))
        # A rough step is enough while far away, and products are cheaper than factors then.
        q, c = self.base.start.shape
        solver = ConjugateGradient() if q * c > 300 else Auto()
        after = replace(fitted, labelled=labelled)
        try:
            after = after.polished(tol=1e-10, solver=solver)
        except NotConverged:
            after = after.polished(tol=1e-10, solver=Auto())
        value = sum(
            term.weight * float(term.kernel.value(after.logits_of(term.X))) for term in self.terms
        )
        return value - self.before


def _base(fitted: Fitted, span: Span, B: Array, Q: Array) -> Base:
    labelled = fitted.labelled
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


def _per_row(E: Float[Array, "m g"], a: Float[Array, "1 c gl"]) -> Float[Array, "m c gl"]:
    xp = namespace(a)
    _, c, n_models = a.shape
    by_row = xp.reshape(a, (1, c, E.shape[1], -1))
    return xp.reshape(E[:, None, :, None] * by_row, (E.shape[0], c, n_models))


def _shared(E: Float[Array, "m b"], a: Float[Array, "b c l"]) -> Float[Array, "m c l"]:
    xp = namespace(a)
    b, c, n_models = a.shape
    return xp.reshape(E @ xp.reshape(a, (b, c * n_models)), (E.shape[0], c, n_models))


def _run(call: Callable[..., Array], jobs: list[Any], n_jobs: int | None) -> list[Array]:
    with one_blas_thread():
        if n_jobs in (None, 1) or len(jobs) == 1:
            return [call(*job) for job in jobs]
        return list(
            Parallel(n_jobs=n_jobs, backend="threading")(delayed(call)(*job) for job in jobs)
        )
