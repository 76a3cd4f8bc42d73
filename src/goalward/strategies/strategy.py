"""A strategy binds to a model and gives a rule; an engine reads the pool through it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from time import perf_counter
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from goalward.core.arguments import check_count
from goalward.core.arrays import to_numpy
from goalward.core.card import card
from goalward.core.draws import salt
from goalward.core.pool import Pool, as_pool
from goalward.core.rows import Candidates
from goalward.errors import BadParameter, DuplicateRows, PoolExhausted, ShapeMismatch, Unsupported
from goalward.labels.operators import warn_vacuous
from goalward.models import Fitted
from goalward.models.refitted import that_predicts
from goalward.solvers import Solution
from goalward.strategies.engine import Engine, Memory
from goalward.strategies.selectors import (
    Best,
    PerCost,
    PerPrice,
    Selector,
    Shortlist,
    Top,
    no_prices,
)
from goalward.utility import Fidelity
from goalward.utility.utility import Rule

SHORTEST = 1000
"""Rows that an engine keeps for a selector that would use all."""


@dataclass(frozen=True, eq=False)
class Request:
    """A checked request for a batch of rows of a pool in one round.

    `batch` is `asked`, but at most `left`. `renamed` says whether ids differ from the pool's own.
    `excluded` are sorted positions. `turn` is the round counted in batches.
    """

    fitted: Fitted
    pool: Pool
    batch: int
    ids: NDArray[Any] | None
    excluded: NDArray[Any]
    left: int
    round: int = 0
    turn: int = 0
    asked: int = 0
    fidelity: int = 0
    renamed: bool = False
    costs: NDArray[Any] | None = None
    budget: float = math.inf

    @classmethod
    def of(
        cls,
        fitted: Any,
        X_pool: Any,
        batch: Any,
        exclude: Iterable[Any] = (),
        ids: Any = None,
        round: int | None = None,
        fidelity: int = 0,
        costs: Any = None,
        budget: Any = None,
    ) -> Request:
        model, pool = that_predicts(fitted), as_pool(X_pool)
        total = len(pool)
        names = pool.ids() if ids is None else clean_ids(ids, total)
        excluded = excluded_positions(names, exclude, total)
        check_count("batch", batch)
        prices, most = None, math.inf
        if costs is not None or budget is not None:
            prices, most = clean_costs(costs, budget, total)
            dear = np.union1d(excluded, np.flatnonzero(prices > most))
            if len(dear) == total > len(excluded):
                least = np.delete(prices, excluded).min()
                raise PoolExhausted(
                    f"budget={most:g} pays for no row; the cheapest costs {least:g}. Raise the budget."
                )
            excluded = dear
        # Without a round, the number of labels takes its place.
        known = len(model.labelled)
        number, turn = (known, known // batch) if round is None else (round, round)
        left = total - len(excluded)
        return cls(
            *(model, pool, min(int(batch), left), names, excluded, left, number, turn, int(batch)),
            *(fidelity, ids is not None, prices, most),
        )

    @property
    def free(self) -> NDArray[Any]:
        """Sorted positions of the rows that may be suggested."""
        return np.delete(np.arange(len(self.pool)), self.excluded)

    def names(self, positions: NDArray[Any]) -> NDArray[Any]:
        return positions if self.ids is None else self.ids[positions]

    def read(self, positions: NDArray[Any]) -> Candidates:
        X = self.fitted.features(self.pool.take(positions), "X_pool")
        return Candidates(self.names(positions), X, self.fitted.proba_of)

    def predicted(self, positions: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Return the predictions for rows; empty with fewer than two labelled classes."""
        if not (self.fitted.has_two_classes or self.fitted.model.predict_only):
            return {}
        proba = to_numpy(self.read(positions).proba)
        labels = self.fitted.classes[proba.argmax(axis=1)]
        return {"the model says": labels, "probability": proba.max(axis=1, initial=0.0)}

    def narrowed(self, positions: NDArray[Any]) -> Request:
        few, nothing = as_pool(self.pool.take(positions)), np.empty(0, dtype=np.int64)
        costs = None if self.costs is None else self.costs[positions]
        ids, left = self.names(positions), len(positions)
        return replace(self, pool=few, ids=ids, excluded=nothing, left=left, costs=costs)


def clean_costs(costs: Any, budget: Any, total: int) -> tuple[NDArray[Any], float]:
    """Return the checked prices and budget."""
    if budget is not None and (costs is None or isinstance(budget, bool) or not budget > 0):
        without = " without costs" if costs is None else ""
        raise BadParameter(
            f"budget must be a number above 0 in the unit of costs=, got {budget!r}{without}. Without "
            "prices, batch says how many rows."
        )
    try:
        prices = np.asarray(costs, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise BadParameter(
            f"costs must be numeric ({error}). Pass the price of each row of the pool."
        ) from error
    if prices.shape != (total,):
        raise ShapeMismatch(
            f"costs must have shape ({total},), got {prices.shape}. Pass one price per row, in the order "
            "of the pool."
        )
    bad = np.flatnonzero(~((prices > 0.0) & np.isfinite(prices)))
    if len(bad):
        raise BadParameter(
            f"costs must be finite and above 0, got {prices[bad[0]]} at costs[{bad[0]}] ({len(bad)} such). "
            "Give what is free a small price, and name what cannot be bought in exclude."
        )
    return prices, math.inf if budget is None else float(budget)


def clean_ids(ids: Any, total: int) -> NDArray[Any]:
    """Return ids as an array of one type, or of objects where types are mixed."""
    listed = ids.tolist() if isinstance(ids, np.ndarray) else list(ids)
    if not isinstance(ids, np.ndarray):
        plain = len({type(value) for value in listed}) == 1
        plain = plain and isinstance(listed[0], (bool, int, float, str, np.generic))
        ids = np.array(listed) if plain else np.fromiter(listed, object, len(listed))
    if ids.shape != (total,):
        raise ShapeMismatch(
            f"ids must have shape ({total},), got {ids.shape}. Pass one id per row of the pool."
        )
    if len(set(listed)) < total:
        twice = next(i for i, n in Counter(listed).items() if n > 1)
        raise DuplicateRows(
            f"ids must be distinct, {twice!r} stands {listed.count(twice)} times. Drop the repeated rows or "
            "number them anew."
        )
    return np.asarray(ids)


def nameless(where: str, total: int) -> NDArray[Any]:
    """Return ids "where[i]", since positions would match other rows in a smaller pool."""
    return np.array([f"{where}[{i}]" for i in range(total)])


def excluded_positions(
    ids: NDArray[Any] | None, exclude: Iterable[Any], total: int
) -> NDArray[Any]:
    """Return the sorted positions of rows that must not be suggested."""
    listed = exclude.tolist() if isinstance(exclude, np.ndarray) else list(exclude)
    if not listed:
        return np.empty(0, dtype=np.int64)
    flags = sum(isinstance(row, (bool, np.bool_)) for row in listed)
    # True equals 1 in Python, and names no row unless an id is a boolean too.
    if flags and (ids is None or not any(isinstance(known, bool) for known in ids.tolist())):
        raise BadParameter(
            f"exclude must hold ids of rows, got {flags} booleans among {len(listed)} entries. Pass "
            "np.flatnonzero(mask), or the ids at the mask."
        )
    known: Any = range(total) if ids is None else {row: i for i, row in enumerate(ids.tolist())}
    unknown = [row for row in listed if row not in known]
    if unknown:
        example = 0 if ids is None or not total else ids.tolist()[0]
        raise BadParameter(
            f"exclude must hold ids of the pool, like {example!r}; {len(unknown)} are not in the pool, the "
            f"first {unknown[0]!r} ({type(unknown[0]).__name__}). Pass positions in the pool, or ids= with "
            "the ids that exclude names."
        )
    positions = listed if ids is None else [known[row] for row in listed]
    return np.unique(np.asarray(positions, dtype=np.int64))


@dataclass(frozen=True)
class Suggestion:
    """The rows worth a label next, best first, and the scores of all rows.

    Parameters
    ----------
    rows, positions, values
        (b,) ids, positions in the pool and scores of the rows.
    utility
        (N,) score of every row of the pool; None where the engine keeps only the best.
    solver
        How the goal's direction was solved for: residual, iterations, which and why.
    leverage
        Mean leverage tr(ΛM) of the pool, if known; up to about 0.1 first order is enough.
    fidelity
        Comparison of the scores with retraining, if asked for.
    certificate
        (b, K) bounds of the distance from retraining; infinite where there is no proof.
    seconds, cost, says
        Time of the pass over the pool, total price of the rows, and a summary of the choice.
    predicted
        Returns the likeliest label of each row and its probability.
    model
        The model that chose, where `gw.suggest` fitted it: `predict`, `predict_proba`, `C`, `feature_map`.
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
    model: Fitted | None = field(default=None, repr=False)

    @cached_property
    def per_label(self) -> NDArray[Any] | None:
        """(N, K) utility under every label, read from the pool on first use; None above 256 MB."""
        table = self.table() if callable(self.table) else self.table
        return None if table is None else to_numpy(table)

    def __repr__(self) -> str:
        return f"Suggestion(rows={self.rows!r}, says={self.says!r})"

    def __getstate__(self) -> dict[str, Any]:
        read: dict[str, Any] = {
            "table": self.per_label,
            "predicted": partial(dict, self.predicted()),
        }
        return vars(self) | read

    def _repr_html_(self) -> str:
        scored = len(self.values) == len(self.rows)
        columns: dict[str, Any] = {"row": self.rows} | ({"score": self.values} if scored else {})
        columns |= self.predicted()
        return card(f"{len(self.rows):,} rows to label", columns, bar="score", note=self.says)


WORDS: dict[str, Callable[..., Strategy]] = {}
"""Strategies that have a word in recipes."""


class Strategy(ABC):
    """A way to choose the rows to label next. The model is fitted outside, once a round.

    `class Mine(Strategy, word="mine")` can be named in recipes: `gw.recipe("mine")`.
    """

    seed: int
    selection: Selector = Top()
    needs: ClassVar[frozenset[str]] = frozenset()
    starts: bool = False
    """Whether it can choose while fewer than two classes have labels."""
    only_predicts: ClassVar[bool] = False
    """Whether it needs nothing of a model but its predictions."""
    anywhere: bool = False
    """Whether it works on arrays of any library, those of a GPU included."""
    zero: float | None = None
    """The score of a row that brings nothing; None where scores only order rows."""

    def __init_subclass__(cls, word: str | tuple[str, ...] = (), **options: Any) -> None:
        super().__init_subclass__(**options)
        WORDS.update(dict.fromkeys((word,) if isinstance(word, str) else word, cls))

    @property
    def title(self) -> str:
        """Name of the strategy in `Suggestion.says`."""
        return type(self).__name__

    @property
    def labels_held(self) -> int:
        """Number of labels it holds, besides those of the model."""
        return 0

    def build(self, **data: Any) -> Strategy:
        """Return the strategy itself; the counterpart of `Recipe.build`."""
        return self

    def progress(self, fitted: Fitted) -> float:
        """Return the value of its goal at a model; NaN without one."""
        return float("nan")

    @abstractmethod
    def bind(self, request: Request) -> Rule:
        """Return the rule for one model and one round; shared work is done here."""

    def turn(self, fitted: Fitted, round: int) -> Strategy:
        """Return the strategy of this round, by default itself."""
        return self

    def shortlist(self, request: Request, engine: Engine, count: int) -> NDArray[Any]:
        """Return the positions of the free rows it puts first, by one pass over the pool."""
        kept = Best(count, salt(np.random.default_rng([self.seed, request.round])))
        scan = engine.scan(self.bind(request), request, kept)
        return np.asarray(scan.positions[np.isfinite(scan.values)])

    def choose(self, request: Request, engine: Engine) -> Suggestion:
        """Return the rows that a checked request asks for: bind, scan, select."""
        selection, prices = self.selection, None
        if request.costs is not None:
            if self.zero is None or not hasattr(selection, "bought"):
                raise no_prices(self if self.zero is None else selection)
            selection = prices = PerCost(selection, request.costs, request.budget, self.zero)
        rule = self.bind(request)
        rng = np.random.default_rng([self.seed, request.round])
        keep = selection.keep(request.batch)
        kept = None if keep is None else Best(keep, salt(rng))
        if not engine.whole:
            if rule.constant:
                warn_vacuous(rule.name)
            widest = max(SHORTEST, 10 * request.batch, self.selection.keep(request.batch) or 0)
            kept = kept or Best(widest, salt(np.random.default_rng([self.seed, request.round])))
        began = perf_counter()
        scan = engine.scan(rule, request, kept)
        if prices is not None and not engine.whole:
            # The rows with the best gain per price may have too small a gain to be among them.
            cheap = engine.scan(PerPrice(rule, prices.costs, prices.zero), request, kept)
            gains = cheap.values * prices.costs[cheap.positions] + prices.zero
            scan = scan.joined(cheap.positions, gains)
        seconds = perf_counter() - began
        playing, rows = scan.play or (rule, None)
        few = Shortlist(playing, scan.positions, scan.values, request.read, rows)
        chosen = selection(few, request.batch, rng)
        cost = None if prices is None else math.fsum(prices.costs[chosen])
        price = "" if cost is None else f" for {cost:g}"
        order = np.argsort(scan.positions)
        suggestion = Suggestion(
            *(request.names(chosen), scan.utility, scan.table),
            leverage=scan.leverage,
            positions=chosen,
            values=scan.values[order[np.searchsorted(scan.positions, chosen, sorter=order)]],
            seconds=seconds,
            says=f"{self.title} chose {len(chosen):,} of {request.left:,} rows" + price,
            cost=cost,
        )
        if not rule.explained:
            if request.fidelity:
                raise BadParameter(
                    f"fidelity= needs a strategy that predicts utilities of labels, got {rule.name}. Use "
                    "GoalOriented."
                )
            return suggestion
        checked = None
        if request.fidelity:
            free = request.narrowed(request.free)
            checked = rule.fidelity(free.pool.source, free.ids, request.fidelity, self.seed)
        proof = rule.certificate(request.read(chosen)) if rule.certifies else None
        return replace(suggestion, solver=rule.report, fidelity=checked, certificate=proof)

    def suggest(
        self,
        fitted: Any,
        X_pool: Any,
        batch: int = 10,
        exclude: Iterable[Any] = (),
        *,
        ids: Any = None,
        rows: Any = None,
        round: int | None = None,
        fidelity: int = 0,
        engine: Engine | None = None,
        costs: Any = None,
        budget: float | None = None,
    ) -> Suggestion:
        """Return the `batch` rows of the pool worth labelling next (or all left), best first.

        Parameters
        ----------
        X_pool
            (N, d) rows: an array, a memory map, sparse, a frame or a `PoolFile`.
        exclude
            Ids of rows not to suggest: labelled or asked already. They must be in the pool.
        ids
            Distinct ids of the rows; positions by default. `rows` is another name for it.
        round
            The round, from 0; the number of labelled rows by default.
        fidelity
            Retrain this many candidates and report the agreement. Needs a goal.
        engine
            How the pool is read: `Memory()`, or one of `gw.scale`.
        costs, budget
            (N,) prices above 0, and the budget of this batch: see `gw.selection.PerCost`.
        """
        names = rows if ids is None else ids
        request = Request.of(fitted, X_pool, batch, exclude, names, round, fidelity, costs, budget)
        reader = Memory() if engine is None else engine
        if isinstance(reader, type) or not callable(getattr(reader, "scan", None)):
            raise BadParameter(
                f"engine must be an engine such as gw.scale.Threads(n_jobs=2), got {engine!r}. Leave it "
                "out to read the pool in memory."
            )
        if not request.left:
            none, unseen = np.empty(0, np.int64), np.full(len(request.pool), np.nan)
            note = f"No row is left of {len(request.pool):,}."
            return Suggestion(request.names(none), unseen if reader.whole else None, says=note)
        part = self.turn(request.fitted, request.turn)
        if request.fitted.model.predict_only:
            if not part.only_predicts:
                raise Unsupported(
                    f"{type(part).__name__} needs the rows that the model was fitted to, got a classifier "
                    "alone. Use gw.suggest(model, X_labelled, y_labelled, X_pool), or Margin, Entropy, "
                    "LeastConfident or Random, which need its predictions only."
                )
        elif not (part.starts or request.fitted.has_two_classes):
            from goalward.strategies.combined import cold_start

            part = cold_start(request.pool.source, seed=self.seed)
        suggestion = part.choose(request, reader)
        short = ""
        if request.left < request.asked and request.costs is None:
            short = f", all that are left: {request.asked:,} were asked for"
        predicted = partial(request.predicted, suggestion.positions)
        return replace(suggestion, says=f"{suggestion.says}{short}.", predicted=predicted)
