"""Draw docs/figures/performance.png from docs/performance.csv: `python scripts/performance_figure.py`.

Each line of the table for which something was asked: the cost measured, as a share of what was
asked. To the right of 1 it is missed.
"""

import re
import sys
from pathlib import Path

import polars as pl

from goalward.lab.plots import figure, quiet

TABLE = Path(__file__).parents[1] / "docs/performance.csv"


def number(text: str) -> float:
    """Return the number that a cell begins with, after a sign of comparison."""
    return float(re.search(r"[\d,.]+(?:e[+-]?\d+)?", text)[0].replace(",", ""))


def main(path: Path) -> None:
    """Read, draw, save."""
    rows = pl.read_csv(TABLE, infer_schema=False).drop_nulls("asked")
    shares = []
    for work, against, measured, asked in rows.select(
        "work", "against", "measured", "asked"
    ).iter_rows():
        share = number(measured) / number(asked)
        words = f"{work} / {against}"
        shares.append((1 / share if asked[0] in ">≥" else share, words))
    shares.sort(reverse=True)
    canvas = figure(9.5, 0.2 * len(shares) + 0.9)
    axes = canvas.subplots()
    quiet(axes)
    for place, (share, _) in enumerate(shares):
        axes.plot(share, place, "o", color="#d55e00" if share > 1 else "#0072b2", markersize=5)
    axes.axvline(1, color="#888888", linewidth=0.8, zorder=0)
    names = [words if len(words) <= 78 else f"{words[:76]} …" for _, words in shares]
    axes.set_yticks(range(len(shares)), names, fontsize=7)
    axes.set_xscale("log")
    axes.set(xlabel="cost, as a share of what was asked", ylim=(-1, len(shares)))
    canvas.savefig(path)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/figures/performance.png"))
