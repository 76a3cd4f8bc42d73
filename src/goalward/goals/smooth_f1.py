"""F1 with a slope: precision and recall of a class from soft counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float

from goalward.core.arrays import Array, like, namespace, softmax, to_numpy
from goalward.errors import BadInput
from goalward.goals.coupled import Coupled, Coupling
from goalward.goals.dev_goal import DevGoal, Weights, check_temperature
from goalward.goals.goal import Logits, ManyLogits, ManyValues
from goalward.goals.smooth_accuracy import SoftPoints
from goalward.models import Fitted

__all__ = ["SmoothF1", "SoftF1"]


@dataclass(frozen=True, eq=False)
class SmoothF1(DevGoal):
    """τ = 2 tp / (predicted + present) of a class, each row counted by P = softmax(g/T).

    tp = Σ t_k P_k, predicted = Σ P_k, present = Σ t_k over dev rows. T → 0 is F1 itself.

    Parameters
    ----------
    X, y, weights
        Dev rows with labels, as for `DevLoss`.
    positive
        The class whose F1 is meant. None is the mean over all classes that have dev rows (macro).
    temperature
        Width of the boundary, in logits.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Logistic().fit([[0.0], [1.0]], ["no", "yes"])
    >>> X_dev, y_dev = [[2.0], [-1.0], [0.6]], ["yes", "no", "no"]
    >>> goal = gw.goals.SmoothF1(X_dev, y_dev, positive="yes", temperature=0.01)
    >>> round(goal.value(fitted), 3)
    0.667
    """

    positive: Any = field(default=None, kw_only=True)
    temperature: float = field(default=1.0, kw_only=True)

    def __post_init__(self) -> None:
        check_temperature(self.temperature, "SmoothF1")

    def kernel(self, fitted: Fitted, targets: Logits, weights: Weights) -> SoftF1:
        """Return F1 from soft counts, by the shares of the classes."""
        present = to_numpy(namespace(targets).sum(weights[:, None] * targets, axis=0)) > 0.0
        share = present / present.sum()
        if self.positive is not None:
            share = to_numpy(fitted.targets([self.positive], 1, "positive of SmoothF1"))[0]
            if not present[share > 0.0].all():
                raise BadInput(
                    f"No dev row of SmoothF1 has the label positive={self.positive!r}, so its F1 is 0 "
                    "whatever the model says; at least 1 was expected. Add dev rows of that class."
                )
        shares = like(np.asarray(share), targets, dtype=targets.dtype)
        return SoftF1(targets, weights, shares, self.temperature)


@dataclass(frozen=True)
class SoftF1(Coupled):
    """Σ_k share_k 2 tp_k / D_k with D = predicted + present.

    The slopes by tp and predicted are 2/D and -2 tp/D², so u is that of `SoftPoints` with these
    as points; the second derivatives couple the rows: 0, -2/D² and 4 tp/D³.
    """

    targets: Logits
    weights: Float[Array, " m"]
    shares: Float[Array, " k"]
    temperature: float

    def value(self, logits: ManyLogits) -> ManyValues:
        """Return the mean of F1 by the classes' shares."""
        hits, total = self._counts(logits)
        return namespace(logits).sum(self.shares * self._ratio(2.0 * hits, total), axis=-1)

    def cotangent(self, logits: Logits) -> Logits:
        """Return ∂τ/∂logits through the soft counts."""
        return self._points(logits).cotangent(logits)

    def own(self, logits: Logits, motion: Logits) -> Logits:
        """Return the curvature of the rows' own soft counts."""
        return self._points(logits).curvature(logits, motion)

    def coupling(self, logits: Logits) -> Coupling:
        """Return ∂tp and ∂predicted of every class, and the second derivatives of F1."""
        xp = namespace(logits)
        hits, total = self._counts(logits)
        P = softmax(logits / self.temperature)
        K = P.shape[1]
        eye = xp.eye(K, dtype=P.dtype, device=P.device)
        # ∂P_k/∂g for every class k: P_k (e_k - P)/T.
        slopes = P.T[:, :, None] * (eye[:, None, :] - P[None, :, :]) / self.temperature
        slopes = self.weights[None, :, None] * slopes
        vectors = xp.concat([self.targets.T[:, :, None] * slopes, slopes], axis=0)
        cross = eye * self._ratio(-2.0 * self.shares, total * total)[:, None]
        last = eye * self._ratio(4.0 * self.shares * hits, total**3)[:, None]
        upper = xp.concat([xp.zeros_like(cross), cross], axis=1)
        return Coupling(vectors, xp.concat([upper, xp.concat([cross, last], axis=1)], axis=0))

    def _counts(self, logits: ManyLogits) -> tuple[Array, Array]:
        """Return tp and predicted + present of every class."""
        xp = namespace(logits)
        P = softmax(logits / self.temperature)
        w = self.weights[:, None]
        hits = xp.sum(w * self.targets * P, axis=-2)
        return hits, xp.sum(w * (self.targets + P), axis=-2)

    def _points(self, logits: Logits) -> SoftPoints:
        hits, total = self._counts(logits)
        hit = self._ratio(2.0 * self.shares, total)
        said = self._ratio(-2.0 * self.shares * hits, total * total)
        return SoftPoints(self.weights[:, None] * (hit * self.targets + said), self.temperature)

    def _ratio(self, above: Float[Array, "*b k"], below: Float[Array, "*b k"]) -> Array:
        """Return a quotient; 0 for classes that do not count, which may never be predicted."""
        xp = namespace(below)
        counted = xp.broadcast_to(self.shares > 0.0, below.shape)
        one = xp.ones_like(below)
        return xp.where(counted, above / xp.where(counted, below, one), 0.0 * one)
