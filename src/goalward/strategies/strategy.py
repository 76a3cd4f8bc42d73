"""A strategy binds to a model and gives a rule; an engine reads the pool through it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from time import perf_counter
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import to_numpy
from goalward.core.card import card
from goalward.errors import BadParameter, PoolExhausted, Unsupported
from goalward.labels.operators import warn_vacuous
from goalward.models import Fitted
from goalward.solvers import Solution
from goalward.strategies.engine import Engine, Memory, Reading
from goalward.strategies.request import Request
from goalward.strategies.selectors import Top
from goalward.utility import Fidelity
from goalward.utility.best import Best, Prices, salt
from goalward.utility.rule import Rule, Selector, Shortlist

__all__ = ["Strategy", "Suggestion"]

SHORTEST = 1000
"""Rows kept for a selector that wants all of them, by an engine that does not keep all."""


@dataclass(frozen=True)
class Suggestion:
    """The rows worth a label next, best first, and what was thought of all of them.

    Parameters
    ----------
    rows
        (b,) ids of the rows: positions in the pool, unless ids were given.
    utility
        (N,) score of every row of the pool; excluded rows have theirs too. None where the
        engine keeps none but those of the best.
    table
        How to get `per_label`, or the table itself.
    solver
        How the goal's direction was solved for: residual, iterations, which and why.
    leverage
        Mean leverage tr(ΛM) of the pool, where the utility knows it: up to about 0.1 first
        order is enough.
    fidelity
        How the scores compare with retraining, if that was asked for.
    positions, values
        (b,) where the rows are in the pool, and the scores they were picked with.
    seconds
        How long the pass over the pool took.
    certificate
        (b, K) how far from retraining the utilities of the rows can be, under every label, where the
        utility is certified (`ImplicitStep(corrections=1)` or more, `Retrain`); infinite where there
        is no proof.
    cost
        What the rows cost together, where they have prices.
    says
        What chose, how many rows, and from how many; of `gw.suggest` also how the model came about.
    predicted
        Gives the likeliest label of each row and its probability, for those who look at the rows.
    """

    rows: NDArray[Any]
    utility: Any = field(repr=False)
    table: Any = field(default=None, repr=False)
    solver: Solution | None = field(default=None, repr=False)
    leverage: float | None = None
    fidelity: Fidelity | None = None
    positions: NDArray[Any] = field(default_factory=lambda: np.empty(0, np.int64), repr=False)
    values: NDArray[Any] = field(default_factory=lambda: np.empty(0), repr=False)
    seconds: float = field(default=0.0, repr=False)
    certificate: NDArray[Any] | None = field(default=None, repr=False)
    says: str = field(default="", repr=False)
    cost: float | None = None
    predicted: Callable[[], dict[str, NDArray[Any]]] = field(default=dict, repr=False)

    @cached_property
    def per_label(self) -> NDArray[Any] | None:
        """(N, K) utility under every label; taken from the pool when first asked for.

        So the pool must still be what it was: ask before it is changed.
        None for strategies that have none, and for pools whose table would not fit in 256 MB.
        """
        table = self.table() if callable(self.table) else self.table
        return None if table is None else to_numpy(table)

    def _repr_html_(self) -> str:
        scored = len(self.values) == len(self.rows)
        columns: dict[str, Any] = {"row": self.rows} | ({"utility": self.values} if scored else {})
        columns |= self.predicted()
        return card(f"{len(self.rows):,} rows to label", columns, bar="utility", note=self.says)


class Strategy(ABC):
    """A way to choose the rows to label next. The model is fitted outside, once a round."""

    seed: int
    selection: Selector = Top()
    needs: ClassVar[frozenset[str]] = frozenset()
    starts: bool = False
    """Whether it has something to say while fewer than two classes have labels."""
    only_predicts: ClassVar[bool] = False
    """Whether it asks nothing of a model but its predictions."""
    anywhere: bool = False
    """Whether it works on arrays of any library, those of a GPU included."""
    zero: float | None = None
    """The score of a row that brings nothing, where scores less this are gains; None where they only
    order rows, and there is nothing to divide by a price."""

    @property
    def title(self) -> str:
        """What it is called where it says that it chose."""
        return type(self).__name__

    def build(self, **data: Any) -> Strategy:
        """Return the strategy itself: it has its data, where a recipe waits for them."""
        return self

    @property
    def labels_held(self) -> int:
        """How many labels it brings along, beside those of the model."""
        return 0

    def progress(self, fitted: Fitted) -> float:
        """Return the value of its goal at a model; NaN without one."""
        return float("nan")

    @abstractmethod
    def bind(self, request: Request) -> Rule:
        """Return the rule for one model and one round: what the round shares is made here."""

    def turn(self, fitted: Fitted, round: int) -> Strategy:
        """Return the strategy whose turn it is; most are always their own."""
        return self

    def shortlist(self, request: Request, engine: Engine, count: int) -> NDArray[Any]:
        """Return the positions of the free rows it puts first, by one pass over the pool."""
        kept = Best(count, salt(np.random.default_rng([self.seed, request.round])))
        reading = engine.scan(self.bind(request), request, kept)
        return np.asarray(reading.positions[np.isfinite(reading.values)])

    def chosen(self, request: Request, engine: Engine) -> Suggestion:
        """Return what `choose` does, with a sentence on it."""
        found = self.choose(request, engine)
        price = "" if found.cost is None else f" for {found.cost:g}"
        said = f"{self.title} chose {len(found.rows):,} of {request.left:,} rows{price}"
        return replace(found, says=found.says or said)

    def choose(self, request: Request, engine: Engine) -> Suggestion:
        """Return the rows that a checked request asks for: bind, scan, select."""
        if request.costs is not None:
            return self._bought(request, engine)
        rule = self.bind(request)
        rng = np.random.default_rng([self.seed, request.round])
        keep = self.selection.keep(request.batch)
        kept = None if keep is None else Best(keep, salt(rng))
        if not engine.whole:
            if rule.constant:
                warn_vacuous(rule.name)
            widest = max(SHORTEST, 10 * request.batch)
            kept = kept or Best(widest, salt(np.random.default_rng([self.seed, request.round])))
        began = perf_counter()
        reading = engine.scan(rule, request, kept)
        taken = perf_counter() - began
        chosen = self.selection(reading.shortlist(rule, request), request.batch, rng)
        return self._told(request, rule, reading, chosen, taken)

    def _told(
        self, request: Request, rule: Rule, reading: Reading, chosen: NDArray[Any], taken: float
    ) -> Suggestion:
        """Return the rows chosen, with what was thought of them and of all."""
        checked = None
        if request.fidelity:
            few = request.narrowed(request.free)
            checked = rule.fidelity(few.pool.source, few.ids, request.fidelity, self.seed)
        order = np.argsort(reading.positions)
        place = order[np.searchsorted(reading.positions, chosen, sorter=order)]
        return Suggestion(
            request.names(chosen),
            reading.utility,
            reading.table,
            rule.report,
            reading.leverage,
            checked,
            chosen,
            reading.values[place],
            taken,
            rule.certificate(request.read(chosen)) if rule.certifies else None,
        )

    def _bought(self, request: Request, engine: Engine) -> Suggestion:
        """Return rows by gain per price, as many as the budget pays for."""
        if self.zero is None or not getattr(self.selection, "pays", False):
            part = self.selection if self.zero is not None else self
            raise Unsupported(
                f"costs= came with {type(part).__name__}, which orders rows and says no gain that a price "
                "could divide; a strategy that does was expected. Use GoalOriented, Entropy, Margin or "
                "LeastConfident, with Top(), Stochastic() or Sequential()."
            )
        rule, rng = self.bind(request), np.random.default_rng([self.seed, request.round])
        prices = Prices(np.asarray(request.costs), request.budget, self.zero)
        free, keep = request.left, self.selection.keep(request.batch)
        wide = free if engine.whole else max(SHORTEST, 10 * request.batch, keep or 0)
        began = perf_counter()
        reading = engine.scan(rule, request, Best(wide, salt(rng), prices=prices))
        worth = np.isfinite(reading.values)
        rows = reading.positions[worth]
        values = reading.values[worth] * prices.costs[rows] + self.zero
        if not engine.whole and math.isfinite(request.budget):
            # Rows of the largest gains may gain too little for their price to be among them.
            dear = engine.scan(rule, request, Best(wide, salt(rng)))
            more = ~np.isin(dear.positions, rows) & (dear.values > self.zero)
            rows = np.append(rows, dear.positions[more])
            values = np.append(values, dear.values[more])
        taken = perf_counter() - began
        if not len(rows):
            raise PoolExhausted(
                f"No row is worth its price: under {rule.name} none of the {free} that the budget pays for "
                "is expected to gain anything. Stop here, or use an operator that hopes for more: spread."
            )
        if keep is not None and keep > request.batch:
            # A batch alone would not do: a row that cannot be paid leaves its place to the next.
            kept = np.union1d(np.arange(min(keep, len(rows))), np.argsort(-values)[:keep])
            rows, values = rows[kept], values[kept]
        few = Shortlist(rule, rows, values, request.read, prices.at(rows))
        chosen = self.selection(few, request.batch, rng)
        reading = replace(reading, positions=rows, values=values)
        told = self._told(request, rule, reading, chosen, taken)
        return replace(told, cost=math.fsum(prices.costs[chosen]))

    def suggest(
        self,
        fitted: Any,
        X_pool: Any,
        batch: int = 10,
        exclude: Iterable[Any] = (),
        *,
        rows: Any = None,
        round: int | None = None,
        fidelity: int = 0,
        engine: Engine | None = None,
        costs: Any = None,
        budget: float | None = None,
    ) -> Suggestion:
        """Return the `batch` rows of the pool worth labelling next, best first; fewer if no more are left.

        Parameters
        ----------
        X_pool
            (N, d) rows: an array, a memory map, sparse, a frame or a `PoolFile`; read in blocks.
        exclude
            Ids of rows not to suggest: labelled or asked already. An id that is not in the
            pool is refused, since it is a mistake as a rule.
        rows
            Ids of the rows, distinct; positions by default.
        round
            Which round this is, from 0, for schedules and draws; the number of labelled rows by
            default.
        fidelity
            Retrain this many candidates, spread over the scores, and report how far the
            utilities can be trusted. Only strategies with a goal can.
        engine
            How the pool is read: `Memory()`, or one of `gw.scale`.
        costs, budget
            (N,) what each row costs, above 0, and what may be spent on this batch. Rows are taken by gain
            per price, or by gain where that brings more for the budget: those that gain something and
            that it pays for, `batch` at most. For strategies whose scores are gains, and the selections
            Top, Stochastic and Sequential.
        """
        given = (exclude, rows, round, fidelity, costs, budget)
        request = Request.of(fitted, X_pool, batch, *given)
        reader = Memory() if engine is None else engine
        if isinstance(reader, type) or not callable(getattr(reader, "scan", None)):
            raise BadParameter(
                f"engine={engine!r}; an engine such as gw.scale.Threads(n_jobs=2) was expected. Leave it "
                "out to read the pool in memory."
            )
        return self.answer(request, reader)

    def answer(self, request: Request, engine: Engine) -> Suggestion:
        """Return what the part whose turn it is chooses; before two classes have labels, the cold start."""
        from goalward.strategies.schedule import cold_start

        if not request.left:
            none, unseen = np.empty(0, np.int64), np.full(len(request.pool), np.nan)
            said = f"No row is left of {len(request.pool):,}."
            return Suggestion(request.names(none), unseen if engine.whole else None, says=said)
        part = self.turn(request.fitted, request.turn)
        if request.fitted.model.elsewhere:
            if not part.only_predicts:
                raise Unsupported(
                    f"{type(part).__name__} needs the rows that the model was fitted to, and a classifier "
                    "came without them; gw.suggest(model, X_labelled, y_labelled, X_pool) was expected. "
                    "Margin, Entropy, LeastConfident and Random do with its predictions."
                )
        elif not (part.starts or request.fitted.told):
            part = cold_start(request.pool.source, seed=self.seed)
        found = part.chosen(request, engine)
        short = f", all that are left: {request.asked:,} were asked for"
        few = short if request.left < request.asked and request.costs is None else ""
        predicted = partial(request.predicted, found.positions)
        return replace(found, says=f"{found.says}{few}.", predicted=predicted)
