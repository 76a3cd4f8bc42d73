"""Base of the learners of linear models."""

from __future__ import annotations

from dataclasses import replace
from inspect import signature
from numbers import Real
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import Rows, is_sparse, like, namespace
from goalward.core.labels import clean_weights
from goalward.core.pool import n_rows
from goalward.core.rows import Labelled, column_names, held
from goalward.errors import BadParameter, NotConverged, Separable, ShapeMismatch
from goalward.models.features import fitted_maps, is_plain
from goalward.models.fitted import Fitted, left_out_likelihood
from goalward.models.linear import LinearModel
from goalward.models.loss import Loss
from goalward.solvers import named

L = TypeVar("L", bound="Learner")


PATH = (0.01, 0.1, 1.0, 10.0)
MIDDLE = 1.0
FEW = 10
"""Number of labels below which the first map and the middle value of C are used."""
AHEAD = 1.0
"""Log-likelihood of left-out labels by which a map must be better than one before it."""


class Learner:
    """Base of learners; `fit` returns a `Fitted`, unlike in scikit-learn."""

    strength: ClassVar[str] = "C"
    """The parameter of the penalty."""

    fit_intercept: bool
    tol: float
    solver: Any
    features: Any = "linear"
    max_iter: int = 100

    fit: Any
    """Return a `Fitted`; see `Logistic.fit`."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {name: getattr(self, name) for name in signature(type(self)).parameters}

    def having(self: L, **changes: Any) -> L:
        return type(self)(**(self.get_params() | changes))

    def __repr__(self) -> str:
        usual = signature(type(self)).parameters
        params = sorted(self.get_params().items())
        other = [f"{k}={v!r}" for k, v in params if repr(v) != repr(usual[k].default)]
        return f"{type(self).__name__}({', '.join(other)})"

    def chosen(
        self, X: Any, y: Any, weights: Any, start: Fitted | None, pool: Any = None
    ) -> Fitted:
        """Return the model whose map and C predict left-out labels best.

        A map after the first must be ahead by `AHEAD`; a later C by anything. The path of C is warm-started.
        """
        X = held(X)
        maps: list[Any] = [None]
        if not is_plain(self.features):
            known = pool is None or n_rows(pool) == 0
            maps = fitted_maps(self.features, X if known else pool)
        chooses, best, most = getattr(self, self.strength) == "loo", None, float("-inf")
        for map in maps:
            rows, first = X if map is None else map.transform(X), start
            if map is not None and start is not None:
                same = start.params.shape[0] == rows.shape[1] + self.fit_intercept
                first = start if same else None
            try:
                model, value = self._along_path(rows, y, weights, first, chooses, len(maps) > 1)
            except (Separable, NotConverged):
                if best is None:
                    raise
                continue
            if best is None or value > most + AHEAD:
                columns = column_names(X)
                best = model if map is None else replace(model, transform=map, columns=columns)
                most = value
            if value == float("-inf"):
                break  # too few labels to compare
        assert best is not None
        return best

    def _along_path(
        self, X: Any, y: Any, weights: Any, start: Fitted | None, chooses: bool, compared: bool
    ) -> tuple[Fitted, float]:
        """Return the best model of some features and its left-out log-likelihood; -inf with few labels."""
        best, most = None, float("-inf")
        plain = self.having(features="linear")
        enough = n_rows(X) >= FEW and (chooses or compared)
        path: tuple[Any, ...] = PATH if enough else (MIDDLE,)
        for value in path if chooses else (None,):
            learner = plain if value is None else plain.having(**{self.strength: value})
            try:
                start = learner.fit(X, y, sample_weight=weights, start=start)
            except (Separable, NotConverged):
                if best is None:
                    raise
                break
            left = left_out_likelihood(start) if enough else most
            if best is None or left > most:
                best, most = start, left
        assert best is not None
        return best, most

    def _labelled(
        self, rows: Rows, y: Any, loss: Loss, classes: NDArray[Any], weights: Any
    ) -> Labelled:
        """Return a clean copy of rows and targets, in double precision for a tol of 1e-8."""
        targets = loss.targets(y, classes, rows.shape[0], "y")
        sparse = is_sparse(rows)
        reference = np.empty(0) if sparse else rows
        xp = namespace(reference)
        own = rows.copy() if sparse else xp.asarray(rows, copy=True)
        checked = (own, targets, clean_weights(weights, len(targets)))
        return Labelled(*(like(part, reference, dtype=xp.float64) for part in checked))

    def _fitted(
        self,
        labelled: Labelled,
        classes: NDArray[Any],
        loss: Loss,
        C: float,
        *,
        X: Any,
        free: bool,
        start: Fitted | None,
    ) -> Fitted:
        """Return the linear model at its optimum; the intercept is penalised unless `free`."""
        penalty = np.full(labelled.X.shape[1] + self.fit_intercept, 1.0 / C)
        if self.fit_intercept and free:
            penalty[-1] = 0.0
        params = like(np.zeros((len(penalty), len(classes))), labelled.targets)
        if start is not None:
            shape, expected = tuple(start.params.shape), tuple(params.shape)
            if shape != expected or list(start.classes) != list(classes):
                raise ShapeMismatch(
                    f"start must have parameters {expected} for the same classes, got {shape} for "
                    f"{start.n_classes} classes. Leave start out, or give classes=[...] so that it "
                    "stays the same from fit to fit."
                )
            params = like(start.params, params, dtype=params.dtype)
        first = Fitted(
            params,
            labelled,
            like(penalty, labelled.targets),
            classes,
            model=LinearModel(intercept=self.fit_intercept),
            loss=loss,
            C=C,
            columns=column_names(X),
        )
        if len(labelled) == 0:
            return first
        return first.model.polished(
            first, tol=self.tol, max_iter=self.max_iter, solver=named(self.solver)
        )


def names_of(y: Any, given: Any) -> NDArray[Any]:
    """Return column names of y: as given, from a frame, or numbers."""
    if given is None:
        given = getattr(y, "columns", None)
    if given is not None:
        return np.asarray(list(given))
    shape = getattr(y, "shape", None) or np.shape(y)
    return np.arange(shape[1] if len(shape) > 1 else 1)


def check_positive(name: str, value: Any, other: str = "") -> None:
    """Raise unless a parameter and its inverse are finite and positive."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not (number and 1e-150 < float(value) < 1e150):
        raise BadParameter(
            f"{name} must be a finite number above 0 (1e-150 to 1e150){other}, got {value!r}. Use "
            f"{name}=1.0."
        )
