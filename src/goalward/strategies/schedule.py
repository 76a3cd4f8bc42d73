"""Strategies in turns: one after another, until there are labels enough, or until a surprise."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any

from goalward.core.arrays import Rows, namespace, rows_at, to_numpy
from goalward.core.candidates import Labelled
from goalward.errors import BadParameter
from goalward.goals.coverage import Coverage
from goalward.models.fitted import Fitted
from goalward.strategies.among import Subsampled, reference_rows
from goalward.strategies.goal_oriented import GoalOriented
from goalward.strategies.request import Request, as_strategy, check_count
from goalward.strategies.selectors import Sequential
from goalward.strategies.strategy import Strategy
from goalward.utility.rule import Rule

__all__ = ["InTurn", "Then", "UnlessSurprised", "WhileUnseen", "cold_start"]


class Turns(Strategy):
    """A strategy that is another one in each round."""

    @property
    @abstractmethod
    def parts(self) -> tuple[Strategy, ...]:
        """The strategies that may have a turn."""

    @property
    def labels_held(self) -> int:
        """The labels of any of them: the same may serve all."""
        return max(part.labels_held for part in self.parts)

    @abstractmethod
    def turn(self, fitted: Fitted, round: int) -> Strategy:
        """Return the strategy of this round."""

    def bind(self, request: Request) -> Rule:
        """Return the rule of the strategy of this round."""
        return self.turn(request.fitted, request.turn).bind(request)


@dataclass(frozen=True)
class InTurn(Turns):
    """Several strategies in turn, a round each: what one of them misses, another asks for.

    Whose turn it is follows from the round. Without `round=` it is the number of labelled rows in
    batches of the size that is asked for, so that every strategy has its share whatever that is.

    Parameters
    ----------
    strategies
        Two or more.

    Examples
    --------
    >>> from goalward.strategies import InTurn, Margin, Random
    >>> InTurn((Random(), Margin()))
    InTurn(strategies=(Random(seed=0), Margin(seed=0)), seed=0)
    """

    strategies: tuple[Strategy, ...]
    seed: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        parts = (as_strategy(part, "A strategy in turn") for part in self.strategies)
        object.__setattr__(self, "strategies", tuple(parts))
        if len(self.strategies) < 2:
            raise BadParameter(
                f"InTurn came with {len(self.strategies)} strategies; at least 2 were expected. Use a "
                "single one as it is."
            )

    @property
    def parts(self) -> tuple[Strategy, ...]:
        """All of them."""
        return self.strategies

    def turn(self, fitted: Fitted, round: int) -> Strategy:
        """Return the strategy of this round."""
        # Turns within a turn go on when it is theirs.
        lap, place = divmod(round, len(self.strategies))
        return self.strategies[place].turn(fitted, lap)


@dataclass(frozen=True)
class Then(Turns):
    """`first` while the model has fewer than `labels` labelled rows, `later` from then on.

    Strategies that look for what is not known pay early, strategies that refine a boundary late.

    Parameters
    ----------
    labels
        Labelled rows of the model, those of the start included.

    Examples
    --------
    >>> from goalward.strategies import Margin, Random
    >>> Then(Random(), Margin(), labels=100)
    Then(first=Random(seed=0), later=Margin(seed=0), labels=100, seed=0)
    """

    first: Strategy
    later: Strategy
    labels: int = field(default=100, kw_only=True)
    seed: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("first", "later"):
            object.__setattr__(self, name, as_strategy(getattr(self, name), name))
        check_count("labels", self.labels)

    @property
    def parts(self) -> tuple[Strategy, ...]:
        """Both."""
        return self.first, self.later

    def turn(self, fitted: Fitted, round: int) -> Strategy:
        """Return the strategy of this round."""
        few = len(fitted.labelled) < self.labels
        return (self.first if few else self.later).turn(fitted, round)


@dataclass(frozen=True)
class WhileUnseen(Turns):
    """`first` while a class of the model has no label and one is likely to be found, then `later`.

    How likely the next label is of a class that was not seen is estimated by the share of labels
    that are the only one of their class (Good 1953). Boundaries cannot be drawn to a class that
    nobody has met: a strategy that looks everywhere finds it.

    Parameters
    ----------
    likely
        The least share for which a class is looked for.

    Examples
    --------
    >>> from goalward.strategies import CoreSet, Margin, WhileUnseen
    >>> WhileUnseen(CoreSet(), Margin()).likely
    0.1
    """

    first: Strategy
    later: Strategy
    likely: float = field(default=0.1, kw_only=True)
    seed: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("first", "later"):
            object.__setattr__(self, name, as_strategy(getattr(self, name), name))
        if not 0.0 < self.likely <= 1.0:
            raise BadParameter(
                f"likely={self.likely!r}; above 0, 1 at most, was expected. Use 0.1."
            )

    @property
    def parts(self) -> tuple[Strategy, ...]:
        """Both."""
        return self.first, self.later

    def turn(self, fitted: Fitted, round: int) -> Strategy:
        """Return the strategy of this round."""
        counts = to_numpy(fitted.labelled.targets).sum(axis=0)
        alone = float((counts == 1.0).sum()) / max(len(fitted.labelled), 1)
        looking = bool((counts == 0.0).any()) and alone >= self.likely
        return (self.first if looking else self.later).turn(fitted, round)


@dataclass(frozen=True)
class UnlessSurprised(Turns):
    """`first`, and once `otherwise` after a row of its own whose label it had not hoped for.

    The label hoped for is the one of the largest utility under the model before. With MCMI[min] first
    and the largest entropy otherwise it is MM+M (Guo and Greiner 2007), published for one row at a
    time; of a batch the last row decides. Nothing is remembered: the last rows are taken off the
    model again, back to one that did not surprise. After each surprise of a run the strategies
    change places.

    Parameters
    ----------
    start
        Labelled rows of the start, which no strategy chose. A run of surprises that reaches them
        ends there; where it is not known, a row of the start may be counted.

    Examples
    --------
    >>> import goalward as gw
    >>> from goalward.strategies import Entropy, UnlessSurprised
    >>> hopeful = gw.GoalOriented(gw.goals.Entropy([[0.5]]), operator=gw.labels.BestCase())
    >>> UnlessSurprised(hopeful, Entropy()).otherwise
    Entropy(seed=0)
    """

    first: GoalOriented
    otherwise: Strategy
    start: int = field(default=0, kw_only=True)
    seed: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        goal = getattr(self.first, "goal", None)
        if goal is None or goal.utility != "first-order":
            raise BadParameter(
                f"first={self.first!r} hopes for no label; a GoalOriented with a goal of the logits was "
                "expected. Use MCMI[min]: GoalOriented(Entropy(X), operator=BestCase())."
            )

    @property
    def parts(self) -> tuple[Strategy, ...]:
        """Both."""
        return self.first, self.otherwise

    def turn(self, fitted: Fitted, round: int) -> Strategy:
        """Return the strategy of this round: every second surprise in a row is `otherwise`'s own."""
        after, surprises = fitted, 0
        while (before := self._before(after)) is not None and self._surprised(before, after):
            after, surprises = before, surprises + 1
        return (self.otherwise if surprises % 2 else self.first).turn(fitted, round)

    def _before(self, fitted: Fitted) -> Fitted | None:
        """Return the model without its last row; None at the start, or if a class would be lost."""
        old = fitted.labelled
        rest = slice(0, len(old) - 1)
        labelled = Labelled(rows_at(old.X, rest), old.targets[rest, :], old.weights[rest])
        counts = namespace(old.targets).sum(labelled.targets, axis=0)
        if len(labelled) < max(self.start, 1) or float(namespace(counts).min(counts)) <= 0.0:
            return None
        return replace(fitted, labelled=labelled).polished()

    def _surprised(self, before: Fitted, after: Fitted) -> bool:
        """Return whether the row that came has another label than `first` would have hoped for."""
        last = slice(len(before.labelled), len(after.labelled))
        x: Rows = rows_at(after.labelled.X, last)
        goal = self.first.made.settled(before)
        utility: Any = self.first.utility
        hoped = to_numpy(utility.bound(before, goal)(x).per_label)
        told = to_numpy(after.labelled.targets[last, :])
        return bool(hoped.argmax() != told.argmax())


# What is asked while fewer than two classes have labels: rows that cover the pool.


CANDIDATES = 4000
"""Rows of a large pool that are looked at, drawn anew each round."""


def cold_start(X: Any, *, seed: int = 0) -> Strategy:
    """Return the strategy of the first rounds, before there is a boundary to speak of.

    Rows near which many others are, each covering another part: MaxHerding (Bae et al. 2024, arXiv
    2407.12212), which `Coverage` is while nothing is known. `Strategy.suggest` takes it by itself.

    Parameters
    ----------
    X
        The pool, or where the model will be used.

    Examples
    --------
    >>> import numpy as np
    >>> import goalward as gw
    >>> from goalward.strategies import Margin, cold_start
    >>> X = [[0.0, 1.0], [0.1, 1.0], [0.2, 1.0], [1.0, 0.0]]
    >>> learner = gw.Logistic(classes=["a", "b"], penalize_intercept="until-seen")
    >>> nothing = learner.fit(np.empty((0, 2)), [])
    >>> cold_start(X).suggest(nothing, X, batch=2).rows
    array([1, 3])
    >>> Margin().suggest(nothing, X, batch=2).rows
    array([1, 3])
    """
    cover = GoalOriented(Coverage(reference_rows(X)), selection=Sequential(), seed=seed)
    return Subsampled(cover, candidates=CANDIDATES, seed=seed)
