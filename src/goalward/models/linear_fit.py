"""What learners of linear models share: labelled rows in double precision, a start, the fit."""

from __future__ import annotations

from inspect import signature
from numbers import Real
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array, Rows, is_sparse, like, namespace
from goalward.core.labels import clean_weights
from goalward.core.rows import Labelled, clean_rows, column_names, held
from goalward.errors import BadParameter, ShapeMismatch
from goalward.models.fitted import Fitted
from goalward.models.linear import LinearModel
from goalward.models.loss import Loss
from goalward.solvers import named

L = TypeVar("L", bound="Learner")


class Learner:
    """Parameters by name. No estimator of scikit-learn's: `fit` returns a `Fitted`, and not itself."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; so `sklearn.base.clone` takes it too."""
        return {name: getattr(self, name) for name in signature(type(self)).parameters}

    def having(self: L, **changes: Any) -> L:
        """Return the same learner with other parameters."""
        return type(self)(**(self.get_params() | changes))

    def __repr__(self) -> str:
        usual = signature(type(self)).parameters
        params = sorted(self.get_params().items())
        other = [f"{k}={v!r}" for k, v in params if repr(v) != repr(usual[k].default)]
        return f"{type(self).__name__}({', '.join(other)})"


def fitted_to(
    learner: Any,
    X: object,
    y: object,
    loss: Loss,
    names: NDArray[Any],
    *,
    least: int = 1,
    weights: object = None,
    start: Fitted | None = None,
) -> tuple[Fitted, NDArray[Any]]:
    """Return the model of a learner before its fit, intercepts free, and the targets of its rows."""
    X = held(X)
    rows = clean_rows(X, "X", least=least)
    targets = loss.targets(y, names, rows.shape[0], "y")
    labelled = labelled_rows(rows, targets, clean_weights(weights, len(targets)))
    penalty = np.full(rows.shape[1] + learner.fit_intercept, 1.0 / learner.inverse_penalty)
    penalty[rows.shape[1] :] = 0.0
    params = like(np.zeros((len(penalty), len(names))), labelled.targets)
    first = Fitted(
        params if start is None else started(start, params, names),
        labelled,
        like(penalty, labelled.targets),
        names,
        model=LinearModel(intercept=learner.fit_intercept),
        loss=loss,
        C=learner.inverse_penalty,
        columns=column_names(X),
    )
    return first, targets


def polished(learner: Any, first: Fitted) -> Fitted:
    """Return the model at its optimum, as exactly as the learner says."""
    if len(first.labelled) == 0:
        return first
    return first.polished(tol=learner.tol, max_iter=100, solver=named(learner.solver))


def names_of(y: Any, given: Any) -> NDArray[Any]:
    """Return the names of the columns of y: as given, those of a frame, or their numbers."""
    if given is not None:
        return np.asarray(list(given))
    columns = getattr(y, "columns", None)
    if columns is not None:
        return np.asarray(list(columns))
    shape = getattr(y, "shape", None) or np.shape(y)
    return np.arange(shape[1] if len(shape) > 1 else 1)


def check_positive(name: str, value: Any) -> None:
    """Raise unless a parameter is a finite number above 0."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not (number and 1e-150 < float(value) < 1e150):
        raise BadParameter(
            f"{name}={value!r}; a finite number above 0 was expected. Use {name}=1.0."
        )


def labelled_rows(rows: Rows, targets: NDArray[Any], weights: NDArray[Any]) -> Labelled:
    """Return the labelled rows in double precision: they are few, and 1e-8 needs it.

    They are copied, so that a caller who edits an array later does not edit the model.
    """
    reference = np.empty(0) if is_sparse(rows) else rows
    xp = namespace(reference)
    own = rows.copy() if is_sparse(rows) else xp.asarray(rows, copy=True)
    return Labelled(
        like(own, reference, dtype=xp.float64),
        like(targets, reference, dtype=xp.float64),
        like(weights, reference, dtype=xp.float64),
    )


def started(
    start: Fitted, params: Float[Array, "p k"], classes: NDArray[Any]
) -> Float[Array, "p k"]:
    """Return the parameters of a model of the same shape."""
    if tuple(start.params.shape) != tuple(params.shape) or list(start.classes) != list(classes):
        raise ShapeMismatch(
            f"start has parameters {tuple(start.params.shape)} for {start.n_classes} classes; "
            f"{tuple(params.shape)} for the same classes was expected. Leave start out, or "
            "give classes=[...] so that it stays the same from fit to fit."
        )
    return like(start.params, params, dtype=params.dtype)
