"""Write docs/how-to/mistakes.csv and its mean in the page: `python benchmarks/mistakes.py --seeds 10`.

Flipped labels found here and by cleanlab, some minutes for ten seeds. Needs `pip install cleanlab`, and
the data of `goalward benchmark`.
"""

import warnings
from itertools import product

import numpy as np
import typer
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from typer import Option

import goalward as gw
from goalward.lab.datasets import load
from pages import tracked, write_table

SETS = ("digits", "breast-cancer", "wine", "segment", "vehicle", "spambase", "satimage", "texture")
ROWS, FOLDS, NOISE = 500, 5, (0.05, 0.1, 0.2)
HEAD = "| dataset | flipped | goalward | cleanlab | cleanlab, margin |\n|---|---|---|---|---|"


def areas(name: str, noise: float, seed: int) -> list[float]:
    """Return the areas under the ROC curve of the flipped labels: ours, and cleanlab's two scores."""
    from cleanlab.rank import get_label_quality_scores

    data, rng = load(name), np.random.default_rng([seed, 17])
    rows = rng.permutation(len(data.y))[:ROWS]
    X = (data.X[rows] - data.X[rows].mean(axis=0)) / (data.X[rows].std(axis=0) + 1e-12)
    true, K = np.searchsorted(data.classes, data.y[rows]), len(data.classes)
    flipped = rng.random(len(rows)) < noise
    y = np.where(flipped, (true + rng.integers(1, K, len(rows))) % K, true)
    ours = gw.relabel(gw.Logistic(C=0.1, classes=list(range(K))).fit(X, y)).doubt
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    model = gw.LogisticClassifier(C=0.1)
    held_out = cross_val_predict(model, X, y, cv=folds, method="predict_proba")
    theirs = [
        1.0 - get_label_quality_scores(y, held_out, method=method)
        for method in ("self_confidence", "normalized_margin")
    ]
    return [roc_auc_score(flipped, score) for score in (ours, *theirs)]


def table(names: tuple[str, ...], seeds: int) -> str:
    """Return the table, its last line the mean over all of it."""
    lines, means = [HEAD], []
    for name, noise in tracked(list(product(names, NOISE)), "datasets"):
        mean = np.mean([areas(name, noise, seed) for seed in range(seeds)], axis=0)
        means.append(mean)
        lines.append(f"| {name} | {noise:.0%} | {' | '.join(f'{area:.3f}' for area in mean)} |")
    cells = " | ".join(f"**{area:.3f}**" for area in np.mean(means, axis=0))
    return "\n".join([*lines, f"| mean | | {cells} |"])


def main(seeds: int = Option(10, min=1, help="Draws of rows and flips.")) -> None:
    """Write docs/how-to/mistakes.csv and its mean in the page: flipped labels found here and by cleanlab."""
    warnings.simplefilter("ignore")
    text = table(SETS, seeds)
    write_table("how-to/mistakes.md", "mistakes", text, summary="| mean")
    print(text)


if __name__ == "__main__":
    typer.run(main)
