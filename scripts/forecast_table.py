"""Print how often the forecast's interval holds the truth; --write takes the runs into the package.

After `goalward benchmark`, whose folder is given: `python scripts/forecast_table.py out/benchmark`.
Each run is foretold with its own dataset left out, from accuracies as they were on held-out rows, and
from accuracies measured on 50 rows.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from goalward.lab.benchmark.plan import Part
from goalward.lab.benchmark.sessions import key_of
from goalward.lab.datasets.collection import CONFIRM, DESIGN
from goalward.stopping.forecasts import STEP, Run, end_of_rise, forecast
from goalward.strategies.recipe_names import RECOMMENDED

ROOT = Path(__file__).resolve().parents[1]
SEEDS = 2
MEASURED_ON = 50


def runs_of(folder: Path) -> list[Run]:
    """Return the runs of the recommended strategy under the main rules."""
    jobs = Part((*DESIGN, *CONFIRM), (RECOMMENDED,), seeds=SEEDS).jobs()
    lines = map(json.loads, (folder / "sessions.jsonl").read_text().splitlines())
    kept = {line["key"]: line["curve"] for line in lines}
    return [Run(job.dataset, np.array(kept[key_of(job)])) for job in jobs]


def judged(runs: list[Run], names: tuple[str, ...], noise: int | None) -> list[tuple[bool, float]]:
    """Return for each moment of each run whether the interval held the truth, and its width."""
    rng = np.random.default_rng(0)
    found = []
    for run in runs:
        others = [one for one in runs if one.dataset != run.dataset]
        for now in range(3, len(run.curve) - 5, 2):
            seen = run.curve[1 : now + 1]
            spread = 0.0
            if noise:
                spread = float(np.sqrt(seen[-1] * (1 - seen[-1]) / noise))
                seen = rng.binomial(noise, seen) / noise
            ahead = forecast(
                list(range(STEP, STEP * (now + 1), STEP)), seen, spread=spread, runs=others
            )
            if ahead is None or run.dataset not in names:
                continue
            truth = STEP * (end_of_rise(run.curve, now) - now)
            low, high = (np.inf if end is None else end for end in (ahead.low, ahead.high))
            found.append((low <= truth <= high, min(high, 150.0) - min(low, 150.0)))
    return found


def main() -> None:
    """Print the table."""
    runs = runs_of(Path(sys.argv[1]))
    if "--write" in sys.argv:
        lines = [",".join([run.dataset, *(f"{right:g}" for right in run.curve)]) for run in runs]
        path = ROOT / "src" / "goalward" / "stopping" / "kin.csv"
        path.write_text("\n".join(lines) + "\n")
    print("| datasets | accuracy measured on | forecasts | in the interval | mean width, labels |")
    print("|---|---|---|---|---|")
    for title, names in (("design", DESIGN), ("confirmation", CONFIRM)):
        for noise, rows in ((None, "all held-out rows"), (MEASURED_ON, f"{MEASURED_ON} rows")):
            found = judged(runs, names, noise)
            held, width = np.mean(found, axis=0)
            print(f"| {title} | {rows} | {len(found)} | {held:.0%} | {width:.0f} |")


if __name__ == "__main__":
    main()
