"""Several labels for each row: one logistic regression for each, fitted together."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from goalward.core.arrays import like
from goalward.models.fitted import Fitted
from goalward.models.linear_fit import Learner, check_positive, fitted_to, names_of, polished
from goalward.models.sigmoid import Sigmoid
from goalward.models.trust import refuse_separable


class MultiLabel(Learner):
    """One-vs-rest logistic regression: K labels, each a yes or a no by itself.

    It is scikit-learn's `OneVsRestClassifier(LogisticRegression(C=C))`, also where rows are answered
    in part. With one label it is `Logistic` of two classes at C/2.

    Parameters
    ----------
    C
        Inverse strength of the penalty.
    labels
        Names of the labels, in the order of the columns; by default those of a frame, or numbers.
        With them there is a model before the first label: `fit(X[:0], [])`.
    fit_intercept
        Whether logits have a constant. It is free, but penalised like a weight while some label has
        no yes or no no yet: a free one would run to infinity.
    tol, solver
        As for `Logistic`.

    Examples
    --------
    >>> import goalward as gw
    >>> X = [[0.0], [1.0], [2.0], [3.0]]
    >>> y = [{"cold"}, {"cold", "wet"}, {"wet"}, {"wet": True}]  # of the last, one label is answered
    >>> fitted = gw.MultiLabel(C=10.0, labels=["cold", "wet"]).fit(X, y)
    >>> fitted.predict([[0.0], [3.0]])
    array([[1, 0],
           [0, 1]])
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        labels: Sequence[Hashable] | None = None,
        fit_intercept: bool = True,
        tol: float = 1e-8,
        solver: Any = "auto",
    ) -> None:
        self.C = C
        self.labels = labels
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.solver = solver

    @property
    def inverse_penalty(self) -> float:
        """C."""
        return float(self.C)

    def fit(
        self, X: object, y: object, *, sample_weight: object = None, start: Fitted | None = None
    ) -> Fitted:
        """Return the model fitted to labelled rows.

        Parameters
        ----------
        X
            (n, d) array of any library, sparse matrix, frame or list of rows.
        y
            (n, K): 1 for yes, 0 for no, NaN for not answered, numbers between for soft answers. Or a
            list with the set of labels of each row, or a dict of those that are answered: label to
            True or False.
        """
        check_positive("C", self.C)
        names = names_of(y, self.labels)
        given: Any = {"least": int(self.labels is None), "weights": sample_weight, "start": start}
        first, targets = fitted_to(self, X, y, Sigmoid(), names, **given)
        counted = targets[np.asarray(first.labelled.weights) > 0.0]
        both = (np.nansum(counted, axis=0) > 0.0) & (np.nansum(1.0 - counted, axis=0) > 0.0)
        if not both.all():
            penalty = np.full(len(first.penalty), 1.0 / self.inverse_penalty)
            first = replace(first, penalty=like(penalty, first.penalty))
        fitted = polished(self, first)
        if len(fitted.labelled):
            refuse_separable(fitted)
        return fitted
