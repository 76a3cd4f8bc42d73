"""Strategies that propose batches from parts of the pool, each bound to the model once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.candidates import Candidates
from goalward.goals import Coverage, DecisionRisk, FisherRatio
from goalward.selection import Rule, Selector, Sequential, Shortlist, Stochastic
from goalward.selection.best import best
from goalward.strategies.badge import Badge
from goalward.strategies.engine import Memory
from goalward.strategies.goal_oriented import GoalOriented
from goalward.strategies.reference import reference_rows
from goalward.strategies.request import Request
from goalward.strategies.strategy import Strategy
from goalward.strategies.typiclust import TypiClust
from goalward.strategies.uncertainty import Entropy, Margin, RowRule

__all__ = ["Proposer", "proposers"]

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
    if not request.fitted.told:
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
