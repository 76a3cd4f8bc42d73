"""Accuracy, F1 and the worst group of dev rows, made smooth so that they have a slope."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array, like, namespace, softmax, to_numpy
from goalward.errors import BadInput, BadParameter, ShapeMismatch
from goalward.goals.dev_loss import DevGoal
from goalward.goals.goal import ALL_KINDS, Term, check_some_weight
from goalward.goals.kernels import (
    Coupled,
    Coupling,
    Logits,
    ManyLogits,
    ManyValues,
    MinusLoss,
    SoftPoints,
    Weights,
    in_pairs,
    per_label,
)
from goalward.models import Fitted


@dataclass(frozen=True, eq=False)
class SmoothGoal(DevGoal):
    """A goal of dev rows with a temperature: colder is sharper."""

    temperature: float = field(default=1.0, kw_only=True)

    def __post_init__(self) -> None:
        T = self.temperature
        if not (isinstance(T, (int, float)) and 0.0 < T < float("inf")):
            raise BadParameter(
                f"temperature of {type(self).__name__} must be a number above 0, got temperature={T!r}. "
                "Leave it out for the default, or use 0.1 for less smoothing."
            )


class SmoothAccuracy(SmoothGoal):
    """τ = mean softmax(g/T)_y over dev rows, the share of them that is right, smoothed.

    T, in logits, is the width of the boundary: T = 1 is the mean probability of the true label;
    T → 0 is accuracy, but then only rows at the boundary have a slope.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Logistic().fit([[0.0], [1.0]], [0, 1])
    >>> goal = gw.goals.SmoothAccuracy([[2.0], [-1.0], [0.6]], [1, 0, 0], temperature=0.01)
    >>> round(goal.value(fitted), 3)
    0.667
    """

    coupled: ClassVar[bool] = False
    mean: ClassVar[bool] = True

    def kernel(self, fitted: Fitted, targets: Logits, weights: Weights) -> Any:
        if fitted.loss.kind == "labels":
            targets, weights = in_pairs(targets, weights)
        total = namespace(weights).sum(weights)
        check_some_weight(float(total), "SmoothAccuracy")
        points = (weights / total)[:, None] * targets
        return per_label(SoftPoints(points, self.temperature), fitted.loss)


@dataclass(frozen=True, eq=False)
class SmoothF1(SmoothGoal):
    """τ = 2 tp / (predicted + present) of a class, each row counted by P = softmax(g/T).

    tp = Σ t_k P_k, predicted = Σ P_k, present = Σ t_k over dev rows. T → 0 is F1 itself.

    Parameters
    ----------
    positive
        The class whose F1 is meant, or the label. None is the mean over all that have dev rows (macro).
    average
        "micro" counts all labels of all rows together, where rows have several.

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
    average: str = field(default="macro", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.average not in ("macro", "micro"):
            raise BadParameter(
                f"average of SmoothF1 must be 'macro' or 'micro', got {self.average!r}."
            )

    def terms(self, fitted: Fitted) -> list[Term]:
        if fitted.loss.kind == "labels":
            return self._of_labels(fitted)
        if self.average == "micro":
            raise BadParameter(
                "average='micro' of SmoothF1 needs a model of several labels, got one class for each row, "
                "whose micro F1 is its accuracy. Use SmoothAccuracy."
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
            self._refuse_absent()
        terms = []
        for k in columns:
            some = targets if k is None else targets[:, k : k + 1]
            kernel = SoftF1(*in_pairs(some, weights), yes, self.temperature)
            terms.append(Term(1.0 / len(columns), X, per_label(kernel, fitted.loss, k)))
        return terms

    def kernel(self, fitted: Fitted, targets: Logits, weights: Weights) -> SoftF1:
        present = to_numpy(namespace(targets).sum(weights[:, None] * targets, axis=0)) > 0.0
        share = present / present.sum()
        if self.positive is not None:
            share = to_numpy(fitted.targets([self.positive], 1, "positive of SmoothF1"))[0]
            if not present[share > 0.0].all():
                self._refuse_absent()
        shares = like(np.asarray(share), targets, dtype=targets.dtype)
        return SoftF1(targets, weights, shares, self.temperature)

    def _refuse_absent(self) -> None:
        raise BadInput(
            f"SmoothF1 needs at least 1 dev row with the label (positive={self.positive!r}), got none: F1 "
            "is 0 whatever the model says. Add dev rows with it."
        )


@dataclass(frozen=True)
class SoftF1(Coupled):
    """Σ_k share_k 2 tp_k / D_k with D = predicted + present.

    The slopes by tp and predicted are 2/D and -2 tp/D², so u is that of `SoftPoints` with these
    as points; the second derivatives, 0, -2/D² and 4 tp/D³, couple the rows by ∂tp and ∂predicted.
    """

    targets: Logits
    weights: Weights
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
        eye = xp.eye(P.shape[1], dtype=P.dtype, device=P.device)
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
        return xp.sum(w * self.targets * P, axis=-2), xp.sum(w * (self.targets + P), axis=-2)

    def _points(self, logits: Logits) -> SoftPoints:
        hits, total = self._counts(logits)
        per_hit = self._ratio(2.0 * self.shares, total)
        per_prediction = self._ratio(-2.0 * self.shares * hits, total * total)
        points = self.weights[:, None] * (per_hit * self.targets + per_prediction)
        return SoftPoints(points, self.temperature)

    def _ratio(self, above: Float[Array, "*b k"], below: Float[Array, "*b k"]) -> Array:
        """Return a quotient; 0 for classes that do not count, which may never be predicted."""
        xp = namespace(below)
        counted = xp.broadcast_to(self.shares > 0.0, below.shape)
        ones = xp.ones_like(below)
        return xp.where(counted, above / xp.where(counted, below, ones), 0.0 * ones)


@dataclass(frozen=True, eq=False)
class WorstGroup(SmoothGoal):
    """τ = -T log mean_g exp(-a_g/T), a_g the mean log p_y of the dev rows of group g, or minus their loss.

    It lies between the worst group's a_g and the mean over groups: T → 0 is the worst group,
    T → ∞ the mean in which every group counts the same.

    Parameters
    ----------
    weights
        A weight per row, which counts within its group.
    groups
        The group of each row: anything hashable but None, NaN and NaT.
    temperature
        T, in the units of a log-likelihood.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Logistic().fit([[0.0], [1.0]], [0, 1])
    >>> goal = gw.goals.WorstGroup([[2.0], [0.4]], [1, 1], ["north", "south"])
    >>> goal.by_group(fitted)["north"] > goal.value(fitted) > goal.by_group(fitted)["south"]
    True
    """

    kinds: ClassVar[tuple[str, ...]] = ALL_KINDS

    groups: Any = field(repr=False)
    temperature: float = field(default=0.1, kw_only=True)

    def by_group(self, fitted: Fitted) -> dict[Hashable, float]:
        """Return the mean log-likelihood of each group."""
        ((_, X, kernel),) = self.terms(fitted)
        means = to_numpy(kernel.means(fitted.logits_of(X)))  # type: ignore[attr-defined]
        return dict(zip(self._codes()[0], means.tolist(), strict=True))

    def kernel(self, fitted: Fitted, targets: Logits, weights: Weights) -> SoftMinimum:
        names, codes = self._codes()
        m = int(targets.shape[0])
        if len(codes) != m:
            raise ShapeMismatch(
                f"groups of WorstGroup must have {m} entries, one for each row, got {len(codes)}."
            )
        share = np.zeros((m, len(names)))
        share[np.arange(m), codes] = to_numpy(weights)
        total = share.sum(axis=0)
        if not total.min() > 0.0:
            raise BadInput(
                f"The group {names[int(total.argmin())]!r} of WorstGroup needs a row with weight above 0, "
                "got none. Leave the group out."
            )
        shares = like(share / total, targets, dtype=targets.dtype)
        return SoftMinimum(MinusLoss(fitted.loss, targets, weights), shares, self.temperature)

    def _codes(self) -> tuple[list[Hashable], NDArray[Any]]:
        """Return the groups in order of appearance, and each row's position among them."""
        groups = self.groups.tolist() if hasattr(self.groups, "tolist") else list(self.groups)
        missing = [i for i, group in enumerate(groups) if _is_missing(group)]
        if missing:
            raise BadInput(
                f"WorstGroup needs a group for every row, got {len(missing)} of {len(groups)} missing (None, "
                f"NaN or NaT), the first at row {missing[0]}. Leave these rows out, or name their group."
            )
        places: dict[Hashable, int] = {}
        codes = [places.setdefault(group, len(places)) for group in groups]
        return list(places), np.array(codes, dtype=np.int64)


def _is_missing(group: Hashable) -> bool:
    """Return whether a group is None, or not equal to itself: NaN, NaT, pandas' NA."""
    if isinstance(group, tuple):
        return any(_is_missing(part) for part in group)
    same = group == group  # noqa: PLR0124
    return group is None or not isinstance(same, (bool, np.bool_)) or not same


@dataclass(frozen=True)
class SoftMinimum(Coupled):
    """-T log mean_g exp(-a_g/T) with a = -sharesᵀ loss.

    Groups count by q = softmax(-a/T), so u = Σ_g q_g ∂a_g, and W is that of the rows weighted
    by q, less (1/T) Σ_gh (diag(q) - qqᵀ)_gh ∂a_g ∂a_hᵀ.
    """

    each: MinusLoss
    shares: Float[Array, "m g"]
    temperature: float

    def means(self, logits: ManyLogits) -> Float[Array, "*b g"]:
        """Return a of every group."""
        return self.each.rows(logits) @ self.shares

    def value(self, logits: ManyLogits) -> ManyValues:
        xp = namespace(logits)
        scaled = self.means(logits) / -self.temperature
        top = xp.max(scaled, axis=-1, keepdims=True)
        return -self.temperature * (top[..., 0] + xp.log(xp.mean(xp.exp(scaled - top), axis=-1)))

    def cotangent(self, logits: Logits) -> Logits:
        return self._weighted(logits).cotangent(logits)

    def own(self, logits: Logits, motion: Logits) -> Logits:
        return self._weighted(logits).curvature(logits, motion)

    def coupling(self, logits: Logits) -> Coupling:
        xp = namespace(logits)
        q = self._attention(logits)
        rows = -self.each.loss.slope(logits, self.each.targets)
        eye = xp.eye(q.shape[0], dtype=q.dtype, device=q.device)
        middle = (q[:, None] * q[None, :] - eye * q[:, None]) / self.temperature
        return Coupling(self.shares.T[:, :, None] * rows[None, :, :], middle)

    def _attention(self, logits: Logits) -> Array:
        return softmax(self.means(logits) / -self.temperature)

    def _weighted(self, logits: Logits) -> MinusLoss:
        return replace(self.each, weights=self.shares @ self._attention(logits))
