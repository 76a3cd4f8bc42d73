"""Measure where stopping rules end simulated sessions, and write the table of docs/stopping.md.

Run from the repository: `python scripts/stopping_table.py`, about five minutes on two cores. The
rounds stay in out/stopping, so that a second run only counts again.
"""

import sys
from pathlib import Path

import polars as pl

from goalward.lab import simulate, stops, stops_summary
from goalward.lab.datasets import load

PAGE = Path(__file__).parents[1] / "docs/stopping.md"
BEGIN, END = "<!-- table: scripts/stopping_table.py -->", "<!-- end of table -->"
DATASETS = {"digits": 400, "breast-cancer": 300, "wine": 110}
STRATEGIES = {"hedged": "hedged", "dev goal": "dev/spread/first-order/sequential-curvature"}
SEEDS, PRICE = 5, 0.0002


def measured(seeds=SEEDS, datasets=DATASETS, out=Path("out/stopping")):
    found = []
    for name, budget in datasets.items():
        data = load(name)
        curves = simulate(data, STRATEGIES, batch=10, budget=budget, seeds=seeds, out=out / name)
        found.append(stops(curves, data, price=PRICE))
    return stops_summary(pl.concat(found))


def written(summary):
    lines = [
        "| dataset, strategy | rule | stopped | labels, of all | accuracy | lost | lost, worst |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in summary.iter_rows(named=True):
        lines.append(
            f"| {r['dataset']}, {r['strategy']} | {r['rule']} | {r['stopped']} of {r['seeds']} | "
            f"{r['labels']:.0f} of {r['of']:.0f} | {r['accuracy']:.3f} | {r['lost']:.3f} | "
            f"{r['worst_lost']:.3f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    table = written(measured())
    text = PAGE.read_text("utf-8")
    if BEGIN not in text:
        sys.exit(f"{PAGE} has no line {BEGIN}")
    head, rest = text.split(BEGIN)
    PAGE.write_text(f"{head}{BEGIN}\n\n{table}\n\n{END}{rest.split(END)[1]}", "utf-8")
    print(table)
