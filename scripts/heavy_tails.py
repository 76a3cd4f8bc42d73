"""Whether heavy tails are why margin is ahead on spambase: `python scripts/heavy_tails.py`.

The benchmark's sessions on spambase as it is and with logarithms of its counts; a minute.
"""

from dataclasses import replace

import numpy as np
from sklearn.preprocessing import scale
from threadpoolctl import threadpool_limits

from goalward.lab.benchmark import Areas, Protocol, play
from goalward.lab.datasets import load
from goalward.lab.datasets.keel import table
from goalward.lab.statistics import bootstrap

SEEDS = 10
NAMES = ("decision-risk", "margin", "bait")


def main() -> None:
    """Print areas under the accuracy curve, and how far decision-risk is ahead of margin."""
    plain, rules = load("spambase"), Protocol()
    # Shares of words in percent, and run lengths: tenths are the smallest steps.
    logs = replace(plain, name="logarithms", X=scale(np.log1p(10 * table("spambase")[0])))
    for data in (plain, logs):
        with threadpool_limits(limits=1):
            sessions = [
                play(rules.conditions(data), name, seed, rules)
                for seed in range(SEEDS)
                for name in NAMES
            ]
        results = Areas.of(sessions)
        areas = dict(zip(results.strategies, results.seeds()[:, 0], strict=True))
        mean, low, high = bootstrap(areas["decision-risk"] - areas["margin"])
        shown = ", ".join(f"{name} {area.mean():.4f}" for name, area in areas.items())
        print(f"{data.name}: {shown}; ahead of margin by {mean:.4f} [{low:.4f}, {high:.4f}]")


if __name__ == "__main__":
    main()
