"""Strategies that propose batches from parts of the pool, each bound to the model once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from goalward.core.arguments import check_count
from goalward.core.arrays import log_softmax, rows_at, to_numpy
from goalward.core.draws import reference_rows
from goalward.core.rows import Candidates
from goalward.errors import BadParameter
from goalward.goals.coverage import Coverage
from goalward.goals.posterior import DecisionRisk, FisherRatio
from goalward.labels.beliefs import Truth
from goalward.strategies.batches import Badge, CoreSet, TypiClust
from goalward.strategies.combined import PartOfPool
from goalward.strategies.engine import Engine, Memory
from goalward.strategies.goal_oriented import GoalOriented
from goalward.strategies.selectors import Selector, Sequential, Shortlist, Stochastic, best
from goalward.strategies.strategy import Request, Strategy, Suggestion
from goalward.strategies.uncertainty import Entropy, Margin, Random, RowRule
from goalward.utility.utility import Rule

LARGEST = 5000
"""Rows that a strategy is shown at most; of the authors of Refine and BoSS."""
FEW = 250
"""Rows that herding covers when it proposes."""


def proposers(strategies: Sequence[Strategy], request: Request) -> list[Proposer]:
    """Return strategies ready to propose; without any, those that are usual here.

    They are random, margin, entropy, TypiClust, MaxHerding and uncertainty herding, and for linear
    models BADGE, decision risk and BAIT's objective. The last two propose by perturbed ranks
    (`Stochastic`): row after row they would cost more than all others. Before two classes have labels
    only those propose that need none.
    """
    if not strategies:
        sample = reference_rows(request.pool.source)
        few = reference_rows(sample, FEW)
        covers = (Coverage(few), Coverage(few, uncertain=False, radius=1.0))
        herding = [GoalOriented(goal, selection=Sequential(radius=None)) for goal in covers]
        strategies = [_Any(), Margin(), Entropy(), TypiClust(), *herding]
        if request.fitted.model.is_linear:
            goals = (DecisionRisk(sample), FisherRatio(sample))
            noisy = [GoalOriented(goal, selection=Stochastic()) for goal in goals]
            strategies = [*strategies, Badge(), *noisy]
    if not request.fitted.has_two_classes:
        strategies = [each for each in strategies if each.starts] or [_Any()]
    return [Proposer.of(each, request) for each in strategies]


@dataclass(frozen=True, eq=False)
class Proposer:
    """A strategy in one round, asked about parts of the pool.

    Parameters
    ----------
    values
        What it says of every row; rows not to be suggested are at -inf.
    """

    request: Request
    rule: Rule
    selection: Selector
    values: NDArray[Any] = field(repr=False)

    @classmethod
    def of(cls, strategy: Strategy, request: Request) -> Proposer:
        """Return a strategy bound to the model, the pool scored."""
        part = strategy.turn(request.fitted, request.turn)
        rule = part.bind(request)
        return cls(request, rule, part.selection, Memory().scan(rule, request, None).values)

    def __call__(self, part: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        """Return the batch that it picks from the rows at some positions."""
        batch, values = self.request.batch, self.values[part]
        keep = self.selection.keep(batch)
        order = best(values, min(keep or len(part), len(part)), rng, part)
        few = Shortlist(self.rule, part[order], values[order], self.request.read)
        return self.selection(few, batch, rng)

    def drawn(self, rows: NDArray[Any], count: int, rng: np.random.Generator) -> NDArray[Any]:
        """Return the batch that it picks from some of the rows, drawn at random."""
        size = min(max(count, self.request.batch), LARGEST, len(rows))
        return self(np.sort(rng.choice(rows, size, replace=False)), rng)


@dataclass(frozen=True)
class _Any(Strategy):
    """All rows alike: others at random whenever it is asked, which `Random` is not."""

    seed: int = 0
    starts = True

    def bind(self, request: Request) -> Rule:
        """Return 0 for every row."""
        return RowRule(_alike)


def _alike(rows: Candidates) -> NDArray[Any]:
    return np.zeros(len(rows))


# Refine: many strategies propose from a pool that shrinks to what was proposed, herding picks.


@dataclass(frozen=True)
class Herding(Strategy):
    """Uncertainty herding that covers the rows it is shown (`Coverage`)."""

    seed: int = 0
    selection = Sequential(shortlist=None)
    zero = 0.0

    def bind(self, request: Request) -> Rule:
        """Return by how much each row would raise the coverage of all of them."""
        return GoalOriented(Coverage(request.pool.source)).bind(request)


@dataclass(frozen=True)
class Refine(PartOfPool, word="refine"):
    """Progressive filtering by many strategies, then herding (Huseljic et al. 2025, arXiv 2511.22344).

    The strategies propose batches from random parts of the pool; what was proposed is the pool of
    the next step, `depth` times over. Of what is left uncertainty herding (`Coverage`) picks the
    batch. The numbers are the published ones. Nine strategies take part as there, but not all of
    them the same: entropy and decision risk stand in the place of AlfaMix and DropQuery. Each is
    bound to the model and the whole pool once a round, not once for each part.

    Parameters
    ----------
    strategies
        Those that propose; the nine where none are given.
    batches
        Proposed in every step, by all strategies together.
    share
        Of the pool that a part has, the batch at least and 5,000 rows at most.

    Examples
    --------
    >>> Refine(depth=2).batches
    100
    """

    strategies: tuple[Strategy, ...] = ()
    depth: int = field(default=5, kw_only=True)
    batches: int = field(default=100, kw_only=True)
    share: float = field(default=0.4, kw_only=True)
    seed: int = field(default=0, kw_only=True)
    strategy: ClassVar[Strategy] = Herding()  # type: ignore[misc]

    def __post_init__(self) -> None:
        check_count("depth", self.depth)
        check_count("batches", self.batches)
        if not 0.0 < self.share <= 1.0:
            raise BadParameter(f"share={self.share!r}; above 0, 1 at most, was expected. Use 0.4.")

    def part(self, request: Request, engine: Engine) -> NDArray[Any]:
        """Return what was proposed in the last step."""
        rng = np.random.default_rng([self.seed, request.round])
        ensemble = proposers(self.strategies, request)
        times, pool = max(1, self.batches // len(ensemble)), request.free
        for _ in range(self.depth):
            count = int(self.share * len(pool))
            proposed = [one.drawn(pool, count, rng) for one in ensemble for _ in range(times)]
            pool = np.unique(np.concatenate(proposed))
        return pool


# BoSS: the best of many proposed batches, judged by the truth.


@dataclass(frozen=True)
class Boss(Strategy, word="boss"):
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
    needs: ClassVar[frozenset[str]] = frozenset({"truth"})

    def __post_init__(self) -> None:
        check_count("batches", self.batches)

    def bind(self, request: Request) -> Rule:
        """Return random numbers: only batches are judged, not rows."""
        return Random(self.seed).bind(request)

    def choose(self, request: Request, engine: Engine) -> Suggestion:
        """Return the best batch; a row's utility is that of the best batch proposed with it."""
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
        """Return the batches, each once."""
        rng = np.random.default_rng([self.seed, request.round])
        ensemble = proposers(self.strategies, request)
        if not self.strategies and request.fitted.has_two_classes:
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
