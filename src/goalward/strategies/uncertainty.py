"""Baselines: random rows, and rows the model is unsure of."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array, columns, namespace, softmax, to_numpy
from goalward.core.draws import mixed
from goalward.core.rows import Candidates
from goalward.errors import BadParameter
from goalward.solvers import Inverse
from goalward.solvers.inverse import Coordinates
from goalward.strategies.engine import Engine
from goalward.strategies.strategy import Request, Strategy
from goalward.utility.utility import Rule


@dataclass(frozen=True, eq=False)
class RowRule(Rule):
    """A function of a row and of what the model predicts for it, which nothing else changes.

    Parameters
    ----------
    score
        Candidates -> one number each.
    anywhere
        Whether it is written for arrays of any library, a GPU's included.

    Examples
    --------
    What `bind` of a strategy returns, here for rows far from 0:

    >>> far = RowRule(lambda rows: abs(rows.X).sum(axis=1))
    """

    score: Callable[[Candidates], Any]
    anywhere: bool = False

    @property
    def parallel(self) -> bool:  # type: ignore[override]
        """Whether it goes anywhere."""
        return self.anywhere

    def __call__(self, rows: Candidates) -> Float[Array, " n"]:
        """Return the function of every row."""
        return self.score(rows)

    def on(self, convert: Callable[[Any], Any]) -> Rule:
        """Return the rule itself, where it goes anywhere."""
        return self if self.anywhere else super().on(convert)


@dataclass(frozen=True)
class Random(Strategy, word="random"):
    """Rows at random: a fixed random order of their ids, by the seed.

    A row keeps its place in that order however the pool is cut, sorted or shrunk.

    Examples
    --------
    >>> Random(seed=1)
    Random(seed=1)
    """

    seed: int = 0
    starts = True
    only_predicts = True

    def bind(self, request: Request) -> Rule:
        """Return a number in [0, 1) for every id that only the seed and the id decide."""
        return RowRule(self._order)

    def shortlist(self, request: Request, engine: Engine, count: int) -> NDArray[Any]:
        """Return rows drawn anew in every round; nothing is read for that."""
        rng = np.random.default_rng([self.seed, request.round])
        gone = request.excluded
        free = len(request.pool) - len(gone)
        drawn = rng.choice(free, size=min(free, count), replace=False)
        # The i-th free row comes after as many excluded ones as have at most i free rows before them.
        return drawn + np.searchsorted(gone - np.arange(len(gone)), drawn, side="right")

    def _order(self, rows: Candidates) -> NDArray[Any]:
        ids = rows.ids
        if np.issubdtype(ids.dtype, np.integer):
            keys = ids.astype(np.uint64)
        else:
            digests = (blake2b(repr(row).encode(), digest_size=8) for row in ids.tolist())
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
        """Return how unsure a prediction is."""

    def bind(self, request: Request) -> Rule:
        """Return the doubt about every row; of several labels that about each, added up."""
        request.fitted.check_kind(type(self).__name__, ("class", "labels"))
        if request.fitted.loss.kind == "labels":
            return RowRule(self._of_labels, anywhere=True)
        return RowRule(self._doubt, anywhere=True)

    def _doubt(self, rows: Candidates) -> Float[Array, " n"]:
        return self.doubt(rows.proba)

    def _of_labels(self, rows: Candidates) -> Float[Array, " n"]:
        p = rows.proba
        xp = namespace(p)
        pairs = xp.reshape(xp.stack([1.0 - p, p], axis=2), (-1, 2))
        return self.pooled(xp.reshape(self.doubt(pairs), p.shape))

    def pooled(self, doubts: Float[Array, "n k"]) -> Float[Array, " n"]:
        """Return the doubt about a row from that about each of its labels."""
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
        """Return -Σ p log p."""
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
        """Return the second largest probability less the largest."""
        xp, by_class = namespace(proba), columns(proba)
        first, second = (best(by_class[0, :], by_class[1, :]) for best in (xp.maximum, xp.minimum))
        # A tenth of a sort's time where a column is contiguous, as those of linear models are.
        for k in range(2, proba.shape[1]):
            second = xp.maximum(second, xp.minimum(first, by_class[k, :]))
            first = xp.maximum(first, by_class[k, :])
        return second - first


@dataclass(frozen=True)
class LabelMargin(Margin, word="label-margin"):
    """Rows of several labels whose least certain label is least certain (Brinker 2006, one-vs-rest).

    Examples
    --------
    >>> LabelMargin()
    LabelMargin(seed=0)
    """

    def pooled(self, doubts: Float[Array, "n k"]) -> Float[Array, " n"]:
        """Return the largest doubt about a label."""
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
        """Return 1 - max p."""
        return 1.0 - namespace(proba).max(proba, axis=1)


@dataclass(frozen=True)
class Bald(Strategy, word="bald"):
    """Mutual information of label and parameters (Houlsby et al. 2011), by Laplace's posterior.

    Parameters are drawn from a Gaussian with the inverse Hessian for covariance, in the
    coordinates of the labelled rows; outside their span the prior is drawn row by row.

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
            raise BadParameter(f"draws={self.draws!r}; at least 2 were expected. Use 100.")

    def bind(self, request: Request) -> Rule:
        """Return H(mean p) - mean H(p) over the draws, which are made here."""
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
    found: NDArray[Any] = -np.sum(p * np.log(np.maximum(p, 1e-300)), axis=1)
    return found
