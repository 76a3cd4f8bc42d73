"""Base of the learners of linear models."""

from __future__ import annotations

from dataclasses import replace
from inspect import signature
from numbers import Real
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import is_sparse, like, namespace
from goalward.core.labels import clean_weights
from goalward.core.pool import n_rows
from goalward.core.rows import Labelled, clean_rows, column_names, held
from goalward.errors import BadParameter, NotConverged, Separable, ShapeMismatch
from goalward.models.features import PLAIN, Brought, fitted_maps, maps_of
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
    names: ClassVar[str] = "classes"
    """The parameter that names the columns."""

    fit_intercept: bool
    tol: float
    solver: Any
    features: Any = "linear"
    max_iter: int = 100

    opinion: Any = None

    def fit(
        self,
        X: object,
        y: object,
        *,
        sample_weight: object = None,
        start: Fitted | None = None,
        pool: object = None,
    ) -> Fitted:
        """Return the model fitted to labelled rows.

        Parameters
        ----------
        X
            (n, d) array of any library, sparse matrix, frame or list of rows.
        y
            Classes: n labels, any hashables, or (n, K) distributions. Several labels: (n, K) in [0, 1],
            NaN for missing; or for each row a set of labels or a dict to bool. Numbers: n or (n, K).
        start
            A model of the same shape to start from.
        pool
            Rows without labels, to which `features` are fitted; X by default.
        """
        strength = getattr(self, self.strength)
        if strength != "loo":
            check_positive(self.strength, strength, " or 'loo'")
        X = held(X)
        if self.opinion is not None:
            weighed: Fitted = self.opinion.fitted(self, X, y, sample_weight, pool)
            return weighed
        # With named columns and penalised intercepts there is a model before the first label.
        maps = maps_of(self.features)
        if any(type(map) is Brought for map in maps):  # it may read rows that are no numbers
            return self.chosen(X, y, sample_weight, start, pool)
        none = getattr(self, self.names) is not None and getattr(self, "penalize_intercept", True)
        rows = clean_rows(X, least=int(not none))
        classes, loss = self._columns(y)
        targets = loss.targets(y, classes, rows.shape[0], "y")
        # A copy, in double precision for a tol of 1e-8.
        reference = np.empty(0) if is_sparse(rows) else rows
        xp = namespace(reference)
        own = rows.copy() if is_sparse(rows) else xp.asarray(rows, copy=True)
        checked = (own, targets, clean_weights(sample_weight, len(targets)))
        known = Labelled(*(like(part, reference, dtype=xp.float64) for part in checked))
        if strength == "loo" or maps != PLAIN:
            return self.chosen(X, y, sample_weight, start, pool)
        C, free = self._penalty(known, classes)
        fitted = self._finished(self._fitted(known, classes, loss, C, free, X, start))
        if loss.kind != "numbers":
            fitted.refuse_separable()
        return fitted

    _columns: Any
    """Return the names of the columns of y, and the loss."""
    _penalty: Any
    """Return C, and whether the intercept is free, for checked rows and targets."""

    def _finished(self, fitted: Fitted) -> Fitted:
        """Return the model with what is known after a fit."""
        return fitted

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
        maps: list[Any] = [None]
        if maps_of(self.features) != PLAIN:
            maps = fitted_maps(self.features, pool, X)
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
        path: tuple[Any, ...] = (None,) if not chooses else PATH if enough else (MIDDLE,)
        for value in path:
            learner = plain if value is None else plain.having(**{self.strength: value})
            try:
                start = learner.fit(X, y, sample_weight=weights, start=start)
            except (Separable, NotConverged):
                if best is not None:
                    break
                if value == path[-1]:
                    raise
                continue
            left = left_out_likelihood(start) if enough else most
            if best is None or left > most:
                best, most = start, left
        assert best is not None
        return best, most

    def _fitted(
        self, labelled: Labelled, classes: Any, loss: Loss, C: float, free: bool, X: Any, start: Any
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
