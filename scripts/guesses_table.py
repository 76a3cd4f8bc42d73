"""Write the table of docs/how-to/guesses.md: labels saved by guesses, and what bad ones cost.

Run from the repository: `python scripts/guesses_table.py [SEEDS]`, a quarter of an hour for three seeds. Needs
the data of `goalward benchmark`.
"""

import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.stats import t
from sklearn.cluster import KMeans

import goalward as gw
from goalward.core.threads import one_blas_thread
from goalward.lab import Session
from goalward.lab.datasets import load
from goalward.lab.session import measure

PAGE = Path(__file__).parents[1] / "docs/how-to/guesses.md"
BEGIN, END = "<!-- table: scripts/guesses_table.py -->", "<!-- end of table -->"
TEXT = ("rt-polarity:minilm", "subj", "trec")
SETS = (*TEXT, "breast-cancer", "spambase", "german", "digits", "segment", "vehicle", "satimage")
GUESSERS = (
    ("80 %, anywhere", 0.8, "anywhere"),
    ("80 %, by class", 0.8, "by class"),
    ("80 %, by region", 0.8, "by region"),
    ("50 %, anywhere", 0.5, "anywhere"),
    ("50 %, by region", 0.5, "by region"),
)
BATCH, BUDGET, REGIONS = 20, 100, 12


def guessed(X, y, right, where, rng):
    """Return guesses of which a share is right; where they are not, any other class, or the next."""
    classes, codes = np.unique(y, return_inverse=True)
    K, other = len(classes), rng.integers(1, len(classes), len(y))
    wrong = np.full(len(y), 1.0 - right)
    if where == "by class":
        late = codes >= K // 2
        wrong, other = late * (1.0 - right) / late.mean(), np.ones(len(y), dtype=int)
    if where == "by region":
        region = KMeans(REGIONS, n_init=1, random_state=0).fit_predict(X)
        order = rng.permutation(REGIONS)
        size = np.bincount(region, minlength=REGIONS)[order] / len(y)
        # Whole regions are wrong, and a part of the last one.
        part = np.clip((1.0 - right - (np.cumsum(size) - size)) / size, 0.0, 1.0)
        wrong = part[np.argsort(order)][region]
    return classes[np.where(rng.random(len(y)) < wrong, (codes + other) % K, codes)]


def curve(data, seed, guesser=None):
    """Return the accuracy on rows that nobody guessed, after 0, 20, ... labels."""
    pool, learner = data.split(seed).pool, gw.Logistic("loo")
    if guesser is not None:
        rng = np.random.default_rng([seed, 23])
        said = guessed(data.X, data.y, *guesser[1:], rng)[pool]
        learner = gw.Logistic("loo", opinion=gw.Opinion.of(data.X[pool], said, seed=seed))
    played = Session(
        data.under(learner=learner), gw.recipe("hedged"), seed=seed, batch=BATCH, budget=BUDGET
    )
    return [measure(step.model, data, played.split.test).accuracy for step in played.steps()]


def saved(plain, helped):
    """Return the share of labels not needed for the accuracy that all bring without guesses."""
    without, needed = (_needed(one, plain[-1]) for one in (plain, helped))
    return 1.0 - needed / without


def _needed(curve, accuracy):
    """Return how many labels it takes to reach an accuracy; all where that is never."""
    over = np.flatnonzero(curve >= accuracy)
    if len(over) == 0 or over[0] == 0:
        return BUDGET if len(over) == 0 else 0.0
    k = over[0]
    share = (accuracy - curve[k - 1]) / (curve[k] - curve[k - 1])
    return BATCH * (k - 1 + share)


def line(name, seeds):
    """Return, for every guesser, the labels saved, and what area and last accuracy gain."""
    data = load(name)
    if name not in TEXT:
        X = (data.X - data.X.mean(axis=0)) / (data.X.std(axis=0) + 1e-12)
        data = replace(data, X=X / np.sqrt(X.shape[1]))
    plain = np.mean([curve(data, seed) for seed in range(seeds)], axis=0)
    found = []
    for guesser in GUESSERS:
        helped = np.mean([curve(data, seed, guesser) for seed in range(seeds)], axis=0)
        found.append((saved(plain, helped), np.mean(helped - plain), helped[-1] - plain[-1]))
    # Means are those of the numbers that are shown.
    return len(data.classes), np.column_stack(
        [np.round(found, 2)[:, :1], np.round(found, 3)[:, 1:]]
    )


def table(seeds, measured=line):
    """Return the table: a line for each dataset, then means with 95 % intervals over datasets."""
    heads = [name for name, *_ in GUESSERS]
    lines = [f"| dataset | classes | {' | '.join(heads)} |", "|---" * (2 + len(heads)) + "|"]
    kept, counts = {}, {}
    for name in SETS:
        counts[name], kept[name] = measured(name, seeds)
        lines.append(_line(name, counts[name], kept[name], [""] * len(GUESSERS), name in TEXT))
        print(lines[-1], flush=True)
    two = [name for name in SETS if counts[name] == 2]
    more = [name for name in SETS if counts[name] > 2]
    for label, names in (("text", TEXT), ("two classes", two), ("more", more), ("all", SETS)):
        of = np.array([kept[name] for name in names])
        half = t.ppf(0.975, len(of) - 1) * of.std(axis=0, ddof=1)[:, 1:] / len(of) ** 0.5
        ends = [[f" ± {100 * h:.1f}" for h in each] for each in half]
        lines.append(_line(f"*{label}*", "", of.mean(axis=0), ends, names is TEXT))
    return "\n".join(lines)


def _line(name, K, found, ends, text):
    """Return a line; labels saved are of interest where guesses are right as a rule, on texts."""
    cells = []
    for (_, right, _), (share, *gains), end in zip(GUESSERS, found, ends, strict=True):
        said = [
            f"{100 * gain:+.1f}{more}" for gain, more in zip(gains, end or ("", ""), strict=True)
        ]
        cells.append("; ".join([f"**{share:.0%}**"] * (text and right > 0.5) + said))
    return f"| {name} | {K} | {' | '.join(cells)} |"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with one_blas_thread():
        found = table(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
    print(found)
    head, rest = PAGE.read_text("utf-8").split(BEGIN)
    PAGE.write_text(f"{head}{BEGIN}\n\n{found}\n\n{END}{rest.split(END)[1]}", "utf-8")
