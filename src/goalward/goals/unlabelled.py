"""Goals of unlabelled rows: certain predictions, and agreement with a second opinion."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from goalward.core.arrays import Rows, eps, like, softmax, to_numpy
from goalward.core.rows import Candidates
from goalward.errors import BadParameter, ShapeMismatch, VacuousUtility
from goalward.goals.dev_loss import DevLoss
from goalward.goals.goal import Goal, LearnedGoal, RowGoal, logits_of
from goalward.goals.kernels import LikeliestClass, NegativeEntropy, NegativeTrace, per_label
from goalward.models import Fitted


class Entropy(RowGoal):
    """τ = Σ Σ_k p_k log p_k: minus the summed entropy of predictions on unlabelled rows X.

    Raising it can lower accuracy (the paper's §6.3): use it as a baseline.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Logistic().fit([[0.0], [1.0]], [0, 1])
    >>> gw.goals.Entropy([[0.5]]).value(fitted)  # -log 2, at the boundary
    -0.6931471805599453
    """

    kinds: ClassVar[tuple[str, ...]] = ("class", "labels")

    def bind(self, fitted: Fitted, X: Rows) -> Any:
        return per_label(NegativeEntropy(), fitted.loss)


class ExpectedAccuracy(RowGoal):
    """τ = Σ max p: the expected number of unlabelled rows X that the model classifies right.

    Under the prediction, retrained, this is expected error reduction with 0/1 loss (Roy and McCallum
    2001), as `Entropy` is with log loss.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Logistic().fit([[0.0], [1.0]], [0, 1])
    >>> gw.goals.ExpectedAccuracy([[0.5]]).value(fitted)  # at the boundary
    0.5
    """

    kinds: ClassVar[tuple[str, ...]] = ("class", "labels")

    def bind(self, fitted: Fitted, X: Rows) -> Any:
        return per_label(LikeliestClass(), fitted.loss)


class Fisher(RowGoal):
    """τ = -mean (1 - ‖p‖²)‖x‖², minus the trace of the mean Fisher information of rows X.

    x has its constant column if the model has an intercept. The paper's λdK depends on n alone and is
    left out: τ would rise with every label.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Logistic().fit([[0.0], [1.0]], [0, 1])
    >>> gw.goals.Fisher([[0.5]]).value(fitted)  # -(1 - 1/2) (0.5² + 1)
    -0.625
    """

    def bind(self, fitted: Fitted, X: Rows) -> NegativeTrace:
        norms = like(fitted.model.squared_norms(X, fitted.params), fitted.params)
        return NegativeTrace(norms / X.shape[0])


@dataclass(frozen=True, eq=False)
class SoftPool(LearnedGoal):
    """τ = Σ_r Σ_k t_rk log p_rk over unlabelled rows X, t the belief of a second model.

    t is computed once a round, so τ is not comparable between rounds. The belief is any of
    `goalward.labels`, such as `LabelModel(estimator)`.

    Examples
    --------
    >>> import goalward as gw
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> fitted = gw.Logistic().fit([[0.0], [1.0], [2.0]], [0, 1, 1])
    >>> second = gw.labels.LabelModel(RandomForestClassifier(20, random_state=0))
    >>> goal = gw.goals.SoftPool([[-1.0], [0.5], [3.0]], second).for_round(fitted)
    >>> goal.y.shape
    (3, 2)
    """

    X: Any = field(repr=False)
    belief: Any

    def __post_init__(self) -> None:
        if not callable(getattr(self.belief, "prepare", None)):
            raise BadParameter(
                "belief of SoftPool must be one such as gw.labels.LabelModel(estimator), got "
                f"{self.belief!r}. Wrap a classifier: LabelModel(...)."
            )

    @property
    def labels_held(self) -> int:
        return belief_labels(self.belief)

    def for_round(self, fitted: Fitted, round: int = 0) -> Goal:
        rows = fitted.features(self.X, "X of SoftPool")
        proba = softmax(logits_of(fitted, rows))
        believe = self.belief.prepare(fitted, round)
        belief = to_numpy(believe(Candidates(np.arange(rows.shape[0]), rows, proba)))
        if belief.shape != tuple(proba.shape):
            raise ShapeMismatch(
                f"The belief of SoftPool must have shape {tuple(proba.shape)}, a distribution for each "
                f"row, got shape {belief.shape} from {self.belief!r}."
            )
        if np.abs(belief - to_numpy(proba)).max(initial=0.0) <= 16.0 * eps(proba):
            warnings.warn(
                f"SoftPool needs a belief that differs from the model's prediction, got {self.belief!r}: "
                "its slope is 0 and every label of every row scores the same. Use a second opinion, "
                "such as LabelModel(RandomForestClassifier()).",
                VacuousUtility,
                stacklevel=2,
            )
        belief = belief.astype(np.float64)
        total = belief.sum(axis=1, keepdims=True)
        # Single precision misses a sum of 1 by more than labels may.
        return SoftLabels(self.X, belief / total if np.allclose(total, 1.0, atol=1e-3) else belief)


class SoftLabels(DevLoss):
    """Rows with believed labels: nobody was asked for them."""

    labels_held = 0


def belief_labels(belief: Any) -> int:
    """Return how many labels a belief brings, itself or in the belief that it wraps."""
    labels = [getattr(source, "y", None) for source in (belief, getattr(belief, "belief", None))]
    return max(0 if y is None else len(y) for y in labels)
