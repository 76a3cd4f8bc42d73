"""Write docs/how-to/guesses.csv: `python benchmarks/guesses.py --seeds 3`.

Labels saved by guesses, and what bad ones cost; a quarter of an hour for three seeds. Needs the data of
`goalward benchmark`.
"""

import warnings
from dataclasses import replace

import numpy as np
import typer
from scipy.stats import t
from sklearn.cluster import KMeans
from typer import Option

import goalward as gw
from goalward.core.cores import one_blas_thread
from goalward.lab import Session
from goalward.lab.datasets import Dataset, load
from goalward.lab.session import measure
from pages import tracked, write_table

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


def guessed(X, y, right: float, where: str, rng: np.random.Generator) -> np.ndarray:
    """Return guesses of which a share is right; the others are any other class, or the next."""
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


def curve(data: Dataset, seed: int, guesser: tuple[str, float, str] | None = None) -> list[float]:
    """Return the accuracy on rows that nobody guessed, after 0, 20, ... labels."""
    pool, learner = data.split(seed).pool, gw.Logistic("loo")
    if guesser is not None:
        rng = np.random.default_rng([seed, 23])
        labels = guessed(data.X, data.y, *guesser[1:], rng)[pool]
        learner = gw.Logistic("loo", opinion=gw.Opinion.of(data.X[pool], labels, seed=seed))
    session = Session(data.under(learner=learner), gw.recipe("hedged"), seed, BATCH, BUDGET)
    return [measure(step.model, data, session.split.test).accuracy for step in session.steps()]


def needed(curve: np.ndarray, accuracy: float) -> float:
    """Return how many labels it takes to reach an accuracy; all where that is never."""
    over = np.flatnonzero(curve >= accuracy)
    if len(over) == 0 or over[0] == 0:
        return BUDGET if len(over) == 0 else 0.0
    k = over[0]
    share = (accuracy - curve[k - 1]) / (curve[k] - curve[k - 1])
    return BATCH * (k - 1 + share)


def gains(name: str, seeds: int) -> tuple[int, np.ndarray]:
    """Return the classes; and by guesser the labels saved, and what area and last accuracy gain."""
    data = load(name)
    if name not in TEXT:
        X = (data.X - data.X.mean(axis=0)) / (data.X.std(axis=0) + 1e-12)
        data = replace(data, X=X / np.sqrt(X.shape[1]))
    plain = np.mean([curve(data, seed) for seed in range(seeds)], axis=0)
    rows = []
    for guesser in GUESSERS:
        helped = np.mean([curve(data, seed, guesser) for seed in range(seeds)], axis=0)
        saved = 1.0 - needed(helped, plain[-1]) / needed(plain, plain[-1])
        rows.append((saved, np.mean(helped - plain), helped[-1] - plain[-1]))
    # Means are those of the numbers that are shown.
    shown = np.round(rows, 3)
    shown[:, 0] = np.round(np.array(rows)[:, 0], 2)
    return len(data.classes), shown


def table(seeds: int, measured=gains) -> str:
    """Return the table: a line for each dataset, then means with 95 % intervals over datasets."""
    heads = [name for name, *_ in GUESSERS]
    lines = [f"| dataset | classes | {' | '.join(heads)} |", "|---" * (2 + len(heads)) + "|"]
    kept, counts = {}, {}
    for name in tracked(SETS, "datasets"):
        counts[name], kept[name] = measured(name, seeds)
        lines.append(line(name, counts[name], kept[name], name in TEXT))
    two = [name for name in SETS if counts[name] == 2]
    more = [name for name in SETS if counts[name] > 2]
    for label, names in (("text", TEXT), ("two classes", two), ("more", more), ("all", SETS)):
        values = np.array([kept[name] for name in names])
        half = t.ppf(0.975, len(values) - 1) * values.std(axis=0, ddof=1) / len(values) ** 0.5
        lines.append(line(f"*{label}*", "", values.mean(axis=0), names is TEXT, half))
    return "\n".join(lines)


def line(name: str, classes, values, text: bool, half=None) -> str:
    """Return a line; labels saved are of interest where guesses are right as a rule, on texts."""
    cells = []
    for place, ((_, right, _), (share, *points)) in enumerate(zip(GUESSERS, values, strict=True)):
        ends = ["", ""] if half is None else [f" ± {100 * h:.1f}" for h in half[place][1:]]
        shown = [f"{100 * gain:+.1f}{end}" for gain, end in zip(points, ends, strict=True)]
        cells.append("; ".join([f"**{share:.0%}**"] * (text and right > 0.5) + shown))
    return f"| {name} | {classes} | {' | '.join(cells)} |"


def main(seeds: int = Option(3, min=1, help="Splits and draws of guesses.")) -> None:
    """Write docs/how-to/guesses.csv: labels saved by guesses, and what bad ones cost."""
    warnings.simplefilter("ignore")
    with one_blas_thread():
        text = table(seeds)
    write_table("how-to/guesses.md", "guesses", text)
    print(text)


if __name__ == "__main__":
    typer.run(main)
