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
        if not (isinstance(self.temperature, (int, float)) and 0.0 < self.temperature < np.inf):
            raise BadParameter(
                f"temperature of {type(self).__name__} must be a number above 0, got "
                f"temperature={self.temperature!r}. Use 1, or 0.1 for less smoothing."
            )


class SmoothAccuracy(SmoothGoal):
    """τ = mean softmax(g/T)_y over dev rows: accuracy at T → 0, the mean probability at T = 1.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Logistic().fit([[0.0], [1.0]], [0, 1])
    >>> goal = gw.goals.SmoothAccuracy([[2.0], [-1.0], [0.6]], [1, 0, 0], temperature=0.01)
    >>> round(goal.value(fitted), 3)
    0.667
    """

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

    tp = Σ t_k P_k, predicted = Σ P_k, present = Σ t_k over dev rows. T → 0 is F1 itself. `positive` None
    is the mean over all classes with dev rows (macro); `average="micro"` counts all labels together.

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
        if fitted.loss.kind != "labels":
            if self.average == "micro":
                raise BadParameter(
                    "average='micro' of SmoothF1 needs a model of several labels, got one class for each "
                    "row, whose micro F1 is its accuracy. Use SmoothAccuracy."
                )
            return super().terms(fitted)
        # The F1 of yes: one term for each label that counts, or one of all together.
        X = fitted.features(self.X, "X of SmoothF1")
        targets = fitted.targets(self.y, X.shape[0], "y of SmoothF1")
        weights = fitted.row_weights(self.weights, X.shape[0])
        yes = like(np.array([0.0, 1.0]), targets, dtype=targets.dtype)
        columns: list[int | None] = [None]
        if self.average == "macro":
            counts = np.nansum(to_numpy(targets) * to_numpy(weights)[:, None], axis=0) > 0.0
            if self.positive is not None:
                counts &= fitted.classes == self.positive
            self._check_present(counts.any())
            columns = [*np.flatnonzero(counts).tolist()]
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
            self._check_present(present[share > 0.0].all())
        shares = like(np.asarray(share), targets, dtype=targets.dtype)
        return SoftF1(targets, weights, shares, self.temperature)

    def _check_present(self, present: np.bool_) -> None:
        if not present:
            raise BadInput(
                f"SmoothF1 needs at least 1 dev row with the label (positive={self.positive!r}), got none: "
                "F1 is 0 whatever the model predicts. Add dev rows with it."
            )


@dataclass(frozen=True)
class SoftF1(Coupled):
    """Σ_k share_k 2 tp_k / D_k, D = predicted + present; rows are coupled by ∂tp and ∂predicted."""

    targets: Logits
    weights: Weights
    shares: Float[Array, " k"]
    temperature: float

    def value(self, logits: ManyLogits) -> ManyValues:
        hits, total = self._counts(logits)
        return namespace(logits).sum(2.0 * self.shares * hits / total, axis=-1)

    def cotangent(self, logits: Logits) -> Logits:
        return self._points(logits).cotangent(logits)

    def own(self, logits: Logits, motion: Logits) -> Logits:
        return self._points(logits).curvature(logits, motion)

    def coupling(self, logits: Logits) -> Coupling:
        xp, P = namespace(logits), softmax(logits / self.temperature)
        hits, total = self._counts(logits)
        eye = xp.eye(P.shape[1], dtype=P.dtype, device=P.device)
        # ∂P_k/∂g for every class k: P_k (e_k - P)/T.
        slopes = P.T[:, :, None] * (eye[:, None, :] - P[None, :, :]) / self.temperature
        slopes = self.weights[None, :, None] * slopes
        vectors = xp.concat([self.targets.T[:, :, None] * slopes, slopes], axis=0)
        cross = eye * (-2.0 * self.shares / total**2)[:, None]
        last = eye * (4.0 * self.shares * hits / total**3)[:, None]
        upper = xp.concat([xp.zeros_like(cross), cross], axis=1)
        return Coupling(vectors, xp.concat([upper, xp.concat([cross, last], axis=1)], axis=0))

    def _counts(self, logits: ManyLogits) -> tuple[Array, Array]:
        """Return tp and D of every class; D = 1 for classes that do not count, which may have 0."""
        xp, P, w = namespace(logits), softmax(logits / self.temperature), self.weights[:, None]
        total = xp.sum(w * (self.targets + P), axis=-2)
        total = xp.where(self.shares > 0.0, total, xp.ones_like(total))
        return xp.sum(w * self.targets * P, axis=-2), total

    def _points(self, logits: Logits) -> SoftPoints:
        hits, total = self._counts(logits)
        per_hit, per_prediction = 2.0 * self.shares / total, -2.0 * self.shares * hits / total**2
        points = self.weights[:, None] * (per_hit * self.targets + per_prediction)
        return SoftPoints(points, self.temperature)


@dataclass(frozen=True, eq=False)
class WorstGroup(SmoothGoal):
    """τ = -T log mean_g exp(-a_g/T), a_g the mean log p_y of the dev rows of group g, or minus their loss.

    T, in the units of a log-likelihood, → 0 is the worst group, T → ∞ the mean over groups. Weights count
    within a group; groups are hashable, and not None, NaN or NaT.

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

    With q = softmax(-a/T), u = Σ_g q_g ∂a_g and W is that of the rows weighted by q, less
    (1/T) Σ_gh (diag(q) - qqᵀ)_gh ∂a_g ∂a_hᵀ.
    """

    each: MinusLoss
    shares: Float[Array, "m g"]
    temperature: float

    def means(self, logits: ManyLogits) -> Float[Array, "*b g"]:
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
        xp, q = namespace(logits), self._attention(logits)
        rows = -self.each.loss.slope(logits, self.each.targets)
        eye = xp.eye(q.shape[0], dtype=q.dtype, device=q.device)
        middle = (q[:, None] * q[None, :] - eye * q[:, None]) / self.temperature
        return Coupling(self.shares.T[:, :, None] * rows[None, :, :], middle)

    def _attention(self, logits: Logits) -> Array:
        return softmax(self.means(logits) / -self.temperature)

    def _weighted(self, logits: Logits) -> MinusLoss:
        return replace(self.each, weights=self.shares @ self._attention(logits))
