"""What the rows of a study cost: a column of its table."""

from __future__ import annotations

import math
from typing import Any

import polars as pl
from numpy.typing import NDArray

from goalward.errors import BadParameter
from goalward.strategies.strategy import clean_costs
from goalward.studio.study.pools import StudyPool
from goalward.studio.study.state import State
from goalward.studio.tables.cells import listed
from goalward.studio.tables.table import named_table


def prices(pool: StudyPool, column: str | None) -> NDArray[Any] | None:
    """Return what each row costs; None where no column is named."""
    if column is None:
        return None
    return _numbers(None if pool.table is None else pool.table.frame, column)


def check_prices(pool: Any, column: str | None) -> None:
    """Refuse a column of costs that what a study is made of does not have, or that holds no prices."""
    if column is not None:
        table = named_table(pool)
        _numbers(table.read() if table else None, column)


def spent(state: State, pool: StudyPool) -> float | None:
    """Return what all answers cost, each of several to a row; None without prices."""
    costs = prices(pool, state.settings.costs)
    if costs is None:
        return None
    return math.fsum(costs[state.columns.row[state.columns.answers]])


def _numbers(frame: pl.DataFrame | None, column: str) -> NDArray[Any] | None:
    if frame is None or column not in frame.columns:
        there = "no columns" if frame is None else f"the columns {listed(frame.columns)}"
        raise BadParameter(
            f"costs={column!r} came, and the rows have {there}; a column of their table with what each row "
            "costs was expected. Name one that is there, or leave costs out."
        )
    return clean_costs(frame[column].cast(pl.Float64, strict=False), None, frame.height)[0]
