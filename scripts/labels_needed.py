"""Draw docs/figures/labels-needed.png: `python scripts/labels_needed.py [PNG]`. Minutes.

Test accuracy of the recommended strategy, of margin and of random order against the labels bought,
on scikit-learn's digits, ten paired splits; the line is where each reaches 94 %.
"""

import sys
from pathlib import Path

import numpy as np

from goalward.lab import simulate
from goalward.lab.datasets import load
from goalward.lab.plots import figure, quiet

LEVEL, SEEDS, BUDGET = 0.94, 10, 400
LOOKS = {
    "hedged": ("#0072b2", "-", "recommended"),
    "margin": ("#009e73", "-.", "margin"),
    "random": ("#d55e00", "--", "random"),
}


def main(path: Path) -> None:
    """Simulate, draw, and print the labels that each order needs."""
    digits = load("digits")
    given = len(digits.split(0).init)  # charged too
    curves = simulate(digits, list(LOOKS), seeds=SEEDS, budget=BUDGET, batch=10, progress=False)
    canvas = figure(7.2, 3.6)
    axes = canvas.subplots()
    quiet(axes)
    needed = {}
    for name, (colour, style, words) in LOOKS.items():
        bought, accuracy = curves.curve(name)
        bought, mean = bought + given, accuracy.mean(axis=0)
        low, high = np.quantile(accuracy, [0.1, 0.9], axis=0)
        axes.fill_between(bought, low, high, color=colour, alpha=0.12, linewidth=0)
        # Where it is first reached: a mean of ten splits still goes up and down a little.
        needed[name] = float(np.interp(LEVEL, np.maximum.accumulate(mean), bought))
        label = f"{words}: {round(needed[name])} labels for 94 %"
        axes.plot(bought, mean, style, color=colour, linewidth=2.0, label=label)
        axes.plot(needed[name], LEVEL, "o", color=colour, markersize=5)
    print({name: round(n) for name, n in needed.items()})
    axes.axhline(LEVEL, color="#888888", linewidth=0.8, zorder=0)
    axes.legend(loc="lower right", frameon=False)
    axes.set(xlabel="labels", ylabel="accuracy on rows never asked", xlim=(0, BUDGET))
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    canvas.savefig(path)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/figures/labels-needed.png"))
