"""Goals of labelled rows: the log-likelihood of dev rows and variants of it."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.extmath import row_norms

from goalward.core.arrays import (
    Array,
    Rows,
    dense,
    eps,
    like,
    namespace,
    plain_rows,
    rows_at,
    softmax,
    stack_rows,
    to_numpy,
)
from goalward.errors import BadInput, BadParameter, WeakGoal
from goalward.goals.goal import (
    ALL_KINDS,
    Bound,
    LearnedGoal,
    RowGoal,
    Term,
    check_some_weight,
    logits_of,
)
from goalward.goals.kernels import (
    Coupled,
    Coupling,
    Kernel,
    Logits,
    LogLikelihood,
    ManyLogits,
    ManyValues,
    MinusLoss,
    Weights,
)
from goalward.models.fitted import Fitted, left_out_pull

COLDEST, HOTTEST = 0.05, 20.0  # bounds of the temperature
APART = 0.3  # mean ratio below which dev and target rows hardly overlap
LARGEST = 20.0  # the largest ratio, before the mean is made one


@dataclass(frozen=True, eq=False)
class DevGoal(RowGoal):
    """A goal of labelled rows that the model is not trained on; each kind brings its kernel."""

    relative: ClassVar[bool] = True  # whether weights count by their share of the sum
    kinds: ClassVar[tuple[str, ...]] = ("class", "labels")

    y: Any = field(repr=False)
    weights: Any = field(default=None, repr=False, kw_only=True)

    @abstractmethod
    def kernel(self, fitted: Fitted, targets: Logits, weights: Weights) -> Kernel:
        """Return the kernel over the rows' logits."""

    @property
    def labels_held(self) -> int:
        return len(self.y)

    def bind(self, fitted: Fitted, X: Rows) -> Kernel:
        name = type(self).__name__
        targets = fitted.targets(self.y, X.shape[0], f"y of {name}")
        weights = fitted.row_weights(self.weights, X.shape[0])
        if self.relative:
            check_some_weight(float(namespace(weights).sum(weights)), name)
        return self.kernel(fitted, targets, weights)


@dataclass(frozen=True, eq=False)
class DevLoss(DevGoal):
    """τ = Σ log p_y over dev rows: higher is better, so the loss falls.

    With several labels it is the sum over those that are answered; for numbers -½ Σ (f - y)². y may also
    be (m, K) distributions over the classes.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Logistic().fit([[0.0], [1.0]], [0, 1])
    >>> gw.goals.DevLoss([[2.0]], [1]).value(fitted) < 0
    True
    """

    relative: ClassVar[bool] = False
    kinds: ClassVar[tuple[str, ...]] = ALL_KINDS

    @property
    def effective_rows(self) -> float:
        """(Σw)² / Σw², the effective number of rows."""
        if self.weights is None:
            return float(len(self.y))
        w = to_numpy(self.weights).astype(np.float64)
        return float(w.sum() ** 2 / max(float(np.sum(w * w)), 1e-300))

    def kernel(self, fitted: Fitted, targets: Logits, weights: Weights) -> Kernel:
        if fitted.loss.kind == "class":
            return LogLikelihood(weights[:, None] * targets)
        return MinusLoss(fitted.loss, targets, weights)


@dataclass(frozen=True, eq=False)
class MeanSquaredError(DevGoal):
    """τ = -mean (f - y)² over dev rows, and over the numbers of each: its rise is that of R².

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Ridge().fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0])
    >>> gw.goals.MeanSquaredError([[1.0]], [5.0]).value(fitted)
    -4.0
    """

    kinds: ClassVar[tuple[str, ...]] = ("numbers",)

    def kernel(self, fitted: Fitted, targets: Logits, weights: Weights) -> MinusLoss:
        total = namespace(weights).sum(weights)
        return MinusLoss(fitted.loss, targets, 2.0 * weights / (total * targets.shape[1]))


@dataclass(frozen=True, eq=False)
class CalibratedDevLoss(DevGoal):
    """τ = max_T Σ log softmax(g/T)_y over dev rows, 0.05 ≤ T ≤ 20.

    A label that only makes the model more confident does not raise it. Where every dev row is
    classified right the goal is nearly flat, with a `WeakGoal` warning.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Logistic().fit([[0.0], [1.0]], [0, 1])
    >>> goal = gw.goals.CalibratedDevLoss([[2.0], [-1.0], [0.6]], [1, 0, 0])
    >>> goal.temperature(fitted) > 0.05
    True
    """

    kinds: ClassVar[tuple[str, ...]] = ("class",)

    def temperature(self, fitted: Fitted) -> float:
        ((_, X, kernel),) = super().terms(fitted)
        return 1.0 / float(kernel.sharpness(logits_of(fitted, X)))  # type: ignore[attr-defined]

    def terms(self, fitted: Fitted) -> list[Term]:
        if self.temperature(fitted) <= COLDEST:
            warnings.warn(
                f"CalibratedDevLoss needs some mistakes on dev rows, got {len(self.y)} rows that are all "
                f"classified right, or nearly so (best temperature {COLDEST}): they tell little about "
                "which label would help. Add dev rows, or use DevLoss.",
                WeakGoal,
                stacklevel=2,
            )
        return super().terms(fitted)

    def kernel(self, fitted: Fitted, targets: Logits, weights: Weights) -> CalibratedLikelihood:
        return CalibratedLikelihood(weights[:, None] * targets)


@dataclass(frozen=True)
class CalibratedLikelihood(Coupled):
    """φ(g, b) = Σ t log softmax(b g) at the best b = 1/T.

    By the envelope theorem ∂τ/∂g = ∂φ/∂g and W = φ_gg - φ_gb φ_bg / φ_bb, the last 0 at a bound, with
    φ_gb = (t - p Σt) - b (Σt) p∘(g - ⟨p, g⟩), p the calibrated prediction.
    """

    targets: Logits
    low: float = 1.0 / HOTTEST
    high: float = 1.0 / COLDEST

    def sharpness(self, logits: ManyLogits) -> ManyValues:
        """Return the best b of each model. φ is concave in b: a bracketed Newton iteration finds it."""
        xp, (centred, linear) = namespace(logits), self._sums(logits)
        low, high = xp.full_like(linear, self.low), xp.full_like(linear, self.high)
        at_high = self._slope(centred, linear, high)[0] >= 0.0
        at_low = self._slope(centred, linear, low)[0] <= 0.0
        b = xp.where(at_high, high, xp.where(at_low, low, xp.ones_like(linear)))
        done = at_high | at_low
        for _ in range(100):
            slope, bend, noise = self._slope(centred, linear, b)
            low, high = xp.where(slope > 0.0, b, low), xp.where(slope > 0.0, high, b)
            # Flat logits bend nothing, and have no slope then either.
            newton = b + slope / xp.where(bend > 0.0, bend, xp.ones_like(bend))
            inside = (newton > low) & (newton < high)
            moved = xp.where(inside, newton, xp.sqrt(low * high))
            done = done | (xp.abs(moved - b) <= 8.0 * eps(b) * b) | (xp.abs(slope) <= noise)
            if bool(xp.all(done)):
                break
            b = xp.where(done, b, moved)
        return b

    def value(self, logits: ManyLogits) -> ManyValues:
        b = self.sharpness(logits)
        return LogLikelihood(self.targets).value(b[..., None, None] * logits)

    def cotangent(self, logits: Logits) -> Logits:
        b = self.sharpness(logits)
        return b * LogLikelihood(self.targets).cotangent(b * logits)

    def own(self, logits: Logits, motion: Logits) -> Logits:
        b = self.sharpness(logits)
        return b * LogLikelihood(self.targets).curvature(b * logits, b * motion)

    def coupling(self, logits: Logits) -> Coupling:
        xp, b, inner = namespace(logits), self.sharpness(logits), LogLikelihood(self.targets)
        centred, linear = self._sums(logits)
        _, bend, _ = self._slope(centred, linear, b)
        vector = inner.cotangent(b * logits) + inner.curvature(b * logits, b * centred)
        free = (b > self.low) & (b < self.high) & (bend > 0.0)
        middle = xp.where(free, 1.0 / xp.where(free, bend, 1.0), 0.0)
        return Coupling(vector[None, :, :], xp.reshape(middle, (1, 1)))

    def _sums(self, logits: ManyLogits) -> tuple[Array, Array]:
        """Return logits with row means of zero, and Σ t g of each model."""
        xp = namespace(logits)
        centred = logits - xp.sum(logits, axis=-1, keepdims=True) / logits.shape[-1]
        return centred, xp.sum(self.targets * centred, axis=(-2, -1))

    def _slope(
        self, centred: Float[Array, "*b m k"], linear: Float[Array, "*b"], b: Float[Array, "*b"]
    ) -> tuple[Array, Array, Array]:
        """Return φ_b = Σ t g - Σ (Σt)⟨p, g⟩, -φ_bb, and the rounding of the first."""
        xp = namespace(centred)
        mass = xp.sum(self.targets, axis=-1)
        p = softmax(b[..., None, None] * centred)
        mean = xp.sum(p * centred, axis=-1)
        spread = xp.sum(p * (centred - mean[..., None]) ** 2, axis=-1)
        noise = 2.0 * eps(mean) * (xp.abs(linear) + xp.sum(mass * xp.abs(mean), axis=-1))
        return linear - xp.sum(mass * mean, axis=-1), xp.sum(mass * spread, axis=-1), noise


@dataclass(frozen=True, eq=False)
class TargetSet(LearnedGoal):
    """τ = Σ w_r log p_y over dev rows, w = p_target(x) / p_dev(x), to correct covariate shift.

    The ratio is the odds of a cross-validated logistic regression that tells dev rows from unlabelled rows
    `X_target` like those the model will be used on; weights are clipped and have mean one.
    `goal.for_round(fitted)` is a `DevLoss` with `weights` and `effective_rows`.

    Examples
    --------
    >>> import goalward as gw, numpy as np
    >>> x = np.linspace(-2, 2, 40)[:, None]
    >>> fitted = gw.Logistic().fit(x, x[:, 0] > 0)
    >>> goal = gw.goals.TargetSet(x, x[:, 0] > 0, x[20:]).for_round(fitted)
    >>> bool(goal.weights[-1] > 1 > goal.weights[0]), goal.effective_rows < 40
    (True, True)
    """

    kinds: ClassVar[tuple[str, ...]] = ALL_KINDS

    X: Any = field(repr=False)
    y: Any = field(repr=False)
    X_target: Any = field(repr=False)

    @property
    def labels_held(self) -> int:
        return len(self.y)

    def for_round(self, fitted: Fitted, round: int = 0) -> DevLoss:
        ratio = self._density_ratio(fitted)
        mean, m = float(ratio.mean()), len(ratio)
        goal = DevLoss(self.X, self.y, weights=ratio / mean)
        # A tenth of the rows, and 10 of them where there are so many.
        few = goal.effective_rows < max(m / 10.0, min(10.0, m / 2.0))
        if few or mean < APART:
            warnings.warn(
                f"TargetSet needs dev rows where the target rows are, got {m} dev rows that count like "
                f"{goal.effective_rows:.1f} (mean ratio p_target/p_dev {mean:.2g} instead of 1): the goal "
                "rests on little. Label some target rows as dev rows, or use SoftPool(X_target, belief).",
                WeakGoal,
                stacklevel=2,
            )
        return goal

    def _density_ratio(self, fitted: Fitted) -> NDArray[Any]:
        sides = []
        for name, X in (("X", self.X), ("X_target", self.X_target)):
            sides.append(plain_rows(fitted.features(X, f"{name} of TargetSet")))
        m, n = (rows.shape[0] for rows in sides)
        folds = min(5, m, n)
        if folds < 2:
            raise BadInput(
                f"TargetSet needs at least 2 dev and 2 target rows, got {m} and {n}. Pass more."
            )
        # Scaled but not centred, so that sparse rows stay sparse.
        model = make_pipeline(StandardScaler(with_mean=False), LogisticRegression(max_iter=10_000))
        split = StratifiedKFold(folds, shuffle=True, random_state=0)
        X, side = stack_rows(*sides), np.repeat([0, 1], [m, n])
        p = cross_val_predict(model, X, side, cv=split, method="predict_proba")[:m]
        with np.errstate(divide="ignore"):
            return np.asarray(np.minimum(p[:, 1] / p[:, 0] * (m / n), LARGEST))


@dataclass(frozen=True, eq=False)
class LeaveOneOut(LearnedGoal):
    """τ = Σ log p_y over labelled rows, each predicted as if it had not been trained on.

    Without row i its logits would be f + M(I - ΛM)⁻¹(p - y), M its leverage (approximate leave-one-out,
    Rad and Maleki 2020); these shifts are fixed for a round. Rows that a strategy chose are no random
    sample: for an unbiased estimate pass X, y of those labelled at random (by default all).

    Examples
    --------
    >>> import goalward as gw
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1]
    >>> fitted = gw.Logistic().fit(X, y)
    >>> gw.goals.LeaveOneOut().value(fitted) < gw.goals.DevLoss(X, y).value(fitted)
    True
    """

    X: Any = field(default=None, repr=False)
    y: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if (self.X is None) != (self.y is None):
            raise BadParameter(
                "LeaveOneOut needs both X and y, or neither for all labelled rows, got one. Pass both."
            )

    def for_round(self, fitted: Fitted, round: int = 0) -> Bound:
        fitted.check_kind("LeaveOneOut")
        known = fitted.labelled
        rows, targets, weights = known.X, known.targets, known.weights
        if self.X is not None:
            at = self._positions(fitted)
            rows, targets, weights = (rows_at(part, at) for part in (rows, targets, weights))
        _, shift, _ = left_out_pull(fitted, rows, targets, weights)
        shifts = like(shift, fitted.params, dtype=fitted.params.dtype)
        kernel = Shifted(LogLikelihood(weights[:, None] * targets), shifts)
        return Bound([Term(1.0, rows, kernel)])

    def _positions(self, fitted: Fitted) -> NDArray[Any]:
        known = fitted.labelled
        X = fitted.features(self.X, "X of LeaveOneOut")
        targets = to_numpy(fitted.targets(self.y, X.shape[0], "y of LeaveOneOut"))
        norms = [row_norms(plain_rows(rows), squared=True) for rows in (X, known.X)]
        scale = norms[0].astype(np.float64)[:, None] + norms[1]
        gaps = scale - 2.0 * to_numpy(dense(X @ known.X.T))
        same = targets.argmax(axis=1)[:, None] == to_numpy(known.targets).argmax(axis=1)
        # Squared distances, 0 where rows agree but for rounding.
        gaps = np.where(same, np.where(gaps <= 1e-9 * scale, 0.0, gaps), np.inf)
        at: NDArray[Any] = gaps.argmin(axis=1)
        missing = np.flatnonzero(gaps.min(axis=1) > 0.0)
        if len(missing):
            raise BadInput(
                f"LeaveOneOut needs rows that the model was trained on, with that label, got {len(missing)} "
                f"of {len(at)} others, the first at position {missing[0]}. Use DevLoss for them."
            )
        return at


@dataclass(frozen=True)
class Shifted:
    """A kernel at logits that are moved by a constant."""

    kernel: Kernel
    shift: Logits

    def value(self, logits: ManyLogits) -> ManyValues:
        return self.kernel.value(logits + self.shift)

    def cotangent(self, logits: Logits) -> Logits:
        return self.kernel.cotangent(logits + self.shift)

    def curvature(self, logits: Logits, motion: Logits) -> Logits:
        return self.kernel.curvature(logits + self.shift, motion)
