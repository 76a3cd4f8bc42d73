"""The whole pool as the goal, with labels that are believed, not known."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from goalward.core.arrays import eps, softmax, to_numpy
from goalward.core.candidates import Candidates
from goalward.errors import BadParameter, ShapeMismatch, VacuousUtility
from goalward.goals.dev_loss import DevLoss, count_labels
from goalward.goals.goal import Goal, Unsettled, file_parts, logits_of
from goalward.models import Fitted

__all__ = ["SoftPool", "belief_labels"]


@dataclass(frozen=True, eq=False)
class SoftPool(Unsettled):
    """τ = Σ_r Σ_k t_rk log p_rk over unlabelled rows, t what a second opinion believes.

    No dev label is needed: a label model learns from the labelled rows, and the goal is that the
    model agrees with it where the pool is. t is settled once a round (`settled`), so a batch is chosen
    by one goal; from round to round it changes, and so τ is not comparable. The model's own
    prediction as t is where τ is largest already: its slope is 0 and a warning says so.

    Parameters
    ----------
    X
        The pool, a sample of it, or the rows where the model will be used.
    belief
        `LabelModel(estimator)`, `CrossFitted`, `Calibrated`, or anything with
        `prepare(fitted, round)` that returns candidates -> (m, K) distributions.

    Examples
    --------
    >>> import goalward as gw
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> fitted = gw.Logistic().fit([[0.0], [1.0], [2.0]], [0, 1, 1])
    >>> second = gw.labels.LabelModel(RandomForestClassifier(20, random_state=0))
    >>> goal = gw.goals.SoftPool([[-1.0], [0.5], [3.0]], second).settled(fitted)
    >>> goal.y.shape
    (3, 2)
    """

    X: Any = field(repr=False)
    belief: Any

    def __post_init__(self) -> None:
        if not callable(getattr(self.belief, "prepare", None)):
            raise BadParameter(
                f"belief={self.belief!r} of SoftPool; a belief such as LabelModel(estimator) was "
                "expected. Wrap a classifier: gw.labels.LabelModel(...)."
            )

    @property
    def labels_held(self) -> int:
        return belief_labels(self.belief)

    def settled(self, fitted: Fitted, round: int = 0) -> Goal:
        believe = self.belief.prepare(fitted, round)
        parts = []
        differs = 0.0
        for at, X in file_parts(self.X):
            features = fitted.features(X, "X of SoftPool")
            proba = softmax(logits_of(fitted, features))
            ids = np.arange(features.shape[0]) + (at.start or 0)
            believed = to_numpy(believe(Candidates(ids, features, proba)))
            if believed.shape != tuple(proba.shape):
                raise ShapeMismatch(
                    f"{self.belief!r} answered with shape {believed.shape}; {tuple(proba.shape)}, a "
                    "distribution for each row of SoftPool, was expected. Return one."
                )
            gap = np.abs(believed - to_numpy(proba)).max(initial=0.0)
            differs = float(np.maximum(differs, gap / eps(proba)))
            wide = believed.astype(np.float64)
            total = wide.sum(axis=1, keepdims=True)
            # Single precision misses a sum of 1 by more than labels may.
            parts.append(wide / total if np.allclose(total, 1.0, atol=1e-3) else wide)
        if differs <= 16.0:
            warnings.warn(
                f"{self.belief!r} believes what the model predicts, so SoftPool is at its largest "
                "already: its slope is 0 and every label of every row scores the same. Use a second "
                "opinion that the model does not share, such as LabelModel(RandomForestClassifier()).",
                VacuousUtility,
                stacklevel=2,
            )
        return SoftLabels(self.X, np.concatenate(parts))


class SoftLabels(DevLoss):
    """Dev rows whose labels are believed: nobody was asked for them."""

    @property
    def labels_held(self) -> int:
        return 0


def belief_labels(belief: Any) -> int:
    """Return how many labels a belief brings, itself or in the belief that it wraps."""
    held = [getattr(one, "y", None) for one in (belief, getattr(belief, "belief", None))]
    return max(0 if y is None else count_labels(y) for y in held)
