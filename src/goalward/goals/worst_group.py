"""The group of dev rows that is served worst, smoothly."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array, like, namespace, softmax, to_numpy
from goalward.errors import BadInput, ShapeMismatch
from goalward.goals.dev_loss import DevGoal, MinusLoss, Weights, check_temperature
from goalward.goals.goal import Coupled, Coupling, Logits, ManyLogits, ManyValues
from goalward.models import Fitted

__all__ = ["SoftMinimum", "WorstGroup"]


@dataclass(frozen=True, eq=False)
class WorstGroup(DevGoal):
    """τ = -T log mean_g exp(-a_g/T), a_g the mean log p_y of the dev rows of group g, or minus their loss.

    It lies between the worst group's a_g and the mean over groups: T → 0 is the worst group,
    T → ∞ the mean in which every group counts the same.

    Parameters
    ----------
    X, y, weights
        Dev rows with labels, as for `DevLoss`; a weight counts within its group.
    groups
        The group of each row: anything hashable but None, NaN and NaT.
    temperature
        In the units of a log-likelihood. Groups whose means differ by less share the attention.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Logistic().fit([[0.0], [1.0]], [0, 1])
    >>> goal = gw.goals.WorstGroup([[2.0], [0.4]], [1, 1], ["north", "south"])
    >>> goal.by_group(fitted)["north"] > goal.value(fitted) > goal.by_group(fitted)["south"]
    True
    """

    paired: ClassVar[bool] = False
    kinds: ClassVar[tuple[str, ...]] = ("class", "labels", "numbers")

    groups: Any = field(repr=False)
    temperature: float = field(default=0.1, kw_only=True)

    def __post_init__(self) -> None:
        check_temperature(self.temperature, "WorstGroup")

    def by_group(self, fitted: Fitted) -> dict[Hashable, float]:
        """Return the mean log-likelihood of each group."""
        X, kernel = self.bound(fitted)
        means = to_numpy(kernel.means(fitted.logits_of(X)))
        return dict(zip(self._coded()[0], means.tolist(), strict=True))

    def kernel(self, fitted: Fitted, targets: Logits, weights: Weights) -> SoftMinimum:
        names, codes = self._coded()
        m = int(targets.shape[0])
        if len(codes) != m:
            raise ShapeMismatch(
                f"groups of WorstGroup has {len(codes)} entries; {m} were expected, one for "
                "each row. Pass a group for every row."
            )
        share = np.zeros((len(codes), len(names)))
        share[np.arange(len(codes)), codes] = to_numpy(weights)
        total = share.sum(axis=0)
        if not total.min() > 0.0:
            raise BadInput(
                f"All rows of the group {names[int(total.argmin())]!r} have weight 0; at least 1 above "
                "0 was expected. Leave the group out."
            )
        shares = like(share / total, targets, dtype=targets.dtype)
        return SoftMinimum(MinusLoss(fitted.loss, targets, weights), shares, self.temperature)

    def _coded(self) -> tuple[list[Hashable], NDArray[Any]]:
        """Return the groups in the order they first stand in, and each row's place among them."""
        listed = self.groups.tolist() if hasattr(self.groups, "tolist") else list(self.groups)
        missing = [i for i, group in enumerate(listed) if _is_missing(group)]
        if missing:
            raise BadInput(
                f"{len(missing)} of {len(listed)} groups of WorstGroup are missing (None, NaN or NaT), "
                f"the first at row {missing[0]}; a group for every row was expected. Leave these rows "
                "out, or name a group for them."
            )
        places: dict[Hashable, int] = {}
        codes = [places.setdefault(group, len(places)) for group in listed]
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
        return self._weighted(logits)[1].cotangent(logits)

    def own(self, logits: Logits, motion: Logits) -> Logits:
        return self._weighted(logits)[1].curvature(logits, motion)

    def coupling(self, logits: Logits) -> Coupling:
        xp = namespace(logits)
        q, _ = self._weighted(logits)
        rows = -self.each.loss.slope(logits, self.each.targets)
        eye = xp.eye(q.shape[0], dtype=q.dtype, device=q.device)
        middle = (q[:, None] * q[None, :] - eye * q[:, None]) / self.temperature
        return Coupling(self.shares.T[:, :, None] * rows[None, :, :], middle)

    def _weighted(self, logits: Logits) -> tuple[Array, MinusLoss]:
        q = softmax(self.means(logits) / -self.temperature)
        return q, replace(self.each, weights=self.shares @ q)
