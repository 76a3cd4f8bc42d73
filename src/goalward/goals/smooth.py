"""Accuracy and F1 with a slope: dev rows counted softly."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from goalward.core.arrays import Array, like, namespace, softmax, to_numpy
from goalward.errors import BadInput, BadParameter
from goalward.goals.dev_loss import DevGoal, Weights, check_some_weight, check_temperature
from goalward.goals.each_label import in_pairs, per_label
from goalward.goals.goal import Coupled, Coupling, Goal, Logits, ManyLogits, ManyValues, Term
from goalward.models import Fitted

__all__ = ["SmoothAccuracy", "SmoothF1", "SoftF1", "SoftPoints"]


@dataclass(frozen=True, eq=False)
class SmoothAccuracy(DevGoal):
    """τ = mean softmax(g/T)_y over dev rows, the share of them that is right, smoothed.

    softmax(g/T)_y is sigmoid(margin/T) with the margin g_y - T log Σ_{j≠y} exp(g_j/T), a smooth
    g_y - max g_j. T = 1 is the mean probability of the true label; T → 0 is accuracy, but then only
    rows at the boundary have a slope.

    Parameters
    ----------
    X, y, weights
        Dev rows with labels, as for `DevLoss`.
    temperature
        Width of the boundary, in logits.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Logistic().fit([[0.0], [1.0]], [0, 1])
    >>> goal = gw.goals.SmoothAccuracy([[2.0], [-1.0], [0.6]], [1, 0, 0], temperature=0.01)
    >>> round(goal.value(fitted), 3)
    0.667
    """

    coupled: ClassVar[bool] = False
    temperature: float = field(default=1.0, kw_only=True)

    def __post_init__(self) -> None:
        check_temperature(self.temperature, "SmoothAccuracy")

    def kernel(self, fitted: Fitted, targets: Logits, weights: Weights) -> SoftPoints:
        total = namespace(weights).sum(weights)
        check_some_weight(float(total), "SmoothAccuracy")
        return SoftPoints((weights / total)[:, None] * targets, self.temperature)

    def pieces(self) -> list[tuple[float, Goal]]:
        parts: Any = [part for _, part in super().pieces()]
        if len(parts) == 1:
            return [(1.0, self)]
        totals = [
            float(len(part.X) if part.weights is None else to_numpy(part.weights).sum())
            for part in parts
        ]
        check_some_weight(sum(totals), "SmoothAccuracy")
        pairs = zip(totals, parts, strict=True)
        return [(total / sum(totals), part) for total, part in pairs if total > 0.0]


@dataclass(frozen=True)
class SoftPoints:
    """Σ c softmax(g/T): c points for each class, by its tempered probability P.

    With v = P∘(c - ⟨c, P⟩), u = v/T and W s = [v∘(s - ⟨P, s⟩) - P⟨v, s⟩]/T².
    """

    points: Logits
    temperature: float

    def value(self, logits: ManyLogits) -> ManyValues:
        P = softmax(logits / self.temperature)
        return namespace(logits).sum(self.points * P, axis=(-2, -1))

    def cotangent(self, logits: Logits) -> Logits:
        _, v = self._parts(logits)
        return v / self.temperature

    def curvature(self, logits: Logits, motion: Logits) -> Logits:
        xp = namespace(logits)
        P, v = self._parts(logits)
        mean = xp.sum(P * motion, axis=-1, keepdims=True)
        along = xp.sum(v * motion, axis=-1, keepdims=True)
        return (v * (motion - mean) - P * along) / self.temperature**2

    def _parts(self, logits: Logits) -> tuple[Logits, Logits]:
        P = softmax(logits / self.temperature)
        mean = namespace(logits).sum(self.points * P, axis=-1, keepdims=True)
        return P, P * (self.points - mean)


@dataclass(frozen=True, eq=False)
class SmoothF1(DevGoal):
    """τ = 2 tp / (predicted + present) of a class, each row counted by P = softmax(g/T).

    tp = Σ t_k P_k, predicted = Σ P_k, present = Σ t_k over dev rows. T → 0 is F1 itself.

    Parameters
    ----------
    X, y, weights
        Dev rows with labels, as for `DevLoss`.
    positive
        The class whose F1 is meant, or the label. None is the mean over all that have dev rows (macro).
    average
        "micro" counts all labels of all rows together, where rows have several.
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
    average: str = field(default="macro", kw_only=True)

    def __post_init__(self) -> None:
        check_temperature(self.temperature, "SmoothF1")
        if self.average not in ("macro", "micro"):
            raise BadParameter(
                f"average={self.average!r} of SmoothF1; 'macro' or 'micro' was expected."
            )

    def terms(self, fitted: Fitted) -> list[Term]:
        if fitted.loss.kind == "labels":
            return self._of_labels(fitted)
        if self.average == "micro":
            raise BadParameter(
                "average='micro' of SmoothF1 came with a model of one class for each row, whose micro F1 is "
                "its accuracy; a model of several labels was expected. Use SmoothAccuracy."
            )
        return super().terms(fitted)

    def _of_labels(self, fitted: Fitted) -> list[Term]:
        """Return the F1 of yes: one term for each label that counts, or one of all together."""
        X = fitted.features(self.X, "X of SmoothF1")
        targets = fitted.targets(self.y, X.shape[0], "y of SmoothF1")
        weights = fitted.row_weights(self.weights, X.shape[0])
        yes = like(np.array([0.0, 1.0]), targets, dtype=targets.dtype)
        columns: list[int | None] = [None]
        if self.average == "macro":
            present = np.nansum(to_numpy(targets) * to_numpy(weights)[:, None], axis=0) > 0.0
            named = fitted.classes == self.positive if self.positive is not None else present
            columns = [*np.flatnonzero(present & named).tolist()]
        if not columns:
            raise BadInput(
                f"No dev row of SmoothF1 has a yes (positive={self.positive!r}), so F1 is 0 whatever the model "
                "says; at least 1 was expected. Add dev rows with it."
            )
        found = []
        for k in columns:
            some = targets if k is None else targets[:, k : k + 1]
            kernel = SoftF1(*in_pairs(some, weights), yes, self.temperature)
            found.append(Term(1.0 / len(columns), X, per_label(kernel, fitted.loss, k)))
        return found

    def kernel(self, fitted: Fitted, targets: Logits, weights: Weights) -> SoftF1:
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
    as points; the second derivatives, 0, -2/D² and 4 tp/D³, couple the rows by ∂tp and ∂predicted.
    """

    targets: Logits
    weights: Float[Array, " m"]
    shares: Float[Array, " k"]
    temperature: float

    def value(self, logits: ManyLogits) -> ManyValues:
        hits, total = self._counts(logits)
        return namespace(logits).sum(self.shares * self._ratio(2.0 * hits, total), axis=-1)

    def cotangent(self, logits: Logits) -> Logits:
        return self._points(logits).cotangent(logits)

    def own(self, logits: Logits, motion: Logits) -> Logits:
        return self._points(logits).curvature(logits, motion)

    def coupling(self, logits: Logits) -> Coupling:
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
