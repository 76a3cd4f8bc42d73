"""Base of the learners of linear models."""

from __future__ import annotations

from inspect import signature
from numbers import Real
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import Rows, is_sparse, like, namespace
from goalward.core.labels import clean_weights
from goalward.core.rows import Labelled, column_names
from goalward.errors import BadParameter, ShapeMismatch
from goalward.models.fitted import Fitted
from goalward.models.linear import LinearModel
from goalward.models.loss import Loss
from goalward.solvers import named

L = TypeVar("L", bound="Learner")


class Learner:
    """Base of learners; `fit` returns a `Fitted`, unlike in scikit-learn."""

    fit_intercept: bool
    tol: float
    solver: Any
    max_iter: int = 100

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {name: getattr(self, name) for name in signature(type(self)).parameters}

    def having(self: L, **changes: Any) -> L:
        return type(self)(**(self.get_params() | changes))

    def __repr__(self) -> str:
        usual = signature(type(self)).parameters
        params = sorted(self.get_params().items())
        other = [f"{k}={v!r}" for k, v in params if repr(v) != repr(usual[k].default)]
        return f"{type(self).__name__}({', '.join(other)})"

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
