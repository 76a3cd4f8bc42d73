"""The charts of a page: small, light or dark."""

from __future__ import annotations

import threading
from collections.abc import Callable
from io import BytesIO
from typing import Any, Literal, NamedTuple

import numpy as np
from matplotlib import rc_context
from matplotlib.ticker import MaxNLocator

from goalward.plots import figure, quiet
from goalward.study import State
from goalward.study.reports import curve

__all__ = ["Chart", "Charts", "Look"]

SIZE = (3.0, 1.65)
BINS = 24


Chart = Literal["learning", "goal", "utilities"]
Look = Literal["light", "dark"]


class Theme(NamedTuple):
    """Colours of a chart: words, lines behind, and the one that carries data."""

    ink: str
    grid: str
    accent: str


THEMES: dict[Look, Theme] = {
    "light": Theme("#5b6472", "#e4e7ec", "#2f5fd0"),
    "dark": Theme("#a3adbd", "#2c3442", "#8fb0ff"),
}


class Charts:
    """SVG files by chart and look, drawn once for each ranking."""

    def __init__(self) -> None:
        # matplotlib's settings are the whole process's: one drawing at a time.
        self._lock = threading.Lock()
        self._drawn: dict[tuple[Chart, Look], tuple[int, bytes]] = {}

    def draw(self, state: State, chart: Chart, look: Look) -> bytes:
        """Return a chart of a state as SVG."""
        ranking = state.rounds[-1][0] if state.rounds else 0
        with self._lock:
            drawn, content = self._drawn.get((chart, look), (-1, b""))
            if drawn != ranking:
                content = _svg(state, FIGURES[chart], THEMES[look])
                self._drawn[chart, look] = ranking, content
            return content


def _learning(axes: Any, state: State, theme: Theme) -> None:
    """Draw accuracy against labels; what was measured differently is a line of its own."""
    rounds = curve(state)
    for metric, style in (("cross-validated", "--"), ("dev", "-")):
        measured = [line for line in rounds if line["metric"] == metric]
        _line(axes, measured, "accuracy", theme, style)
    axes.set(xlabel="labels bought", ylabel="accuracy")
    low = min((r["accuracy"] for r in rounds if r["accuracy"] is not None), default=0.0)
    axes.set_ylim(max(0.0, min(low, 0.9) - 0.05), 1.02)


def _goal(axes: Any, state: State, theme: Theme) -> None:
    """Draw the goal per row against labels; it has another scale once there are dev labels."""
    rounds = curve(state)
    on_dev = bool(rounds) and rounds[-1]["metric"] == "dev"
    measured = [
        line for line in rounds if line["goal"] is not None and (line["metric"] == "dev") == on_dev
    ]
    _line(axes, measured, "goal", theme, "-")
    axes.set(xlabel="labels bought", ylabel="goal per row")


def _utilities(axes: Any, state: State, theme: Theme) -> None:
    """Draw how the scores of the open rows are spread, and where the next rows lie."""
    ranking = state.ranking
    if ranking is not None and ranking.quantiles:
        # Quantiles at equal steps are a small sample of all scores.
        steps = np.linspace(0.0, 1.0, len(ranking.quantiles))
        sample = np.interp(np.linspace(0.0, 1.0, 4001), steps, ranking.quantiles)
        percent = np.full_like(sample, 100 / len(sample))
        axes.hist(sample, BINS, weights=percent, color=theme.accent, alpha=0.55, linewidth=0)
        for value in ranking.utilities[: state.settings.refit]:
            axes.axvline(value, ymax=0.12, color=theme.ink, linewidth=1.1)
    axes.set(xlabel="score of open rows", ylabel="% of rows")
    axes.xaxis.set_major_locator(MaxNLocator(4))


FIGURES: dict[Chart, Callable[[Any, State, Theme], None]] = {
    "learning": _learning,
    "goal": _goal,
    "utilities": _utilities,
}


def _svg(state: State, draw: Callable[[Any, State, Theme], None], theme: Theme) -> bytes:
    """Return a figure as SVG without background, whose words stay words in the reader's type."""
    canvas = figure(*SIZE)
    axes: Any = canvas.subplots()
    quiet(axes)
    axes.grid(color=theme.grid, linewidth=0.8)
    for spine in axes.spines.values():
        spine.set_color(theme.grid)
    axes.tick_params(colors=theme.ink, labelsize=8, length=0)
    for axis in (axes.xaxis, axes.yaxis):
        axis.label.set(color=theme.ink, fontsize=8)
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    draw(axes, state, theme)
    out = BytesIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "goalward"}):
        canvas.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    return out.getvalue()


def _line(axes: Any, rounds: list[dict[str, Any]], name: str, theme: Theme, style: str) -> None:
    if not rounds:
        return
    bought = [line["labels"] + line["dev_labels"] for line in rounds]
    values = [line[name] for line in rounds]
    axes.plot(bought, values, style, color=theme.accent, linewidth=1.8, solid_capstyle="round")
    axes.plot(bought[-1:], values[-1:], "o", color=theme.accent, markersize=4.5)
