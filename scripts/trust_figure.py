"""Draw docs/figures/trust.png from docs/trust.csv: `python scripts/trust_figure.py [PNG]`. Seconds.

One dot per dataset, a tenth of the answers measuring: what studies claim (across) and what was true
(upwards), in points of accuracy. Below the diagonal the claim is kept on average.
"""

import sys
from pathlib import Path

import polars as pl

from goalward.lab.plots import figure, quiet

TABLE = Path(__file__).parents[1] / "docs/trust.csv"
PANELS = (
    (pl.col("width") / 2, "off", "half the width at 100 answers", "accuracy was off by"),
    (pl.col("told"), "came", "gain of 100 answers, at most", "gain that came"),
)


def main(path: Path) -> None:
    """Read, draw, save."""
    rows = pl.read_csv(TABLE).filter(pl.col("kept"), pl.col("dataset") != "all")
    canvas = figure(7.2, 3.4)
    for axes, (said, true, across, upwards) in zip(canvas.subplots(1, 2), PANELS, strict=True):
        quiet(axes)
        found = rows.select("dataset", x=100 * said, y=100 * pl.col(true))
        most = max(found["x"].max(), found["y"].max()) * 1.05
        axes.plot([0, most], [0, most], color="#888888", linewidth=0.8, zorder=0)
        axes.plot(found["x"], found["y"], "o", color="#0072b2", markersize=5, alpha=0.7)
        for (name, x, y), below in zip(found.sort("y").tail(2).iter_rows(), (-11, 3), strict=True):
            place = {"textcoords": "offset points", "ha": "right", "fontsize": 8}
            axes.annotate(name, (x, y), (-5, below), **place)
        axes.set(xlabel=f"{across} (points)", ylabel=f"{upwards} (points)")
    canvas.savefig(path)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/figures/trust.png"))
