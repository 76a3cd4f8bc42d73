"""Strategies made of others: in turn, one until another, on a part of the pool."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from goalward.core.arguments import check_count, in_place
from goalward.core.arrays import rows_at, to_numpy
from goalward.core.cores import one_blas_thread
from goalward.core.draws import reference_rows
from goalward.core.rows import Labelled
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
    """Return a strategy from an object or a word of recipes that needs no data."""
    from goalward.strategies.recipes import recipe

    if isinstance(part, str):
        return recipe(part).build()
    in_place(part, name, "gw.strategies.Margin() or 'margin'", "turn")
    return part


class Combined(Strategy):
    """A strategy made of others, given as objects or as words of recipes."""

    parts: ClassVar[tuple[str, ...]] = ("strategy",)
    """Fields that hold a strategy."""

    def __post_init__(self) -> None:
        for name in self.parts:
            object.__setattr__(self, name, as_strategy(getattr(self, name), name))

    @property
    def labels_held(self) -> int:
        return max(int(getattr(self, name).labels_held) for name in self.parts)


class PartOfPool(Combined):
    """A strategy on a part of the rows, in memory; other rows have the utility NaN."""

    strategy: Strategy

    def progress(self, fitted: Fitted) -> float:
        return self.strategy.progress(fitted)

    def bind(self, request: Request) -> Rule:
        return self.strategy.bind(request)

    @property
    def zero(self) -> float | None:  # type: ignore[override]
        return self.strategy.zero

    @abstractmethod
    def part(self, request: Request, engine: Engine) -> NDArray[Any] | None:
        """Return the positions of the free rows to score; None for the whole pool."""

    def choose(self, request: Request, engine: Engine) -> Suggestion:
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
            utility = np.full(total, np.nan)
            utility[part] = inner.utility

            def table() -> NDArray[Any] | None:
                if inner.per_label is None:
                    return None
                full = np.full((total, inner.per_label.shape[1]), np.nan)
                full[part] = inner.per_label
                return full

        return replace(
            inner,
            utility=utility,
            table=table,
            positions=part[inner.positions],
            seconds=taken + inner.seconds,
            says=f"{inner.says} out of {request.left:,}",
        )


@dataclass(frozen=True)
class Among(PartOfPool):
    """A strategy on the short list of the rows that another one puts first.

    With `by=Random()` rows are drawn anew in every round and no others are read. A pool of at most
    `most` rows is passed on whole.

    Parameters
    ----------
    strategy, by
        Picks from the short list, and makes it.
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
    parts = ("strategy", "by")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("most", self.most)

    def part(self, request: Request, engine: Engine) -> NDArray[Any] | None:
        if len(request.pool) <= self.most:
            return None
        by = self.by.turn(request.fitted, request.turn)
        return by.shortlist(request, engine, max(self.most, request.batch))


class Turns(Combined):
    """A strategy that delegates each round to one of several."""

    parts = ("first", "later")

    @abstractmethod
    def turn(self, fitted: Fitted, round: int) -> Strategy:
        """Return the strategy of this round."""

    def bind(self, request: Request) -> Rule:
        return self.turn(request.fitted, request.turn).bind(request)


@dataclass(frozen=True)
class InTurn(Turns):
    """Several strategies in turn, one for each round.

    Without `round=` the round is the number of labelled rows in batches.

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
                f"InTurn needs at least 2 strategies, got {len(self.strategies)}. Use a single one as it is."
            )

    @property
    def labels_held(self) -> int:
        return max(part.labels_held for part in self.strategies)

    def turn(self, fitted: Fitted, round: int) -> Strategy:
        # Nested turns count only their own rounds.
        lap, place = divmod(round, len(self.strategies))
        return self.strategies[place].turn(fitted, lap)


@dataclass(frozen=True)
class Then(Turns):
    """`first` while the model has fewer than `labels` labelled rows (with the start), then `later`.

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
        super().__post_init__()
        check_count("labels", self.labels)

    def turn(self, fitted: Fitted, round: int) -> Strategy:
        few = len(fitted.labelled) < self.labels
        return (self.first if few else self.later).turn(fitted, round)


@dataclass(frozen=True)
class WhileUnseen(Turns):
    """`first` while a class of the model has no label and one is likely to be found, then `later`.

    Parameters
    ----------
    likely
        Least probability of a new class, estimated by the share of singletons (Good 1953).

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
        super().__post_init__()
        if not 0.0 < self.likely <= 1.0:
            raise BadParameter(
                f"likely must be above 0 and at most 1, got likely={self.likely!r}. Use 0.1."
            )

    def turn(self, fitted: Fitted, round: int) -> Strategy:
        counts = to_numpy(fitted.labelled.targets).sum(axis=0)
        alone = float((counts == 1.0).sum()) / max(len(fitted.labelled), 1)
        looking = bool((counts == 0.0).any()) and alone >= self.likely
        return (self.first if looking else self.later).turn(fitted, round)


@dataclass(frozen=True)
class UnlessSurprised(Turns):
    """`first`, and `otherwise` once after a row whose label was not the one hoped for.

    The label hoped for has the largest utility under the model before. With MCMI[min] and entropy
    it is MM+M (Guo and Greiner 2007). Of a batch the last row decides.

    Parameters
    ----------
    start
        Labelled rows of the start, which no strategy chose.

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
    parts = ("first", "otherwise")

    def __post_init__(self) -> None:
        goal = getattr(self.first, "goal", None)
        if goal is None or goal.utility != "first-order":
            raise BadParameter(
                "first must be a GoalOriented with a goal of the logits, which hopes for a label, got "
                f"{self.first!r}. Use MCMI[min]: GoalOriented(Entropy(X), operator=BestCase())."
            )

    def turn(self, fitted: Fitted, round: int) -> Strategy:
        after, surprises = fitted, 0
        while (before := self._before(after)) is not None and self._surprised(before, after):
            after, surprises = before, surprises + 1
        return (self.otherwise if surprises % 2 else self.first).turn(fitted, round)

    def _before(self, fitted: Fitted) -> Fitted | None:
        """Return the model without its last row; None at the start, or if a class would be lost."""
        old = fitted.labelled
        rest = slice(0, len(old) - 1)
        labelled = Labelled(rows_at(old.X, rest), old.targets[rest, :], old.weights[rest])
        counts = to_numpy(labelled.targets).sum(axis=0)
        if len(labelled) < max(self.start, 1) or counts.min() <= 0.0:
            return None
        return replace(fitted, labelled=labelled).polished()

    def _surprised(self, before: Fitted, after: Fitted) -> bool:
        """Return whether the newest row has another label than `first` hoped for."""
        last = slice(len(before.labelled), len(after.labelled))
        utility: Any = self.first.utility
        scorer = utility.bound(before, self.first.goal.for_round(before))
        hoped = to_numpy(scorer(rows_at(after.labelled.X, last)).per_label)
        return bool(hoped.argmax() != to_numpy(after.labelled.targets[last, :]).argmax())


CANDIDATES = 4000
"""Rows scored of a large pool, drawn anew each round."""


def cold_start(X: Any, *, seed: int = 0) -> Strategy:
    """Return the strategy while fewer than two classes have labels; `suggest` takes it by itself.

    MaxHerding (Bae et al. 2024, arXiv 2407.12212).

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
    return Among(cover, by=Random(seed), most=CANDIDATES, seed=seed)
