"""A classifier without curvature: trees, neighbours, boosting. All it can do is be refitted.

Its logits are log-probabilities, so goals, beliefs and operators read it like any other model;
what needs a derivative is refused.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, NoReturn

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from goalward.core.arrays import Array, Rows, plain_rows
from goalward.core.labels import as_classes
from goalward.core.rows import Labelled, check_sparse
from goalward.errors import BadParameter, Unsupported
from goalward.models.fitted import Fitted, as_fitted
from goalward.models.model import Model
from goalward.solvers import Solver


@dataclass(frozen=True, eq=False)
class Refitted(Model):
    """A scikit-learn classifier: the one that was fitted, and how to make another.

    Made by `gw.adapters.from_classifier`.

    Parameters
    ----------
    estimator
        What predicts: the user's own object, until it is refitted.
    classes
        All labels, in the order of the columns.
    smoothing
        Share of the uniform distribution mixed into predictions. A tree says 0 and 1, whose
        logarithm no goal survives.
    fresh
        What is fitted instead of a fitted estimator: one with the same random state each time.
    predict_only
        Whether it was fitted to rows that are not known here: it predicts, and that is all.
    """

    estimator: Any
    classes: NDArray[Any]
    width: int
    smoothing: float = 0.01
    fresh: Callable[[Any], Any] = field(default=lambda estimator: estimator, repr=False)
    predict_only: bool = False

    has_derivatives: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 0.0 < self.smoothing < 1.0:
            raise BadParameter(
                f"smoothing={self.smoothing!r}; a share between 0 and 1 was expected. Use 0.01."
            )

    def fitted(
        self,
        labelled: Labelled,
        classes: NDArray[Any],
        transform: Callable[[Any], Any] | None,
        columns: Any,
    ) -> Fitted:
        """Return the model with the rows it was fitted to; see `Fitted`."""
        # There are no parameters; goals read from them that numbers are NumPy's, in double precision.
        params, penalty = np.zeros((1, len(classes))), np.ones(1)
        options = {"model": self, "transform": transform, "columns": columns}
        return Fitted(params, labelled, penalty, classes, **options)

    def n_features(self, params: Array) -> int:
        """Return the number of features."""
        return self.width

    def logits(self, params: Array, X: Rows) -> Float[Array, "n k"]:
        """Return log p, p smoothed."""
        rows, K = plain_rows(X), len(self.classes)
        code = {label: k for k, label in enumerate(self.classes.tolist())}
        p = np.zeros((rows.shape[0], K))
        with warnings.catch_warnings():
            # Columns of a frame were compared by name at the door.
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            known = [code[label] for label in np.ravel(self.estimator.classes_).tolist()]
            p[:, known] = self.estimator.predict_proba(rows)
        return np.log((1.0 - self.smoothing) * p + self.smoothing / K)

    def trained(self, X: Rows, targets: Array, weights: Array) -> Refitted:
        """Return the model refitted; a row with a distribution counts as one of each label."""
        rows, label = np.nonzero(targets * weights[:, None])
        share = (targets * weights[:, None])[rows, label]
        options = {}
        if not np.all(share == 1.0):
            if "sample_weight" not in inspect.signature(self.estimator.fit).parameters:
                raise Unsupported(
                    f"{type(self.estimator).__name__} takes no sample_weight, and rows came with "
                    "weights or with distributions over labels; whole labels were expected. Leave "
                    "weights out, or use another classifier."
                )
            options["sample_weight"] = share
        blank = self.fresh(self.estimator)
        return replace(self, estimator=blank.fit(X[rows], self.classes[label], **options))

    def polished(
        self, fitted: Fitted, *, tol: float, max_iter: int | None, solver: Solver | None
    ) -> Fitted:
        """Return the classifier refitted to the labelled rows."""
        known = fitted.labelled
        return replace(fitted, model=self.trained(known.X, known.targets, known.weights))

    def _refuse(self, *args: Any, **options: Any) -> NoReturn:
        """Refuse: there is nothing to differentiate."""
        raise Unsupported(
            f"A derivative was asked of {type(self.estimator).__name__}, which has none; a linear "
            "model or a network was expected. Use utility=gw.utility.Retrain(), which refits."
        )

    at = curvature = gradient_scale = squared_norms = _refuse


def that_predicts(estimator: Any) -> Fitted:
    """Return the model that came: of a fitted classifier nothing but its predictions is known."""
    model, transform = last_step(estimator)
    own = isinstance(model, (type, Fitted)) or hasattr(model, "fitted_")
    if own or not hasattr(model, "predict_proba"):
        return as_fitted(model)
    check_is_fitted(model)
    classes, width = as_classes(np.ravel(model.classes_)), int(model.n_features_in_)
    nothing = Labelled(np.empty((0, width)), np.empty((0, len(classes))), np.empty(0))
    named = getattr(estimator, "feature_names_in_", None)
    columns = None if named is None else tuple(named)
    blind = Refitted(model, classes, width, predict_only=True)
    return blind.fitted(nothing, classes, transform, columns)


def last_step(estimator: Any) -> tuple[Any, Callable[[Any], Any] | None]:
    """Return the model at the end of a pipeline, and what raw rows go through in front of it.

    Of a search it is the best estimator, of a frozen one what is inside.
    """
    steps: list[Any] = []
    while True:
        if isinstance(estimator, Pipeline):
            if len(estimator.steps) > 1:
                steps.append(estimator[:-1])
            estimator = estimator.steps[-1][1]
        elif isinstance(estimator, FrozenEstimator):
            estimator = estimator.estimator
        elif hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        else:
            return estimator, partial(_through, steps) if steps else None


def _through(steps: list[Any], X: Any) -> Any:
    # Steps multiply raw rows before anybody else sees them.
    check_sparse(X, "X")
    for step in steps:
        X = step.transform(X)
    return X
