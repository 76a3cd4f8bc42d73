"""Strategies that propose batches from parts of the pool, each bound to the model once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from goalward.core.arguments import check_count
from goalward.core.arrays import log_softmax, rows_at, to_numpy
from goalward.core.draws import reference_rows
from goalward.goals.coverage import Coverage
from goalward.goals.posterior import DecisionRisk, FisherRatio
from goalward.labels.beliefs import Truth
from goalward.strategies.batches import Badge, CoreSet, TypiClust
from goalward.strategies.combined import PartOfPool
from goalward.strategies.engine import Engine, Memory
from goalward.strategies.goal_oriented import GoalOriented
from goalward.strategies.selectors import Sequential, Shortlist, Stochastic, best
from goalward.strategies.strategy import Request, Strategy, Suggestion
from goalward.strategies.uncertainty import Entropy, Margin, Random, RowRule
from goalward.utility.utility import Rule

LARGEST = 5000
"""Most rows shown to a strategy, as published for Refine and BoSS."""
SHARE = 0.4
"""Share of the pool in a part, as published; the batch at least."""
FEW = 250
"""Rows that herding covers when it proposes."""


def proposers(request: Request) -> list[Proposer]:
    """Return the strategies that can propose for this request, nine with a linear model."""
    sample = reference_rows(request.pool.source)
    few = reference_rows(sample, FEW)
    covers = (Coverage(few), Coverage(few, uncertain=False, radius=1.0))
    herding = [GoalOriented(goal, selection=Sequential(radius=None)) for goal in covers]
    strategies: list[Strategy] = [_Any(), Margin(), Entropy(), TypiClust(), *herding]
    if request.fitted.model.is_linear:
        goals = (DecisionRisk(sample), FisherRatio(sample))
        noisy = [GoalOriented(goal, selection=Stochastic()) for goal in goals]
        strategies += [Badge(), *noisy]
    if not request.fitted.has_two_classes:
        strategies = [each for each in strategies if each.starts]
    return [Proposer(each, request) for each in strategies]


class Proposer:
    """A strategy bound to the model, with the pool scored, asked about parts of the pool."""

    def __init__(self, strategy: Strategy, request: Request) -> None:
        part = strategy.turn(request.fitted, request.turn)
        self.request, self.rule, self.selection = request, part.bind(request), part.selection
        self.values = Memory().scan(self.rule, request, None).values

    def drawn(self, rows: NDArray[Any], count: int, rng: np.random.Generator) -> NDArray[Any]:
        size = min(max(count, self.request.batch), LARGEST, len(rows))
        return self(np.sort(rng.choice(rows, size, replace=False)), rng)

    def __call__(self, part: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        batch, values = self.request.batch, self.values[part]
        keep = self.selection.keep(batch) or len(part)
        order = best(values, min(keep, len(part)), rng, part)
        few = Shortlist(self.rule, part[order], values[order], self.request.read)
        return self.selection(few, batch, rng)


@dataclass(frozen=True)
class _Any(Strategy):
    """Random rows, drawn anew at every call, unlike `Random`."""

    seed: int = 0
    starts = True

    def bind(self, request: Request) -> Rule:
        return RowRule(lambda rows: np.zeros(len(rows)))


@dataclass(frozen=True)
class Herding(Strategy):
    """Uncertainty herding that covers the rows it is shown (`Coverage`)."""

    seed: int = 0
    selection = Sequential(shortlist=None)
    zero = 0.0

    def bind(self, request: Request) -> Rule:
        return GoalOriented(Coverage(request.pool.source)).bind(request)


@dataclass(frozen=True)
class Refine(PartOfPool, word="refine"):
    """Filtering by many strategies, then herding (Huseljic et al. 2025, arXiv 2511.22344).

    Strategies propose batches from random parts of the pool; the proposed rows are the next pool,
    `depth` times. `Coverage` picks the batch from the rest. Entropy and decision risk replace
    AlfaMix and DropQuery.

    Parameters
    ----------
    batches
        Batches proposed in every step, by all strategies together.

    Examples
    --------
    >>> Refine(depth=2).batches
    100
    """

    depth: int = field(default=5, kw_only=True)
    batches: int = field(default=100, kw_only=True)
    seed: int = field(default=0, kw_only=True)
    strategy: ClassVar[Strategy] = Herding()  # type: ignore[misc]

    def __post_init__(self) -> None:
        check_count("depth", self.depth)
        check_count("batches", self.batches)

    def part(self, request: Request, engine: Engine) -> NDArray[Any]:
        rng = np.random.default_rng([self.seed, request.round])
        ensemble = proposers(request)
        times, pool = max(1, self.batches // len(ensemble)), request.free
        for _ in range(self.depth):
            count = int(SHARE * len(pool))
            proposed = [each.drawn(pool, count, rng) for each in ensemble for _ in range(times)]
            pool = np.unique(np.concatenate(proposed))
        return pool


@dataclass(frozen=True)
class Boss(Strategy, word="boss"):
    """The oracle BoSS (Huseljic et al. 2026, arXiv 2603.13109): a ceiling, not a strategy to use.

    The strategies of `Refine`, and CoreSet, propose batches. For each a model is retrained with the
    true labels; the batch with the best accuracy on the pool is taken, then by log-likelihood.

    Parameters
    ----------
    truth
        Labels of the pool, as `labels.Truth` takes them.
    batches
        As for `Refine`.

    Examples
    --------
    >>> Boss([0, 1, 0])
    Boss(batches=100, seed=0)
    """

    truth: Any = field(repr=False)
    batches: int = field(default=100, kw_only=True)
    seed: int = field(default=0, kw_only=True)
    starts = True
    needs: ClassVar[frozenset[str]] = frozenset({"truth"})

    def __post_init__(self) -> None:
        check_count("batches", self.batches)

    def bind(self, request: Request) -> Rule:
        return Random(self.seed).bind(request)

    def choose(self, request: Request, engine: Engine) -> Suggestion:
        request.fitted.check_kind("Boss")
        if request.costs is not None or request.fidelity:
            return super().choose(request, engine)  # which refuses both: only batches are judged
        proposed = self.proposed(request)
        accuracy, likelihood = self.judged(request, proposed)
        utility = np.full(len(request.pool), np.nan)
        for batch, value in zip(proposed, accuracy, strict=True):
            utility[batch] = np.fmax(utility[batch], value)
        chosen = proposed[np.lexsort((likelihood, accuracy))[-1]]
        note = f"{self.title} chose {len(chosen):,} of {request.left:,} rows"
        names, values = request.names(chosen), utility[chosen]
        return Suggestion(names, utility, positions=chosen, values=values, says=note)

    def proposed(self, request: Request) -> list[NDArray[Any]]:
        rng = np.random.default_rng([self.seed, request.round])
        ensemble = proposers(request)
        if request.fitted.has_two_classes:
            ensemble.append(Proposer(CoreSet(), request))
        free, times = request.free, max(1, self.batches // len(ensemble))
        few, many = min(4 * request.batch, len(free)), min(LARGEST, len(free))
        batches = (
            each.drawn(free, int(rng.integers(few, many + 1)), rng)
            for each in ensemble
            for _ in range(times)
        )
        return list({frozenset(batch.tolist()): batch for batch in batches}.values())

    def judged(self, request: Request, batches: list[NDArray[Any]]) -> NDArray[Any]:
        """Return accuracy and mean log-likelihood on the pool, of the model after each batch."""
        fitted = request.fitted
        pool = request.read(np.arange(len(request.pool)))
        targets = Truth(self.truth).prepare(fitted)(pool)
        true = to_numpy(targets).argmax(axis=1)
        judged = []
        for batch in batches:
            moved = fitted.with_rows(rows_at(pool.X, batch), rows_at(targets, batch))
            log_p = to_numpy(log_softmax(moved.polished(tol=1e-4).logits_of(pool.X)))
            likelihood = log_p[np.arange(len(true)), true].mean()
            judged.append((np.mean(log_p.argmax(axis=1) == true), likelihood))
        return np.array(judged).T
