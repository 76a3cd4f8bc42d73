"""The accuracy at stake in decisions that labels to come may turn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from goalward.core.arrays import softmax
from goalward.errors import BadParameter
from goalward.goals.posterior import Blocks, Logits, PosteriorGoal, Risks
from goalward.models import Softmax

__all__ = ["DecisionRisk"]


@dataclass(frozen=True, eq=False)
class DecisionRisk(PosteriorGoal):
    """Minus the accuracy that reference rows are expected to lose by decisions that may yet turn.

    On a row the model decides for its likeliest class a, and b comes second: the difference of
    their logits is m > 0. Labels to come will move it. If they take the share σ of the variance
    that θ leaves in it, the difference will be Gaussian around m with variance s² = σ eᵀMe, e = e_a - e_b
    (the preposterior view of the knowledge gradient, Frazier et al. 2008). Where it falls below
    zero the decision turns, and near the boundary b is then right more often by π = (p_a + p_b)/2 for
    each unit of the difference. So what is at stake on the row is

        risk = π E[(-difference)₊] = π (s φ(z) - m Φ(-z)),   z = m/s
        ∂risk/∂M = σ π φ(z)/(2s) eeᵀ

    Rows far from the boundary have nothing at stake however uncertain; rows near it as much as
    they are uncertain. So the goal joins what margin sampling looks for and what variance
    reduction does, and needs no labels.

    Parameters
    ----------
    X
        Rows the model will be used on: a sample of the pool, or of where it is going. No labels.
        Few of them lie near a boundary, so 1,000 are better than 500.
    share
        σ, the share of the variance that the next labels take away. Smaller looks closer to the
        boundary; from 1/64 to 1/4 it made little difference where it was tried.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Logistic().fit([[0.0], [1.0]], [0, 1])
    >>> near, far = gw.goals.DecisionRisk([[0.6]]), gw.goals.DecisionRisk([[50.0]])
    >>> near.value(fitted) < 0
    True
    >>> strategy = gw.GoalOriented(near)
    >>> strategy.suggest(fitted, [[0.55], [-9.0]], batch=1).rows
    array([0])
    """

    X: Any = field(repr=False)
    share: float = field(default=1 / 16, kw_only=True)

    def __post_init__(self) -> None:
        if not 0.0 < self.share <= 1.0:
            raise BadParameter(
                f"share={self.share!r}; a share above 0 and at most 1 was expected. Leave it at 1/16."
            )

    def risk(self, logits: Logits, M: Blocks) -> Risks:
        """Return π (s φ(z) - m Φ(-z))."""
        _, gap, spread, stake = _decisions(logits, self.share * M)
        z = gap / spread
        return np.asarray(stake * (spread * _density(z) - gap * ndtr(-z)))

    def slope(self, logits: Logits, M: Blocks) -> Blocks:
        """Return σ π φ(z)/(2s) eeᵀ."""
        e, gap, spread, stake = _decisions(logits, self.share * M)
        weight = self.share * stake * _density(gap / spread) / (2.0 * spread)
        return np.asarray(weight[:, None, None] * e[:, :, None] * e[:, None, :])


def _decisions(logits: Logits, M: Blocks) -> tuple[NDArray[Any], Risks, Risks, Risks]:
    """Return e in contrasts, m, s and π of every row."""
    rows = np.arange(len(logits))
    order = np.argsort(-logits, axis=1, kind="stable")
    first, second = order[:, 0], order[:, 1]
    Q = Softmax().basis(logits.shape[1], logits)
    e = Q[first] - Q[second]
    gap = logits[rows, first] - logits[rows, second]
    variance = np.einsum("ma,mab,mb->m", e, M, e)
    # A row without uncertainty risks nothing: the smallest deviation makes z large, not 0/0.
    spread = np.sqrt(np.maximum(variance, 1e-24))
    p = softmax(logits)
    return e, gap, spread, (p[rows, first] + p[rows, second]) / 2.0


def _density(z: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi))
