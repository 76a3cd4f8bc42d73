"""Goals that need no labels: how much is lost on some rows because θ is not known well.

They see the model through the logits of their rows and the covariance of those logits,
M = J𝓗⁻¹Jᵀ in the K-1 contrasts of the classes. A label helps them by adding curvature, whichever
label it is: they have a utility of their own, `gw.utility.Information`.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.special import ndtr

from goalward.core.arrays import Array, softmax, to_numpy
from goalward.errors import BadParameter, Unsupported
from goalward.goals.goal import Goal, Logits
from goalward.models import Fitted, Softmax

__all__ = ["DecisionRisk", "Epig", "FisherRatio", "PosteriorGoal"]

Blocks = Float[Array, "m c c"]
Risks = Float[Array, " m"]


class PosteriorGoal(Goal):
    """Minus the mean of a risk over reference rows X; the risk is a function of logits and M."""

    utility = "information"
    X: Any

    @abstractmethod
    def risk(self, logits: Logits, M: Blocks) -> Risks:
        """Return what is lost on each row."""

    @abstractmethod
    def slope(self, logits: Logits, M: Blocks) -> Blocks:
        """Return ∂risk/∂M for each row, symmetric and positive."""

    def value(self, fitted: Fitted) -> float:
        """Return minus the mean risk at the model's parameters and covariance."""
        self.check_loss(fitted)
        rows = fitted.features(self.X, f"X of {type(self).__name__}")
        posterior = fitted.posterior(rows, type(self).__name__)
        M = posterior.leverage(rows, posterior.coordinates(rows))
        logits = np.asarray(to_numpy(fitted.logits_of(rows)), dtype=np.float64)
        return -float(np.mean(self.risk(logits, M)))

    def terms(self, fitted: Fitted) -> NoReturn:
        raise Unsupported(
            f"{type(self).__name__} depends on the model's curvature, not on its logits alone; a goal of "
            "logits was expected here. Use it alone, or in a sum of its kind, with "
            "gw.utility.Information()."
        )


@dataclass(frozen=True, eq=False)
class FisherRatio(PosteriorGoal):
    """τ = -mean tr(ΛM) = -tr(𝓗⁻¹F)/m: the variance left in predictions on reference rows.

    F is the Fisher information of the rows, so the goal is the ratio of what they ask to what is
    known (Zhang and Oles 2000; V-optimality). BAIT follows it with the pool as reference.

    Parameters
    ----------
    X
        Rows the model will be used on: a sample of the pool, or of where it is going. No labels.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Logistic().fit([[0.0], [1.0]], [0, 1])
    >>> near, far = gw.goals.FisherRatio([[0.5]]), gw.goals.FisherRatio([[3.0]])
    >>> near.value(fitted) > far.value(fitted)
    True
    """

    X: Any = field(repr=False)

    def risk(self, logits: Logits, M: Blocks) -> Risks:
        return np.asarray(np.einsum("mab,mba->m", _curvature(logits), M))

    def slope(self, logits: Logits, M: Blocks) -> Blocks:
        return _curvature(logits)


@dataclass(frozen=True, eq=False)
class Epig(PosteriorGoal):
    """τ = -mean ½ log det(I + ΛM): what a label of a reference row would still tell about θ.

    A label of another row lowers it by the information the two labels share, which is what EPIG
    asks for (Bickford Smith et al. 2023), here in the Gaussian approximation of Kirsch and Gal
    (2022) rather than by sampling: it is EPIG-like, not theirs.

    Parameters
    ----------
    X
        Rows the model will be used on. No labels.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Logistic().fit([[0.0], [1.0]], [0, 1])
    >>> gw.goals.Epig([[0.5]]).value(fitted) < 0
    True
    """

    X: Any = field(repr=False)

    def risk(self, logits: Logits, M: Blocks) -> Risks:
        _, logdet = np.linalg.slogdet(np.eye(M.shape[1]) + _curvature(logits) @ M)
        return np.asarray(0.5 * logdet)

    def slope(self, logits: Logits, M: Blocks) -> Blocks:
        # ½ (I + ΛM)⁻¹Λ, symmetric but for rounding.
        blocks = _curvature(logits)
        slope = np.linalg.solve(np.eye(M.shape[1]) + blocks @ M, blocks)
        return 0.25 * (slope + slope.transpose(0, 2, 1))


def _curvature(logits: Logits) -> Blocks:
    """Return QᵀΛQ, the curvature of each row's loss in contrasts."""
    return np.asarray(Softmax().blocks(softmax(logits)))


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
        _, gap, spread, stake = _decisions(logits, self.share * M)
        z = gap / spread
        return np.asarray(stake * (spread * _density(z) - gap * ndtr(-z)))

    def slope(self, logits: Logits, M: Blocks) -> Blocks:
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
