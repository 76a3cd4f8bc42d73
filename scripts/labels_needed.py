"""Draw docs/figures/labels-needed.png: `python scripts/labels_needed.py [PNG]`. Minutes.

Test accuracy of the recommended strategy and of random order against the labels bought, on
scikit-learn's digits, ten paired splits; the arrow is where both reach 94 %.
"""

import sys
from pathlib import Path

import numpy as np

from goalward.lab import simulate
from goalward.lab.datasets import load
from goalward.plots import figure, quiet

LEVEL, SEEDS, BUDGET = 0.94, 10, 400
LOOKS = {"hedged": ("#0072b2", "the recommended order"), "random": ("#d55e00", "a random order")}


def main(path: Path) -> None:
    """Simulate, draw, and print what the arrow says."""
    digits = load("digits")
    given = len(digits.split(0).init)  # charged too
    curves = simulate(digits, list(LOOKS), seeds=SEEDS, budget=BUDGET, batch=10, progress=False)
    canvas = figure(7.2, 3.6)
    axes = canvas.subplots()
    quiet(axes)
    needed = {}
    for name, (colour, words) in LOOKS.items():
        bought, accuracy = curves.curve(name)
        bought, mean = bought + given, accuracy.mean(axis=0)
        low, high = np.quantile(accuracy, [0.1, 0.9], axis=0)
        axes.fill_between(bought, low, high, color=colour, alpha=0.15, linewidth=0)
        style = "-" if name == "hedged" else "--"
        axes.plot(bought, mean, style, color=colour, linewidth=2.2, label=words)
        # Where it is first reached: a mean of ten splits still goes up and down a little.
        needed[name] = float(np.interp(LEVEL, np.maximum.accumulate(mean), bought))
    print({name: round(n) for name, n in needed.items()})
    few, many = needed["hedged"], needed["random"]
    axes.annotate(
        "", (few, LEVEL), (many, LEVEL), arrowprops={"arrowstyle": "->", "color": "#444444"}
    )
    said = f"{round(few)} labels instead of {round(many)}"
    middle, thin = (few + many) / 2, {"arrowstyle": "-", "color": "#888888", "linewidth": 0.8}
    axes.annotate(said, (middle, LEVEL), (middle, 0.87), ha="center", arrowprops=thin)
    axes.legend(loc="lower right", frameon=False)
    axes.set(xlabel="labels", ylabel="accuracy on rows never asked", xlim=(0, BUDGET))
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    canvas.savefig(path)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/figures/labels-needed.png"))
