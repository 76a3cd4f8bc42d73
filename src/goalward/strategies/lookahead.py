"""Scores of a pool under a model that takes rows in as if they were labelled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import like, namespace, rows_at, stack_rows, to_numpy
from goalward.core.candidates import Candidates
from goalward.errors import BadParameter, Unsupported
from goalward.models import Fitted, Labelled, Linear, Refitted
from goalward.pool import take_rows
from goalward.solvers import Solver, Updated, fits

__all__ = ["Lookahead", "Settled"]


class Settled:
    """Scores that do not change: for strategies without a goal."""

    def __init__(self, values: NDArray[Any]) -> None:
        self._values = values

    def values(self) -> NDArray[Any]:
        """Return the scores."""
        return self._values

    def focus(self, rows: NDArray[Any]) -> None:
        """Keep only these rows in play."""
        kept = np.full_like(self._values, -np.inf)
        kept[rows] = self._values[rows]
        self._values = kept

    def absorb(self, row: int, update: str, radius: float = 0.0) -> None:
        """Refuse: only a goal says what a label would change."""
        raise BadParameter(
            "Sequential() picks by what a label would change, which only goal-oriented strategies "
            "know; GoalOriented was expected. Use Top() or Stochastic() here."
        )


class Lookahead:
    """Scores that follow the model as rows are absorbed.

    A row absorbed with a distribution t over labels joins the labelled rows, and a few Newton
    steps from where the model was move it to the new optimum. With its own prediction for t
    the slope of the row is zero: the model stays and only its curvature grows. The inverse
    Hessian follows by low-rank updates where the features are few enough to hold it.
    """

    def __init__(
        self,
        fitted: Fitted,
        X_pool: Any,
        rows: NDArray[Any],
        values: NDArray[Any],
        score: Callable[[Fitted, Any, NDArray[Any], Solver | None], NDArray[Any]],
        believe: Callable[[Candidates], Any],
    ) -> None:
        self._fitted = fitted
        self._X = X_pool
        self._rows = rows
        self._values = values
        self._score = score
        self._believe = believe
        self._features: Any = None
        self._solver: Updated | None = None
        self._spread: float | None = None
        self._near: NDArray[Any] | None = None
        self._focus = np.flatnonzero(np.isfinite(values))

    def values(self) -> NDArray[Any]:
        """Return the scores under the model as it is now."""
        return self._values

    def focus(self, rows: NDArray[Any]) -> None:
        """Keep only these rows in play."""
        self._focus = np.sort(rows[np.isfinite(self._values[rows])])
        self._features = None
        kept = np.full_like(self._values, -np.inf)
        kept[self._focus] = self._values[self._focus]
        self._values = kept

    def absorb(self, row: int, update: str, radius: float = 0.0) -> None:
        """Absorb a row and score the rows in focus again; rows equal to it are out.

        Rows within `radius` of it, as a share of the spread of the rows in focus, come last.
        """
        if self._features is None:
            raw = take_rows(self._X, self._focus)
            self._features = self._fitted.features(raw, "X_pool")
        place = int(np.searchsorted(self._focus, row))
        self._fitted = self._absorbed(place, update)
        if self._spread is None:
            self._spread = _spread(self._features)
        if self._near is None:
            self._near = np.zeros(len(self._focus), dtype=bool)
        if radius > 0.0:
            self._near |= _distances(self._features, place) <= radius * self._spread
        left = ~self._same(place)
        self._keep(left)
        self._focus, self._near = self._focus[left], self._near[left]
        self._values = np.full_like(self._values, -np.inf)
        if len(self._focus):
            ids = self._rows[self._focus]
            fresh = self._score(self._fitted, self._features, ids, self._solver)
            # Near-copies wait until nothing else is left.
            held = self._near & ~self._near.all()
            self._values[self._focus] = np.where(held, -np.inf, fresh)

    def _same(self, place: int) -> NDArray[Any]:
        """Return which rows go with the one taken: those equal to it."""
        return _equal_rows(self._features, place)

    def _keep(self, left: NDArray[Any]) -> None:
        """Drop rows from the features in focus."""
        self._features = rows_at(self._features, np.flatnonzero(left))

    def _absorbed(self, place: int, update: str) -> Fitted:
        fitted = self._fitted
        if update == "curvature" and isinstance(fitted.model, Refitted):
            raise Unsupported(
                "Sequential(update='curvature') came with a classifier that has no curvature; a linear "
                "model or a network was expected. Use Sequential() or Top()."
            )
        dtype = fitted.params.dtype
        x = like(rows_at(self._features, np.array([place])), fitted.params, dtype=dtype)
        proba = fitted.loss.proba(fitted.logits_of(x))
        target = proba
        if update == "believed":
            block = Candidates(self._rows[self._focus[place : place + 1]], x, proba)
            target = like(self._believe(block), fitted.params, dtype=dtype)
        xp = namespace(fitted.params)
        old = fitted.labelled
        weight = xp.sum(target * fitted.label_weights, axis=1)
        labelled = Labelled(
            stack_rows(old.X, x),
            xp.concat([old.targets, target]),
            xp.concat([old.weights, weight]),
        )
        grown = replace(fitted, labelled=labelled)
        self._follow(fitted, x, float(weight[0]), proba)
        # The next scores need the direction, not the last digits.
        return grown if update == "curvature" else grown.polished(tol=1e-6, solver=self._solver)

    def _follow(self, fitted: Fitted, x: Any, weight: float, proba: Any) -> None:
        """Bring the inverse up to date by a low-rank update, where one is held."""
        if not isinstance(fitted.model, Linear):
            return
        if self._solver is None and fits(fitted.hessian):
            self._solver = Updated.of(fitted.hessian)
        if self._solver is None:
            return
        block = weight * fitted.loss.blocks(proba)[0, ...]
        self._solver = self._solver.added(x, block)


def _equal_rows(features: Any, place: int) -> NDArray[Any]:
    """Return which rows equal the one at `place`, itself included."""
    row = rows_at(features, np.array([place]))
    if hasattr(features, "tocsr"):
        gap = features - features[np.full(features.shape[0], place)]
        gap.eliminate_zeros()
        same: NDArray[Any] = np.diff(gap.tocsr().indptr) == 0
        return same
    return np.asarray(to_numpy(namespace(features).all(features == row, axis=1)))


def _distances(features: Any, place: int) -> NDArray[Any]:
    """Return the distance of every row to the one at `place`."""
    if hasattr(features, "tocsr"):
        gap = features - features[np.full(features.shape[0], place)]
        squares = np.asarray(gap.multiply(gap).sum(axis=1), dtype=float)
        found: NDArray[Any] = np.sqrt(squares.ravel())
        return found
    xp = namespace(features)
    gap = features - rows_at(features, np.array([place]))
    return np.asarray(to_numpy(xp.sqrt(xp.sum(gap * gap, axis=1))))


def _spread(features: Any) -> float:
    """Return the root mean square distance of rows from their mean."""
    if hasattr(features, "tocsr"):
        mean = np.asarray(features.mean(axis=0)).ravel()
        squares = float(features.multiply(features).sum()) / features.shape[0]
        return float(np.sqrt(max(squares - float(mean @ mean), 0.0)))
    plain = to_numpy(features)
    return float(np.sqrt(np.sum(np.var(plain, axis=0))))
