"""The look of every figure: colours that stay with their strategy, quiet axes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from goalward.core.extras import needing

with needing("A figure"):
    from matplotlib.figure import Figure

__all__ = ["colour", "figure", "quiet", "save"]

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


def colour(name: str) -> str:
    """Return the colour of a strategy: by its operator, or by its name."""
    words = re.findall(r"[^\s/:-]+", name.lower())
    for word in [*words[1:2], *words]:
        if word in COLOURS:
            return COLOURS[word]
    return SPARE[sum(map(ord, name)) % len(SPARE)]


def figure(width: float, height: float) -> Figure:
    """Return an empty figure that needs no display."""
    return Figure(figsize=(width, height), layout="constrained", dpi=150)


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
