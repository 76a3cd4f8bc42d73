"""Coverage: how much of the model's uncertainty lies near labelled rows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, NoReturn

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import (
    Array,
    Rows,
    astype,
    dense,
    is_sparse,
    like,
    log_softmax,
    namespace,
    rows_at,
    scale_rows,
    softmax,
    to_numpy,
)
from goalward.errors import BadParameter, Unsupported
from goalward.goals.goal import ALL_KINDS, Goal
from goalward.goals.kernels import in_pairs, paired
from goalward.models import Fitted
from goalward.models.fitted import left_out

TEMPERATURES = np.exp(np.linspace(np.log(0.25), np.log(8.0), 41))
IN_CACHE, AT_ONCE = 2**18, 2**24  # similarities at a time on a CPU (2 MB), on a GPU
FEW, MOST = 10, 2000  # fewest and most rows that the radius is taken from


@dataclass(frozen=True, eq=False)
class Coverage(Goal):
    """τ = mean of u_r max_l k(r, l): uncertain reference rows r, each by its nearest labelled row l.

    k = exp(-‖r - l‖²/σ²) on rows of unit length; u = 1 - (p₁ - p₂), the margin of the calibrated
    prediction (the mean over several labels; 1 for numbers). As a strategy this is Uncertainty Herding
    (Bae, Oliveira and Sutherland 2025) with its own radius; with u = 1 and σ = 1 it is MaxHerding (2024).

    X are unlabelled rows like those the model will be used on, such as a sample of the pool. The radius σ
    is by default the median distance between labelled rows that are nearest neighbours; `uncertain` says
    whether rows are weighted by u.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Logistic().fit([[0.0, 1.0], [1.0, 0.0]], [0, 1])
    >>> strategy = gw.GoalOriented(gw.goals.Coverage([[1.0, 1.1], [1.1, 1.0]]))
    >>> strategy.suggest(fitted, [[1.0, 1.0], [-3.0, 0.1]], batch=1).rows
    array([0])
    """

    kinds: ClassVar[tuple[str, ...]] = ALL_KINDS
    X: Any = field(repr=False)
    radius: float | None = field(default=None, kw_only=True)
    uncertain: bool = field(default=True, kw_only=True)
    utility = "covering"

    def __post_init__(self) -> None:
        if self.radius is not None and not self.radius > 0.0:
            raise BadParameter(f"radius must be above 0, got radius={self.radius!r}. Leave it out.")

    def value(self, fitted: Fitted) -> float:
        cover = self.cover(fitted)
        return float(cover.weights @ cover.best)

    def cover(self, fitted: Fitted) -> Cover:
        X = fitted.features(self.X, "X of Coverage")
        rows, labelled = unit_rows(X), unit_rows(fitted.labelled.X)
        # Before two classes have labels nothing is known, and all rows count alike.
        predicts = self.uncertain and fitted.has_two_classes and fitted.loss.kind != "numbers"
        uncertainty = _uncertainty(fitted, X) if predicts else np.ones(rows.shape[0])
        weights = like(uncertainty / rows.shape[0], rows)
        near = labelled if len(fitted.labelled) >= FEW else _sample(rows, FEW)
        cover = Cover(rows, weights, 0.0 * weights, self.radius or _radius(near))
        if not len(fitted.labelled):
            return cover
        return replace(cover, best=namespace(weights).max(cover.kernel(labelled), axis=0))

    def gradient(self, fitted: Fitted) -> NoReturn:
        raise Unsupported(
            "A goal with a gradient is needed here, got Coverage. Leave utility= out, or use "
            "gw.utility.Covering()."
        )

    def terms(self, fitted: Fitted) -> NoReturn:
        self.gradient(fitted)


@dataclass(frozen=True, eq=False)
class Cover:
    """Coverage of unit rows: `weights` are u/m, `best` the largest k with a known row."""

    rows: Rows = field(repr=False)
    weights: Float[Array, " m"]
    best: Float[Array, " m"]
    radius: float

    def kernel(self, rows: Rows) -> Float[Array, "n m"]:
        gaps = _squared_distances(rows, self.rows)
        gaps *= -1.0 / self.radius**2
        return np.exp(gaps, out=gaps) if type(gaps) is np.ndarray else namespace(gaps).exp(gaps)

    def gains(self, kernel: Float[Array, "n m"]) -> Float[Array, " n"]:
        xp, starts = namespace(kernel), range(0, max(kernel.shape[0], 1), self.step)
        parts = (rows_at(kernel, slice(i, i + self.step)) - self.best for i in starts)
        return xp.concat([_positive(part) @ self.weights for part in parts])

    @cached_property
    def step(self) -> int:
        """Rows whose similarities stay in the cache of a CPU, or fit on a GPU."""
        numbers = IN_CACHE if type(self.best) is np.ndarray else AT_ONCE
        return int(max(1, numbers // self.best.shape[0]))

    def with_row(self, kernel: Float[Array, " m"]) -> Cover:
        return replace(self, best=namespace(kernel).maximum(self.best, kernel))


def unit_rows(X: Rows) -> Rows:
    """Return rows scaled to unit length in double precision; rows of zeros stay."""
    rows = astype(X, namespace(X).float64)
    squares = _squared_lengths(rows)
    xp = namespace(squares)
    lengths = xp.sqrt(xp.where(squares > 0.0, squares, xp.ones_like(squares)))
    return scale_rows(rows, 1.0 / lengths)


def _squared_lengths(rows: Rows) -> Float[Array, " n"]:
    if is_sparse(rows):
        return np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
    return namespace(rows).sum(rows * rows, axis=1)


def _squared_distances(A: Rows, B: Rows) -> Float[Array, "a b"]:
    gaps = dense(A @ B.T)
    gaps *= -2.0
    gaps += _squared_lengths(A)[:, None]
    gaps += _squared_lengths(B)[None, :]
    return _positive(gaps)


def _positive(array: Array) -> Array:
    if type(array) is np.ndarray:
        return np.maximum(array, 0.0, out=array)
    return namespace(array).clip(array, 0.0)


def _sample(rows: Rows, most: int) -> Rows:
    return rows_at(rows, np.linspace(0, rows.shape[0] - 1, min(rows.shape[0], most)).astype(int))


def _radius(rows: Rows) -> float:
    """Return the median distance from the nearest other row; 1 where all rows are the same."""
    some = _sample(rows, MOST)
    gaps = np.sqrt(to_numpy(_squared_distances(some, some)))
    np.fill_diagonal(gaps, np.inf)
    nearest = gaps.min(axis=1)
    nearest = nearest[np.isfinite(nearest) & (nearest > 1e-6)]
    return float(np.median(nearest)) if len(nearest) else 1.0


def _uncertainty(fitted: Fitted, X: Any) -> Float[NDArray[Any], " m"]:
    """Return 1 - (p₁ - p₂) of the two likeliest classes of every row; the mean over several labels."""
    logits = np.asarray(to_numpy(fitted.logits_of(X)), dtype=np.float64) / _temperatures(fitted)
    if fitted.loss.kind == "labels":
        logits = np.asarray(paired(logits))
    top = np.partition(softmax(logits), -2, axis=1)[:, -2:]
    return np.asarray((1.0 - (top[:, 1] - top[:, 0])).reshape(X.shape[0], -1).mean(axis=1))


def _temperatures(fitted: Fitted) -> Float[NDArray[Any], " k"]:
    """Return the temperature of the largest likelihood: one for all classes, or each label's own."""
    known = fitted.labelled
    if not fitted.model.is_linear or len(known) < 3:
        return np.ones(1)
    logits, targets, weights = left_out(fitted), to_numpy(known.targets), to_numpy(known.weights)
    parts = [(logits, targets, weights)]
    if fitted.loss.kind == "labels":
        columns = [[k] for k in range(logits.shape[1])]
        parts = [(paired(logits[:, k]), *in_pairs(targets[:, k], weights)) for k in columns]
    fits = [
        [np.sum(w[:, None] * t * log_softmax(f / T)) for T in TEMPERATURES] for f, t, w in parts
    ]
    return np.asarray(TEMPERATURES[np.argmax(fits, axis=1)])
