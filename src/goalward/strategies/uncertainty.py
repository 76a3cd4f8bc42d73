"""Baselines: random rows, and rows that the model, or models of resampled labels, are unsure of."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array, columns, like, namespace, plain_rows, softmax, to_numpy
from goalward.core.draws import mixed
from goalward.core.rows import Candidates
from goalward.errors import BadParameter
from goalward.models import Fitted
from goalward.solvers import Inverse
from goalward.solvers.inverse import Coordinates
from goalward.strategies.engine import Engine
from goalward.strategies.strategy import Request, Strategy
from goalward.utility.utility import Rule


@dataclass(frozen=True, eq=False)
class RowRule(Rule):
    """A function of a row and of the prediction for it; `parallel` if it also runs on a GPU.

    Examples
    --------
    What `bind` of a strategy returns, here for rows far from 0:

    >>> far = RowRule(lambda rows: abs(rows.X).sum(axis=1))
    """

    score: Callable[[Candidates], Any]
    parallel: bool = False

    def __call__(self, rows: Candidates) -> Float[Array, " n"]:
        return self.score(rows)

    def on(self, convert: Callable[[Any], Any]) -> Rule:
        return self if self.parallel else super().on(convert)


@dataclass(frozen=True)
class Random(Strategy, word="random"):
    """Rows at random: the seed fixes an order of ids, whatever the order of the pool.

    Examples
    --------
    >>> Random(seed=1)
    Random(seed=1)
    """

    seed: int = 0
    starts = True
    only_predicts = True

    def bind(self, request: Request) -> Rule:
        return RowRule(self._order)

    def shortlist(self, request: Request, engine: Engine, count: int) -> NDArray[Any]:
        rng = np.random.default_rng([self.seed, request.round])
        gone = request.excluded
        free = len(request.pool) - len(gone)
        drawn = rng.choice(free, size=min(free, count), replace=False)
        # The i-th free row comes after all excluded rows with at most i free rows before them.
        return drawn + np.searchsorted(gone - np.arange(len(gone)), drawn, side="right")

    def _order(self, rows: Candidates) -> NDArray[Any]:
        if np.issubdtype(rows.ids.dtype, np.integer):
            keys = rows.ids.astype(np.uint64)
        else:
            digests = (blake2b(repr(row).encode(), digest_size=8) for row in rows.ids.tolist())
            keys = np.array([int.from_bytes(d.digest(), "little") for d in digests], np.uint64)
        salt = np.random.default_rng(self.seed).integers(2**63, dtype=np.uint64)
        return np.asarray(mixed(keys ^ salt) / 2.0**64)


@dataclass(frozen=True)
class _Uncertainty(Strategy):
    seed: int = 0
    only_predicts = True
    zero = 0.0

    @abstractmethod
    def doubt(self, proba: Float[Array, "n k"]) -> Float[Array, " n"]:
        """Return the uncertainty of predictions."""

    def bind(self, request: Request) -> Rule:
        request.fitted.check_kind(type(self).__name__, ("class", "labels"))
        several = request.fitted.loss.kind == "labels"
        return RowRule(partial(self._doubt, several), parallel=True)

    def _doubt(self, several: bool, rows: Candidates) -> Float[Array, " n"]:
        p = rows.proba
        if not several:
            return self.doubt(p)
        xp = namespace(p)
        pairs = xp.reshape(xp.stack([1.0 - p, p], axis=2), (-1, 2))
        return self.pooled(xp.reshape(self.doubt(pairs), p.shape))

    def pooled(self, doubts: Float[Array, "n k"]) -> Float[Array, " n"]:
        """Return the uncertainty of a row from those of its labels."""
        return namespace(doubts).sum(doubts, axis=1)


@dataclass(frozen=True)
class Entropy(_Uncertainty, word="entropy"):
    """Rows of highest predictive entropy.

    Examples
    --------
    >>> Entropy()
    Entropy(seed=0)
    """

    def doubt(self, proba: Float[Array, "n k"]) -> Float[Array, " n"]:
        xp = namespace(proba)
        safe = xp.where(proba > 0.0, proba, xp.ones_like(proba))
        return -xp.sum(proba * xp.log(safe), axis=1)


@dataclass(frozen=True)
class Margin(_Uncertainty, word="margin"):
    """Rows whose two most probable classes are closest.

    Examples
    --------
    >>> Margin()
    Margin(seed=0)
    """

    zero = -1.0  # where the model is certain

    def doubt(self, proba: Float[Array, "n k"]) -> Float[Array, " n"]:
        xp, by_class = namespace(proba), columns(proba)
        first, second = (best(by_class[0, :], by_class[1, :]) for best in (xp.maximum, xp.minimum))
        # Ten times faster than a sort for contiguous columns, as linear models have.
        for k in range(2, proba.shape[1]):
            second = xp.maximum(second, xp.minimum(first, by_class[k, :]))
            first = xp.maximum(first, by_class[k, :])
        return second - first


@dataclass(frozen=True)
class LabelMargin(Margin, word="label-margin"):
    """Rows with the least certain single label, for several labels (Brinker 2006).

    Examples
    --------
    >>> LabelMargin()
    LabelMargin(seed=0)
    """

    def pooled(self, doubts: Float[Array, "n k"]) -> Float[Array, " n"]:
        return namespace(doubts).max(doubts, axis=1)


@dataclass(frozen=True)
class LeastConfident(_Uncertainty, word=("least-confident", "uncertainty")):
    """Rows whose most probable class is least probable.

    Examples
    --------
    >>> LeastConfident()
    LeastConfident(seed=0)
    """

    def doubt(self, proba: Float[Array, "n k"]) -> Float[Array, " n"]:
        return 1.0 - namespace(proba).max(proba, axis=1)


@dataclass(frozen=True)
class Bald(Strategy, word="bald"):
    """Mutual information of label and parameters (Houlsby et al. 2011), by Laplace's posterior.

    Parameters
    ----------
    draws
        Parameters drawn; the error of the score falls like 1/√draws.

    Examples
    --------
    >>> Bald(draws=50)
    Bald(draws=50, seed=0)
    """

    draws: int = 100
    seed: int = 0
    zero = 0.0

    def __post_init__(self) -> None:
        if self.draws < 2:
            raise BadParameter(f"draws must be at least 2, got draws={self.draws!r}. Use 100.")

    def bind(self, request: Request) -> Rule:
        fitted = request.fitted
        fitted.model.linear("Bald")
        fitted.check_kind("Bald")
        inverse = Inverse.of(fitted.hessian, Coordinates.spanned(fitted.hessian))
        coordinates = inverse.coordinates
        rng = np.random.default_rng([self.seed, request.round])
        drawn = inverse.draw(rng, self.draws)
        outside_noise = rng.standard_normal((drawn.shape[1], self.draws))
        Q = to_numpy(fitted.hessian.basis)

        def disagreement(rows: Candidates) -> NDArray[Any]:
            Z = coordinates(rows.X)
            own = to_numpy(coordinates.squared_outside(rows.X, Z))
            moved = np.tensordot(to_numpy(Z), drawn, axes=1)
            moved += np.sqrt(own / coordinates.rho)[:, None, None] * outside_noise
            f = (to_numpy(fitted.logits_of(rows.X)) @ Q)[:, :, None] + moved
            p = to_numpy(softmax(np.einsum("kc,ncs->nks", Q, f), axis=1))
            return np.asarray(_entropy(p.mean(axis=2)) - _entropy(p).mean(axis=1))

        return RowRule(disagreement)


def _entropy(p: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(-np.sum(p * np.log(np.maximum(p, 1e-300)), axis=1))


@dataclass(frozen=True)
class Committee(Strategy, word="committee"):
    """Query by committee for numbers (RayChaudhuri and Hamey 1995): variance of bootstrap models.

    Examples
    --------
    >>> Committee()
    Committee(seed=0, members=10)
    """

    seed: int = 0
    members: int = 10

    def bind(self, request: Request) -> Rule:
        models = _resampled(request, self, self.members)
        return RowRule(lambda rows: _spread(models, rows).var(axis=0).sum(axis=1))


@dataclass(frozen=True)
class ModelChange(Strategy, word="model-change"):
    """Expected model change for numbers (Cai, Zhang and Zhou 2013): mean ‖(f(x) - y) x‖.

    The mean is over the y that models of resampled labels predict.

    Examples
    --------
    >>> ModelChange()
    ModelChange(seed=0, members=10)
    """

    seed: int = 0
    members: int = 10

    def bind(self, request: Request) -> Rule:
        models, fitted = _resampled(request, self, self.members), request.fitted

        def pull(rows: Candidates) -> NDArray[Any]:
            away = _spread(models, rows) - to_numpy(rows.proba)
            X = plain_rows(rows.X)
            norms = to_numpy(fitted.model.linear("ModelChange").squared_norms(X, np.ones(1)))
            return np.asarray(np.linalg.norm(away, axis=2).mean(axis=0) * np.sqrt(norms))

        return RowRule(pull)


def _resampled(request: Request, strategy: Any, members: int) -> list[Fitted]:
    """Return bootstrap models; rows are weighted instead of copied."""
    fitted = request.fitted
    fitted.check_kind(type(strategy).__name__, ("numbers",))
    rng = np.random.default_rng([strategy.seed, request.round])
    n, models = len(fitted.labelled), []
    for _ in range(members):
        counts = np.bincount(rng.integers(n, size=n), minlength=n).astype(np.float64)
        weights = like(counts, fitted.labelled.weights) * fitted.labelled.weights
        drawn = replace(fitted, labelled=replace(fitted.labelled, weights=weights))
        models.append(drawn.polished())
    return models


def _spread(models: list[Fitted], rows: Candidates) -> NDArray[Any]:
    return np.stack([to_numpy(model.proba_of(rows.X)) for model in models])
