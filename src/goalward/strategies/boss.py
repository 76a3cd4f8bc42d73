"""BoSS: the best of many proposed batches, judged by the truth."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import log_softmax, rows_at, to_numpy
from goalward.labels import Truth
from goalward.selection import Rule
from goalward.strategies.core_set import CoreSet
from goalward.strategies.engine import Engine
from goalward.strategies.ensemble import LARGEST, Proposer, proposers
from goalward.strategies.request import Request, check_count
from goalward.strategies.strategy import Strategy, Suggestion
from goalward.strategies.uncertainty import Random

__all__ = ["Boss"]


@dataclass(frozen=True)
class Boss(Strategy):
    """The oracle BoSS (Huseljic et al. 2026, arXiv 2603.13109): a ceiling, not a strategy to use.

    Many strategies propose batches from random parts of the pool, of 4 batches to 5,000 rows. For
    each a model is really retrained with its true labels, and the batch whose model is best is
    taken. There the judge is accuracy on the test rows; here it is accuracy on all rows of the pool
    under their true labels, the log-likelihood among equals, so that the test rows stay unseen. The
    strategies are those of `Refine`, and CoreSet.

    Parameters
    ----------
    truth
        Labels of the pool, as `labels.Truth` takes them.
    strategies
        Those that propose; the usual ones where none are given.
    batches
        Proposed by all strategies together.

    Examples
    --------
    >>> Boss([0, 1, 0])
    Boss(strategies=(), batches=100, seed=0)
    """

    truth: Any = field(repr=False)
    strategies: tuple[Strategy, ...] = ()
    batches: int = field(default=100, kw_only=True)
    seed: int = field(default=0, kw_only=True)
    starts = True

    def __post_init__(self) -> None:
        check_count("batches", self.batches)

    def bind(self, request: Request) -> Rule:
        """Return random numbers: only batches are judged, not rows."""
        return Random(self.seed).bind(request)

    def choose(self, request: Request, engine: Engine) -> Suggestion:
        """Return the best batch; a row's utility is that of the best batch proposed with it."""
        request.fitted.check_kind("Boss")
        if request.costs is not None:
            return super().choose(request, engine)  # which refuses prices: only batches are judged
        if request.fidelity:
            self.bind(request).fidelity(None, None, request.fidelity, self.seed)
        proposed = self.proposed(request)
        accuracy, likelihood = self.judged(request, proposed)
        utility = np.full(len(request.pool), np.nan)
        for batch, value in zip(proposed, accuracy, strict=True):
            utility[batch] = np.fmax(utility[batch], value)
        chosen = proposed[np.lexsort((likelihood, accuracy))[-1]]
        names, values = request.names(chosen), utility[chosen]
        return Suggestion(names, utility, positions=chosen, values=values)

    def proposed(self, request: Request) -> list[NDArray[Any]]:
        """Return the batches, each once."""
        rng = np.random.default_rng([self.seed, request.round])
        ensemble = proposers(self.strategies, request)
        if not self.strategies and request.fitted.told:
            ensemble.append(Proposer.of(CoreSet(), request))
        free, times = request.free, max(1, self.batches // len(ensemble))
        few, many = min(4 * request.batch, len(free)), min(LARGEST, len(free))
        found = [
            one.drawn(free, int(rng.integers(few, many + 1)), rng)
            for one in ensemble
            for _ in range(times)
        ]
        return list({frozenset(batch.tolist()): batch for batch in found}.values())

    def judged(
        self, request: Request, batches: list[NDArray[Any]]
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return accuracy and mean log-likelihood on the pool, of the model after each batch."""
        fitted = request.fitted
        pool = request.read(np.arange(len(request.pool)))
        targets = Truth(self.truth).prepare(fitted)(pool)
        true = to_numpy(targets).argmax(axis=1)
        found = []
        for batch in batches:
            moved = fitted.with_rows(rows_at(pool.X, batch), rows_at(targets, batch))
            log_p = to_numpy(log_softmax(moved.polished(tol=1e-4).logits_of(pool.X)))
            likelihood = log_p[np.arange(len(true)), true].mean()
            found.append((np.mean(log_p.argmax(axis=1) == true), likelihood))
        accuracy, likelihood = np.array(found).T
        return accuracy, likelihood
