"""Write the table of docs/how-to/mistakes.md: flipped labels found here and by cleanlab.

Run from the repository: `python scripts/mistakes_table.py [SEEDS]`, some minutes for ten seeds. Needs
`pip install cleanlab`, and the data of `goalward benchmark`.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
from cleanlab.rank import get_label_quality_scores
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict

import goalward as gw
from goalward.lab.datasets import load

PAGE = Path(__file__).parents[1] / "docs/how-to/mistakes.md"
BEGIN, END = "<!-- table: scripts/mistakes_table.py -->", "<!-- end of table -->"
SETS = ("digits", "breast-cancer", "wine", "segment", "vehicle", "spambase", "satimage", "texture")
ROWS, FOLDS, NOISE = 500, 5, (0.05, 0.1, 0.2)


def areas(name, noise, seed):
    """Return the areas under the ROC curve of the flipped labels: ours, and cleanlab's two scores."""
    data, rng = load(name), np.random.default_rng([seed, 17])
    rows = rng.permutation(len(data.y))[:ROWS]
    X = (data.X[rows] - data.X[rows].mean(axis=0)) / (data.X[rows].std(axis=0) + 1e-12)
    true = np.searchsorted(data.classes, data.y[rows])
    K = len(data.classes)
    flipped = rng.random(len(rows)) < noise
    y = np.where(flipped, (true + rng.integers(1, K, len(rows))) % K, true)
    learner = gw.Logistic(C=0.1, classes=list(range(K)))
    ours = gw.relabel(learner.fit(X, y)).doubt
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    model = gw.LogisticClassifier(C=0.1)
    held_out = cross_val_predict(model, X, y, cv=folds, method="predict_proba")
    theirs = [
        1.0 - get_label_quality_scores(y, held_out, method=how)
        for how in ("self_confidence", "normalized_margin")
    ]
    return [roc_auc_score(flipped, score) for score in (ours, *theirs)]


def table(seeds):
    """Return the table, and the mean over all of it."""
    lines = [
        "| dataset | flipped | goalward | cleanlab | cleanlab, margin |",
        "|---|---|---|---|---|",
    ]
    means = []
    for name in SETS:
        for noise in NOISE:
            found = np.mean([areas(name, noise, seed) for seed in range(seeds)], axis=0)
            means.append(found)
            cells = " | ".join(f"{area:.3f}" for area in found)
            lines.append(f"| {name} | {noise:.0%} | {cells} |")
            print(lines[-1], flush=True)
    cells = " | ".join(f"**{area:.3f}**" for area in np.mean(means, axis=0))
    return "\n".join([*lines, f"| mean | | {cells} |"])


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    found = table(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
    head, rest = PAGE.read_text("utf-8").split(BEGIN)
    PAGE.write_text(f"{head}{BEGIN}\n\n{found}\n\n{END}{rest.split(END)[1]}", "utf-8")
    print(found)
