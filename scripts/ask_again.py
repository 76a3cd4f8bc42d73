"""Accuracy per answer, with people who are often wrong: asking rows again, or never.

Studies of real data are played by simulated annotators. `single` takes every answer as it comes,
`twice` has every row answered by two people, and `again` asks a row again where that is worth more
than a new one. Prints, for each dataset and kind of people, test accuracy after so many answers, and
the mean difference to `single` with its standard error over the seeds.

    python scripts/ask_again.py --seeds 4 --answers 150
"""

from __future__ import annotations

import argparse
import tempfile
import warnings

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import train_test_split

import goalward as gw

DATA = {"breast-cancer": load_breast_cancer, "digits": load_digits}
PEOPLE = {
    "all 30 % wrong": (0.7,) * 5,
    "three good, two guess": (0.95, 0.95, 0.95, 0.4, 0.4),
}
WAYS = {
    "single": {"answers": 1},
    "twice": {"answers": 2},
    "again": {"answers": 1, "again": True},
}


def played(name: str, people: tuple[float, ...], way: str, seed: int, most: int) -> list[float]:
    """Return test accuracy after each tenth of the answers."""
    X, y = DATA[name](return_X_y=True)
    X = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.4, random_state=seed, stratify=y)
    rng = np.random.default_rng(seed)
    classes = list(range(int(y.max()) + 1))
    found = []
    with (
        tempfile.TemporaryDirectory() as folder,
        gw.Study.create(
            f"{folder}/s.db", pool=X, classes=classes, dev=0, seed=seed, **WAYS[way]
        ) as study,
    ):
        for turn in range(most):
            who = int(rng.integers(len(people)))
            row = study.ask(1, by=f"p{who}", resume=True)[0]
            right = rng.random() < people[who]
            wrong = (y[row] + rng.integers(1, len(classes))) % len(classes)
            study.tell(row, int(y[row] if right else wrong), by=f"p{who}")
            if (turn + 1) % (most // 10) == 0:
                known = len(set(study.state.labels.values())) > 1
                said = study.predict(X_test).labels if known else np.full(len(y_test), y[0])
                found.append(float(np.mean(said == y_test)))
    return found


def main() -> None:
    """Play and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--answers", type=int, default=150)
    parser.add_argument("--data", nargs="*", default=list(DATA))
    parser.add_argument("--people", nargs="*", default=list(PEOPLE))
    parser.add_argument("--ways", nargs="*", default=list(WAYS), help="the first is compared with")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in given.data:
        for kind in given.people:
            curves = {
                way: np.array(
                    [played(name, PEOPLE[kind], way, s, given.answers) for s in range(given.seeds)]
                )
                for way in given.ways
            }
            for way, curve in curves.items():
                gap = curve.mean(axis=1) - curves[given.ways[0]].mean(axis=1)
                error = gap.std(ddof=1) / len(gap) ** 0.5 if len(gap) > 1 else float("nan")
                shown = " ".join(f"{value:.3f}" for value in curve.mean(axis=0))
                print(
                    f"{name:14} {kind:22} {way:7} {shown} | {gap.mean():+.3f} ± {error:.3f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
