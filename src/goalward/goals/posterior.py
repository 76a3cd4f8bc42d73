"""Goals without labels, of logits and their covariance M = J𝓗⁻¹Jᵀ in the K-1 contrasts of classes."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NoReturn

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr

from goalward.core.arrays import Array, like, namespace, softmax, to_numpy
from goalward.errors import BadParameter, Unsupported
from goalward.goals.goal import ALL_KINDS, Goal
from goalward.goals.kernels import Logits, paired
from goalward.models import Fitted, Loss, Softmax

Blocks = Float[Array, "m c c"]
Risks = Float[Array, " m"]


@dataclass(frozen=True, eq=False)
class PosteriorGoal(Goal):
    """Minus the mean of a risk over reference rows X; the risk is a function of logits and M.

    A label elsewhere reduces a row's covariance by ΔM and moves its logits f by a random amount with
    covariance ΔM. The risk is expected to fall by tr(slope ΔM), slope = ∂risk/∂M - ½ ∂²risk/∂f².

    Examples
    --------
    >>> class LogitVariance(PosteriorGoal):
    ...     def slope(self, logits, M):
    ...         return np.broadcast_to(np.eye(M.shape[1]), M.shape)
    >>> LogitVariance([[0.5]])
    LogitVariance()
    """

    X: Any = field(repr=False)
    loss: Loss = field(default=Softmax(), repr=False, kw_only=True)  # of the bound model
    utility = "information"
    anywhere: ClassVar[bool] = False  # whether `slope` takes any array library

    def risk(self, logits: Logits, M: Blocks) -> Risks:
        """Return the risk of each row: tr(slope M), unless it is not linear in M."""
        return np.asarray(np.einsum("mab,mba->m", self.slope(logits, M), M))

    @abstractmethod
    def slope(self, logits: Logits, M: Blocks) -> Blocks:
        """Return ∂risk/∂M - ½ ∂²risk/∂f² of each row, positive; the second part may be left out."""

    def value(self, fitted: Fitted) -> float:
        self.check_loss(fitted)
        rows = fitted.features(self.X, f"X of {type(self).__name__}")
        posterior = fitted.posterior(rows, type(self).__name__)
        M = to_numpy(posterior.leverage(rows, posterior.coordinates(rows)))
        logits = np.asarray(to_numpy(fitted.logits_of(rows)), dtype=np.float64)
        return -float(np.mean(replace(self, loss=fitted.loss).risk(logits, M)))

    def worth(self, logits: Logits, M: Blocks) -> Blocks:
        if self.anywhere:
            return self.slope(logits, M)
        # A copy: a user's array may be read-only, which torch refuses.
        return like(np.array(self.slope(to_numpy(logits), to_numpy(M))), M, dtype=M.dtype)

    def curvature(self, logits: Logits) -> Blocks:
        """Return QᵀΛQ, the curvature of each row's loss in its effective directions."""
        return self.loss.blocks(self.loss.proba(logits))

    def terms(self, fitted: Fitted) -> NoReturn:
        raise Unsupported(
            f"A goal of the logits alone is needed here, got {type(self).__name__}, which depends on the "
            "model's curvature. Use it alone, or in a sum of its kind, with gw.utility.Information()."
        )


class FisherRatio(PosteriorGoal):
    """τ = -mean tr(ΛM) = -tr(𝓗⁻¹F)/m: the variance left in predictions on reference rows.

    F is the Fisher information of the rows (Zhang and Oles 2000; V-optimality; BAIT). The gain is exact
    for the curvature that a row adds at fixed logits.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Logistic().fit([[0.0], [1.0]], [0, 1])
    >>> near, far = gw.goals.FisherRatio([[0.5]]), gw.goals.FisherRatio([[3.0]])
    >>> near.value(fitted) > far.value(fitted)
    True
    """

    kinds: ClassVar[tuple[str, ...]] = ALL_KINDS
    anywhere = True

    def slope(self, logits: Logits, M: Blocks) -> Blocks:
        return self.curvature(logits)


class PredictionVariance(PosteriorGoal):
    """τ = -mean tr(ΛMΛ): the variance left in probabilities; A-optimality (Schein and Ungar 2007).

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Logistic().fit([[0.0], [1.0]], [0, 1])
    >>> goal = gw.goals.PredictionVariance([[0.5]])
    >>> gw.GoalOriented(goal).suggest(fitted, [[0.5], [-9.0]], batch=1).rows
    array([0])
    """

    kinds: ClassVar[tuple[str, ...]] = ALL_KINDS
    anywhere = True

    def slope(self, logits: Logits, M: Blocks) -> Blocks:
        blocks = self.curvature(logits)
        return blocks @ blocks


class Epig(PosteriorGoal):
    """τ = -mean ½ log det(I + ΛM): the information a label of a reference row would give about θ.

    A label of another row lowers it by the information the two share, as in EPIG (Bickford Smith et al.
    2023), in the Gaussian approximation of Kirsch and Gal (2022) rather than by sampling.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Logistic().fit([[0.0], [1.0]], [0, 1])
    >>> gw.goals.Epig([[0.5]]).value(fitted) < 0
    True
    """

    kinds: ClassVar[tuple[str, ...]] = ALL_KINDS
    anywhere = True

    def risk(self, logits: Logits, M: Blocks) -> Risks:
        _, logdet = np.linalg.slogdet(np.eye(M.shape[1]) + self.curvature(logits) @ M)
        return np.asarray(0.5 * logdet)

    def slope(self, logits: Logits, M: Blocks) -> Blocks:
        # ½ (I + ΛM)⁻¹Λ, symmetric but for rounding.
        blocks = self.curvature(logits)
        xp = namespace(M)
        eye = xp.eye(M.shape[1], dtype=M.dtype, device=M.device)
        slope = xp.linalg.solve(eye + blocks @ M, blocks)
        return 0.25 * (slope + xp.permute_dims(slope, (0, 2, 1)))


@dataclass(frozen=True, eq=False)
class DecisionRisk(PosteriorGoal):
    """Minus the accuracy that reference rows lose by decisions which more labels would turn.

    The two likeliest classes of a row differ by m > 0 in their logits, with variance v. Labels that take
    the share σ of v move the difference to a Gaussian around m with variance σv; where it falls below
    zero the decision turns, and accuracy rises by π = (p_a + p_b)/2 for each unit of the difference:

        V(v) = E[(-difference)₊] = √v φ(z) - m Φ(-z),   z = m/√v
        risk = π σ/(1 - σ) [V(v) - V(σv)]
        slope = ∂risk/∂v - ½ ∂²risk/∂m² = π ∂V(σv)/∂v = π σ φ(z)/(2√(σv)),   z = m/√(σv)

    π V(σv) is the knowledge gradient (Frazier et al. 2008); ∂V/∂v = ½ ∂²V/∂m². With several labels each
    is a decision between no and yes, and the risks add up.

    1,000 rows X are better than 500, as few lie near a boundary. Smaller shares σ look closer to it; 1/64
    to 1/4 differ little.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Logistic().fit([[0.0], [1.0]], [0, 1])
    >>> strategy = gw.GoalOriented(gw.goals.DecisionRisk([[0.6]]))
    >>> strategy.suggest(fitted, [[0.55], [-9.0]], batch=1).rows
    array([0])
    """

    kinds: ClassVar[tuple[str, ...]] = ("class", "labels")
    anywhere = True
    share: float = field(default=1 / 16, kw_only=True)

    def __post_init__(self) -> None:
        if not 0.0 < self.share <= 1.0:
            raise BadParameter(
                f"share must be above 0 and at most 1, got share={self.share!r}. Leave it at 1/16."
            )

    def risk(self, logits: Logits, M: Blocks) -> Risks:
        if self.loss.kind == "labels":
            each = replace(self, loss=Softmax()).risk(*_pairs(logits, M))
            return each.reshape(logits.shape).sum(axis=1)
        _, gap, spread, stake = _decisions(logits, M)
        share = self.share
        if share == 1.0:
            # The limit of the formula below.
            return np.asarray(stake * spread * _density(gap / spread) / 2.0)
        left = _turned(gap, spread) - _turned(gap, np.sqrt(share) * spread)
        return np.asarray(stake * share / (1.0 - share) * left)

    def slope(self, logits: Logits, M: Blocks) -> Blocks:
        xp = namespace(M)
        if self.loss.kind == "labels":
            each = replace(self, loss=Softmax()).slope(*_pairs(logits, M))
            eye = xp.eye(logits.shape[1], dtype=M.dtype, device=M.device)
            return 0.5 * xp.reshape(each, logits.shape)[:, :, None] * eye
        e, gap, spread, stake = _decisions(logits, self.share * M)
        weight = self.share * stake * _density(gap / spread) / (2.0 * spread)
        return weight[:, None, None] * e[:, :, None] * e[:, None, :]


def _pairs(logits: Logits, M: Blocks) -> tuple[Float[Array, "pairs 2"], Float[Array, "pairs 1 1"]]:
    """Return each label as a row of two classes, whose contrast f/√2 has half of f's variance."""
    xp = namespace(M)
    return paired(logits), 0.5 * xp.reshape(xp.linalg.diagonal(M), (-1, 1, 1))


def _decisions(logits: Logits, M: Blocks) -> tuple[Float[Array, "m c"], Risks, Risks, Risks]:
    """Return e in contrasts, m, s and π of every row."""
    xp = namespace(logits)
    two = xp.argsort(-logits, axis=1, stable=True)[:, :2]
    Q = Softmax().basis(logits.shape[1], logits)
    e = xp.take(Q, two[:, 0], axis=0) - xp.take(Q, two[:, 1], axis=0)
    top, p = (xp.take_along_axis(of, two, axis=1) for of in (logits, softmax(logits)))
    variance = xp.sum((M @ e[:, :, None])[:, :, 0] * e, axis=1)
    # A row without uncertainty risks nothing: the smallest deviation makes z large, not 0/0.
    spread = xp.sqrt(xp.maximum(variance, xp.full_like(variance, 1e-24)))
    return e, top[:, 0] - top[:, 1], spread, (p[:, 0] + p[:, 1]) / 2.0


def _turned(gap: Risks, spread: Risks) -> Risks:
    z = gap / spread
    return np.asarray(spread * _density(z) - gap * ndtr(-z))


def _density(z: Risks) -> Risks:
    return namespace(z).exp(-0.5 * z * z) / (2.0 * np.pi) ** 0.5
