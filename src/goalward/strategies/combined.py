"""Strategies made of others: in turn, one until another, on a part of the pool."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.arguments import check_count, in_place
from goalward.core.arrays import Rows, namespace, rows_at, to_numpy
from goalward.core.draws import reference_rows
from goalward.core.rows import Labelled
from goalward.core.threads import one_blas_thread
from goalward.errors import BadParameter
from goalward.goals.coverage import Coverage
from goalward.models import Fitted
from goalward.strategies.engine import Engine, Memory
from goalward.strategies.goal_oriented import GoalOriented
from goalward.strategies.selectors import Sequential
from goalward.strategies.strategy import Request, Strategy, Suggestion
from goalward.strategies.uncertainty import Margin, Random
from goalward.utility.utility import Rule


def as_strategy(part: Any, name: str) -> Any:
    """Return a part of another strategy; words of recipes stand for those that need no data."""
    from goalward.strategies.recipes import recipe

    if isinstance(part, str):
        return recipe(part).build()
    in_place(part, name, "gw.strategies.Margin() or 'margin'", "turn")
    return part


# Rows drawn by a seed, the same in every round and process: what goals without labels look at.


class PartOfPool(Strategy):
    """Another strategy, shown a part of the rows, in memory; the others have NaN for a utility."""

    strategy: Strategy

    @property
    def labels_held(self) -> int:
        """The labels of the strategy within."""
        return self.strategy.labels_held

    def progress(self, fitted: Fitted) -> float:
        """Return the value of the goal of the strategy within."""
        return self.strategy.progress(fitted)

    def bind(self, request: Request) -> Rule:
        """Return the rule of the strategy within."""
        return self.strategy.bind(request)

    @property
    def zero(self) -> float | None:  # type: ignore[override]
        """That of the strategy within."""
        return self.strategy.zero

    @abstractmethod
    def part(self, request: Request, engine: Engine) -> NDArray[Any] | None:
        """Return the positions of the free rows to look at; None for the pool as it is."""

    def choose(self, request: Request, engine: Engine) -> Suggestion:
        """Return the rows worth labelling next among those, best first."""
        began = perf_counter()
        part = self.part(request, engine)
        strategy = self.strategy.turn(request.fitted, request.turn)
        if part is None:
            return strategy.choose(request, Memory())
        part, total = np.sort(part), len(request.pool)
        taken = perf_counter() - began
        with one_blas_thread():  # many small products
            there = getattr(engine, "narrowed", None) if strategy.anywhere else None
            few = request.narrowed(part) if there is None else there(request, part)
            inner = strategy.choose(few, Memory())
        utility = table = None
        if engine.whole:
            utility, table = np.full(total, np.nan), partial(_table, inner, part, total)
            utility[part] = inner.utility
        positions, seconds = part[inner.positions], taken + inner.seconds
        found = replace(inner, utility=utility, table=table, positions=positions, seconds=seconds)
        return replace(found, says=f"{inner.says} out of {request.left:,}")


@dataclass(frozen=True)
class Subsampled(PartOfPool):
    """Another strategy, shown `candidates` free rows drawn at random in every round.

    For utilities that cost a fit each: `Retrain` of a network, or of a classifier without
    curvature. Rows that were not drawn have NaN for a utility. The best of 4,000 rows drawn is among
    the best thousandth of a pool of any size with a probability of .98.

    Parameters
    ----------
    strategy
        What scores the rows drawn.
    candidates
        How many are drawn; the batch, if that is larger.

    Examples
    --------
    >>> from goalward.strategies import Margin
    >>> Subsampled(Margin(), candidates=100)
    Subsampled(strategy=Margin(seed=0), candidates=100, seed=0)
    """

    strategy: Strategy
    candidates: int = field(default=100, kw_only=True)
    seed: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "strategy", as_strategy(self.strategy, "strategy"))
        check_count("candidates", self.candidates)

    def part(self, request: Request, engine: Engine) -> NDArray[Any]:
        """Return rows drawn by the seed and the round; nothing is read for that."""
        count = max(self.candidates, request.batch)
        return Random(self.seed).shortlist(request, engine, count)


@dataclass(frozen=True)
class Among(PartOfPool):
    """A strategy on the short list of the rows that another one puts first.

    `by` scores the pool in one pass of the engine, and `strategy` sees its `most` first rows and no
    others, in memory. With `by=Margin()`, which predicts and no more, a dear strategy costs one
    prediction of the pool and its work on a short list, for pools of any size; `by=Random()` draws
    rows anew in every round and reads no others. A pool of at most `most` rows is shown as it is.

    Parameters
    ----------
    strategy
        What picks from the short list.
    by
        What makes it.
    most
        Its length; the batch, if that is larger.

    Examples
    --------
    >>> import goalward as gw
    >>> from goalward.strategies import Among, CoreSet
    >>> Among(CoreSet(), most=200)
    Among(strategy=CoreSet(seed=0), by=Margin(seed=0), most=200, seed=0)
    >>> gw.recipe("coverage among 1000 by margin")
    Recipe('coverage/average/covering/sequential among 1000 by margin')
    """

    strategy: Strategy
    by: Strategy = field(default_factory=Margin, kw_only=True)
    most: int = field(default=1000, kw_only=True)
    seed: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("strategy", "by"):
            object.__setattr__(self, name, as_strategy(getattr(self, name), name))
        check_count("most", self.most)

    @property
    def labels_held(self) -> int:
        """The labels of either: the same may serve both."""
        return max(self.strategy.labels_held, self.by.labels_held)

    def part(self, request: Request, engine: Engine) -> NDArray[Any] | None:
        """Return the free rows that `by` puts first; None where the pool has no more."""
        if len(request.pool) <= self.most:
            return None
        by = self.by.turn(request.fitted, request.turn)
        return by.shortlist(request, engine, max(self.most, request.batch))


def _table(inner: Suggestion, part: NDArray[Any], total: int) -> NDArray[Any] | None:
    """Return what was said of the rows looked at, under every label; NaN of the others."""
    if inner.per_label is None:
        return None
    table = np.full((total, inner.per_label.shape[1]), np.nan)
    table[part] = inner.per_label
    return table


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
        goal = self.first.goal.for_round(before)
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
