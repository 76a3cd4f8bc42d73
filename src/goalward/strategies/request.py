"""What is asked of a strategy: which rows of which pool, checked at the door."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import to_numpy
from goalward.core.candidates import Candidates
from goalward.core.place import in_place
from goalward.core.pool import Pool, as_pool
from goalward.errors import BadParameter, DuplicateRows, PoolExhausted, ShapeMismatch
from goalward.models import Fitted
from goalward.models.refitted import that_predicts

__all__ = ["Request", "as_strategy", "check_count", "nameless"]


@dataclass(frozen=True, eq=False)
class Request:
    """A batch of rows wanted from a pool, in one round.

    Parameters
    ----------
    ids
        What rows are called; None where they are known by their positions.
    excluded
        Sorted positions of rows not to suggest.
    round
        Schedules and draws follow it.
    fidelity
        Candidates to retrain for a comparison.
    asked
        Rows that were asked for; `batch` is no more than are left.
    turn
        Whose turn it is among strategies in turn follows it: the round, counted in batches.
    renamed
        Whether the ids are other ones than the pool itself has.
    costs, budget
        What each row costs, where rows have a price, and what may be spent; then `batch` is the most
        rows that are wanted.
    """

    fitted: Fitted
    pool: Pool
    batch: int
    ids: NDArray[Any] | None
    excluded: NDArray[Any]
    round: int = 0
    fidelity: int = 0
    renamed: bool = False
    costs: NDArray[Any] | None = None
    budget: float = math.inf
    turn: int = 0
    asked: int = 0

    @classmethod
    def of(
        cls,
        fitted: Any,
        X_pool: Any,
        batch: Any,
        exclude: Iterable[Any] = (),
        rows: Any = None,
        round: int | None = None,
        fidelity: int = 0,
        costs: Any = None,
        budget: Any = None,
    ) -> Request:
        """Return what was asked for, once it is known to make sense."""
        model, pool = that_predicts(fitted), as_pool(X_pool)
        ids = pool.ids() if rows is None else clean_ids(rows, len(pool))
        excluded = excluded_positions(ids, exclude, len(pool))
        check_count("batch", batch)
        prices, most = clean_costs(costs, budget, len(pool))
        if prices is not None:
            excluded = _too_dear(prices, most, excluded)
        # Without a number, what changes from round to round follows the labels that there are.
        known = len(model.labelled)
        number, turn = (known, known // batch) if round is None else (round, round)
        given = (fidelity, rows is not None, prices, most, turn, int(batch))
        return cls(
            model, pool, min(int(batch), len(pool) - len(excluded)), ids, excluded, number, *given
        )

    @property
    def left(self) -> int:
        """How many rows may be suggested."""
        return len(self.pool) - len(self.excluded)

    @property
    def free(self) -> NDArray[Any]:
        """Sorted positions of the rows that may be suggested."""
        return np.delete(np.arange(len(self.pool)), self.excluded)

    def names(self, positions: NDArray[Any]) -> NDArray[Any]:
        """Return the ids of rows at some positions."""
        return positions if self.ids is None else self.ids[positions]

    def read(self, positions: NDArray[Any]) -> Candidates:
        """Return rows at some positions as the model sees them."""
        X = self.fitted.features(self.pool.take(positions), "X_pool")
        return Candidates(self.names(positions), X, self.fitted.proba_of)

    def predicted(self, positions: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Return what the model says of rows at some positions; nothing before it knows two classes."""
        if not (self.fitted.told or self.fitted.model.elsewhere):
            return {}
        proba = to_numpy(self.read(positions).proba)
        says = self.fitted.classes[proba.argmax(axis=1)]
        return {"the model says": says, "probability": proba.max(axis=1, initial=0.0)}

    def narrowed(self, positions: NDArray[Any]) -> Request:
        """Return the same request of a few free rows alone."""
        few, nothing = as_pool(self.pool.take(positions)), np.empty(0, dtype=np.int64)
        costs = None if self.costs is None else self.costs[positions]
        return replace(self, pool=few, ids=self.names(positions), excluded=nothing, costs=costs)


def check_count(name: str, value: Any) -> None:
    """Raise unless a parameter is a whole number of at least 1."""
    if type(value) is bool or not isinstance(value, Integral) or int(value) < 1:
        raise BadParameter(
            f"{name}={value!r}; a whole number of at least 1 was expected. Use {name}=10, say."
        )


def clean_costs(costs: Any, budget: Any, total: int) -> tuple[NDArray[Any] | None, float]:
    """Return a price for each row, above 0, and what may be spent; None where rows have no price."""
    if budget is not None and (costs is None or isinstance(budget, bool) or not budget > 0):
        raise BadParameter(
            f"budget={budget!r} came {'without costs' if costs is None else 'with costs'}; a number above "
            "0, in the unit of costs=, was expected. Without prices, batch says how many rows."
        )
    if costs is None:
        return None, math.inf
    try:
        prices = np.asarray(costs, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise BadParameter(
            f"costs are no numbers ({error}); the price of each row of the pool was expected."
        ) from error
    if prices.shape != (total,):
        raise ShapeMismatch(
            f"costs has shape {prices.shape}; ({total},), a price for each row of the pool, was "
            "expected. Pass one price per row, in the order of the pool."
        )
    bad = np.flatnonzero(~((prices > 0.0) & np.isfinite(prices)))
    if len(bad):
        raise BadParameter(
            f"costs[{bad[0]}] is {prices[bad[0]]} ({len(bad)} such); a finite price above 0 was expected. "
            "Give what is free a small price, and name what cannot be bought in exclude."
        )
    return prices, math.inf if budget is None else float(budget)


def _too_dear(prices: NDArray[Any], budget: float, excluded: NDArray[Any]) -> NDArray[Any]:
    """Return the excluded rows, and those that the budget alone excludes."""
    dear = np.union1d(excluded, np.flatnonzero(prices > budget))
    if len(dear) == len(prices) > len(excluded):
        least = np.delete(prices, excluded).min()
        raise PoolExhausted(
            f"budget={budget:g} pays for no row; the cheapest costs {least:g}. Raise the budget."
        )
    return dear


def clean_ids(rows: Any, total: int) -> NDArray[Any]:
    """Return ids as they came: an array of one type, or of objects where types are mixed."""
    ids = rows if isinstance(rows, np.ndarray) else _as_objects(list(rows))
    if ids.shape != (total,):
        raise ShapeMismatch(
            f"rows has shape {ids.shape}; ({total},), an id for each row of the pool, was "
            "expected. Pass one id per row."
        )
    listed = ids.tolist()
    if len(set(listed)) < total:
        twice = next(i for i, n in Counter(listed).items() if n > 1)
        raise DuplicateRows(
            f"Row id {twice!r} stands {listed.count(twice)} times; distinct ids were expected. "
            "Drop the repeated rows or number them anew."
        )
    return ids


def nameless(where: str, total: int) -> NDArray[Any]:
    """Return ids of rows that another library has not named: what looks rows up finds none.

    Their positions would do until the pool shrinks, and then find the labels of other rows.
    """
    return np.array([f"{where}[{i}]" for i in range(total)])


def _as_objects(listed: list[Any]) -> NDArray[Any]:
    """Return a list as an array that keeps every element what it is."""
    one_type = len({type(value) for value in listed}) == 1
    if one_type and isinstance(listed[0], (bool, int, float, str, np.generic)):
        return np.array(listed)
    array = np.empty(len(listed), dtype=object)
    array[:] = listed
    return array


def excluded_positions(
    ids: NDArray[Any] | None, exclude: Iterable[Any], total: int
) -> NDArray[Any]:
    """Return the sorted positions of rows that must not be suggested."""
    listed = exclude.tolist() if isinstance(exclude, np.ndarray) else list(exclude)
    if not listed:
        return np.empty(0, dtype=np.int64)
    flags = sum(isinstance(row, (bool, np.bool_)) for row in listed)
    # True equals 1 to Python, and names no row unless an id is a boolean too.
    if flags and (ids is None or not any(isinstance(known, bool) for known in ids.tolist())):
        came = "is a mask of" if flags == len(listed) else f"has {len(listed)} entries, among them"
        raise BadParameter(
            f"exclude {came} {flags} booleans; ids of rows were expected. Pass np.flatnonzero(mask), or "
            "the ids at the mask."
        )
    known: Any = range(total) if ids is None else {row: i for i, row in enumerate(ids.tolist())}
    unknown = [row for row in listed if row not in known]
    if unknown:
        example = 0 if ids is None or not total else ids.tolist()[0]
        raise BadParameter(
            f"exclude names {len(unknown)} rows that are not in the pool, the first {unknown[0]!r} "
            f"({type(unknown[0]).__name__}); ids of the pool, like {example!r}, were "
            "expected. Pass positions in the pool, or rows= with the ids that exclude names."
        )
    positions = listed if ids is None else [known[row] for row in listed]
    return np.unique(np.asarray(positions, dtype=np.int64))


def as_strategy(part: Any, name: str) -> Any:
    """Return a part of another strategy; words of recipes stand for those that need no data."""
    from goalward.strategies.recipes import recipe

    if isinstance(part, str):
        return recipe(part).build()
    in_place(part, name, "gw.strategies.Margin() or 'margin'", "turn")
    return part
