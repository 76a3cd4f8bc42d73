"""The charts of a page, drawn once for each ranking."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from enum import StrEnum

from matplotlib.figure import Figure

from goalward.plots.labelling import (
    THEMES,
    Theme,
    goal_figure,
    learning_figure,
    svg,
    utilities_figure,
)
from goalward.study import State
from goalward.study.advice import curve

__all__ = ["Chart", "Charts", "Look"]


class Chart(StrEnum):
    """Which chart."""

    learning = "learning"
    goal = "goal"
    utilities = "utilities"


class Look(StrEnum):
    """Light or dark."""

    light = "light"
    dark = "dark"


class Charts:
    """SVG files by chart, look and ranking; the newest are kept."""

    KEPT = 24

    def __init__(self) -> None:
        # matplotlib's settings are the whole process's: one drawing at a time.
        self._lock = threading.Lock()
        self._drawn: OrderedDict[tuple[str, str, int], bytes] = OrderedDict()

    def draw(self, state: State, chart: Chart, look: Look) -> bytes:
        """Return a chart of a state as SVG."""
        key = (chart.value, look.value, state.rounds[-1][0] if state.rounds else 0)
        with self._lock:
            if key not in self._drawn:
                self._drawn[key] = svg(FIGURES[chart](state, THEMES[look.value]))
                while len(self._drawn) > self.KEPT:
                    self._drawn.popitem(last=False)
            return self._drawn[key]


def _utilities(state: State, theme: Theme) -> Figure:
    ranking = state.ranking
    if ranking is None:
        return utilities_figure((), (), theme)
    return utilities_figure(ranking.quantiles, ranking.utilities[: state.settings.refit], theme)


FIGURES: dict[Chart, Callable[[State, Theme], Figure]] = {
    Chart.learning: lambda state, theme: learning_figure(curve(state), theme),
    Chart.goal: lambda state, theme: goal_figure(curve(state), theme),
    Chart.utilities: _utilities,
}
