"""The look of every figure: colours that stay with their strategy, quiet axes, values on hovering."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator
from html import escape
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.extras import needing

with needing("A figure"):
    from matplotlib.collections import PathCollection
    from matplotlib.container import BarContainer
    from matplotlib.figure import Figure

__all__ = ["NotebookFigure", "colour", "figure", "progress", "quiet", "save"]

COLOURS = {
    "random": "#7f7f7f",
    "uncertainty": "#222222",
    "margin": "#222222",
    "oracle": "#2a9d4e",
    "average": "#1f6fb4",
    "min": "#d1495b",
    "max": "#e08e2b",
    "predicted": "#8e5ea2",
    "spread": "#17889b",
}
SPARE = ["#b15928", "#6a3d9a", "#5f7c2f", "#c2568f", "#3c5a99", "#8c6d31"]
MOST = 3000
"""Points of a figure that say their values; of more, every second or third does."""
HOVER = (
    ".gw-point circle{fill:transparent;stroke:none}.gw-point text{visibility:hidden;fill:#111;stroke:#fff;"
    "stroke-width:5px;stroke-linejoin:round;paint-order:stroke;pointer-events:none}"
    ".gw-point:hover circle{stroke:#111;stroke-width:2px}.gw-point:hover text{visibility:visible}"
)


class NotebookFigure(Figure):
    """A figure of matplotlib that a notebook shows with the values of its points, on hovering.

    Lines, scattered points and bars have them. Nothing else differs: it is drawn, saved and changed
    as any figure, and what a notebook is given is HTML without a script.

    Examples
    --------
    >>> fig = figure(3, 2)
    >>> _ = fig.subplots().plot([1, 2], [0.5, 0.75], label="margin")
    >>> "margin: 2, 0.75" in fig._repr_html_()
    True
    """

    def _repr_html_(self) -> str:
        drawn = BytesIO()
        # Points have their places after the layout, which this does.
        self.savefig(drawn, format="png", dpi=self.dpi)
        width, height = self.bbox.width, self.bbox.height
        points = [point for axes in self.axes for point in _points(axes)]
        marks = "".join(
            f'<g class="gw-point"><circle cx="{x:.1f}" cy="{height - y:.1f}" r="9"/>'
            f'<text x="{x:.1f}" y="{height - y + (-16 if height - y > 50 else 34):.1f}" '
            f'text-anchor="{"start" if x < width / 3 else "end" if x > width / 1.5 else "middle"}">'
            f"{escape(words)}</text></g>"
            for x, y, words in points[:: len(points) // MOST + 1]
        )
        # Where a notebook is not trusted, or printed, the picture is left.
        return (
            f'<div style="position:relative;max-width:{width / self.dpi:.2f}in"><img alt="" '
            f'style="width:100%" src="data:image/png;base64,{b64encode(drawn.getvalue()).decode()}">'
            f'<svg viewBox="0 0 {width:.0f} {height:.0f}" font-size="20" font-family="sans-serif" '
            f'style="position:absolute;left:0;top:0;width:100%"><style>{HOVER}</style>{marks}</svg></div>'
        )

    def _mime_(self) -> tuple[str, str]:
        """Return what marimo shows, which gives every figure a way of its own."""
        return "text/html", self._repr_html_()


def _points(axes: Any) -> Iterator[tuple[float, float, str]]:
    """Yield where the points of some axes are on the figure, and what they say."""
    lines = [line for line in axes.lines if line.get_transform() == axes.transData]
    dots = [made for made in axes.collections if isinstance(made, PathCollection)]
    bars = [made for made in axes.containers if isinstance(made, BarContainer)]
    drawn = [(one, one.get_xydata()) for one in lines] + [(one, one.get_offsets()) for one in dots]
    for artist, data in drawn + [(one, _tops(one)) for one in bars]:
        label = str(artist.get_label())
        name = "" if label.startswith("_") else f"{label}: "
        known = np.ma.getdata(data)[np.isfinite(np.ma.filled(data, np.nan)).all(axis=1)]
        for (x, y), (a, b) in zip(axes.transData.transform(known), known, strict=True):
            if axes.bbox.contains(x, y):
                said = (axes.format_xdata(a).strip(), axes.format_ydata(b).strip())
                yield x, y, name + ", ".join(re.sub(r"\.0+$", "", number) for number in said)


def _tops(bars: Any) -> NDArray[Any]:
    boxes = [bar.get_bbox() for bar in bars]
    return np.array([((box.x0 + box.x1) / 2, box.y1) for box in boxes]).reshape(-1, 2)


def colour(name: str) -> str:
    """Return the colour of a strategy: by its operator, or by its name."""
    words = re.findall(r"[^\s/:-]+", name.lower())
    for word in [*words[1:2], *words]:
        if word in COLOURS:
            return COLOURS[word]
    return SPARE[sum(map(ord, name)) % len(SPARE)]


def figure(width: float, height: float) -> NotebookFigure:
    """Return an empty figure that needs no display."""
    return NotebookFigure(figsize=(width, height), layout="constrained", dpi=150)


def progress(study: Any) -> NotebookFigure:
    """Draw how many rows the model of a study gets right, by the answers it had, with its interval."""
    known = [each for each in study.curve() if each["low"] is not None]
    x, right, low, high = ([e[k] for e in known] for k in ("bought", "accuracy", "low", "high"))
    fig = figure(6, 3.2)
    axes = fig.subplots()
    quiet(axes)
    axes.plot(x, right, color=COLOURS["average"], marker="o", ms=4, label="right")
    axes.fill_between(x, low, high, color=COLOURS["average"], alpha=0.15, lw=0)
    axes.locator_params(axis="x", integer=True)
    axes.set(xlabel="answers", ylabel="share of rows that are right")
    return fig


def quiet(axes: Any) -> None:
    """Take away what does not carry data."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="0.92", linewidth=0.8)
    axes.set_axisbelow(True)


def save(fig: Figure, path: Path) -> list[Path]:
    """Write a figure as PNG and SVG, and return the paths."""
    path.parent.mkdir(parents=True, exist_ok=True)
    paths = [path.with_suffix(".png"), path.with_suffix(".svg")]
    for one in paths:
        # No date inside: the same numbers give the same file.
        fig.savefig(one, metadata={"Date": None} if one.suffix == ".svg" else None)
    return paths
