"""Rows and utilities of the first version's recipes, and how they were recorded.

`python -m tests.strategies.recorded` wrote first_version.json with version 0.1.0. The recipes keep their
names and their answers: mathematics that changes gets a new name.
"""

import json
import warnings
from pathlib import Path

import numpy as np

import goalward as gw

FILE = Path(__file__).with_name("first_version.json")

GOALS = [
    "dev",
    "entropy",
    "fisher",
    "leave-one-out",
    "dev-left-out",
    "calibrated",
    "accuracy",
    "f1",
    "soft-pool",
]
OPERATORS = ["average", "predicted:2", "oracle", "min", "max", "spread", "ucb", "ei", "pi"]
BASELINES = ["random", "entropy", "margin", "least-confident", "core-set", "badge", "bait", "bald"]
SELECTIONS = ["top", "sequential", "sequential-curvature", "stochastic"]
RECIPES = [
    *BASELINES,
    *(f"{goal}/{op}" for goal in GOALS for op in OPERATORS),
    *(
        f"{goal}/{op}/{utility}"
        for goal in ("dev", "entropy", "fisher", "f1")
        for op in ("average", "predicted", "spread", "max")
        for utility in ("implicit", "implicit-exact", "retrain", "auto")
    ),
    *(
        f"{goal}/{utility}/{selection}"
        for goal in ("dev/average", "dev/spread", "entropy/min", "soft-pool/spread")
        for utility in ("first-order", "implicit", "auto")
        for selection in SELECTIONS
    ),
    *(
        f"{goal}/average/information/{selection}"
        for goal in ("decision-risk", "epig", "fisher-ratio")
        for selection in SELECTIONS
    ),
    "eer",
    "mcmi-min",
    "goral-average",
    "random until 20 then margin",
    "decision-risk until 100 then margin",
]


def data(kind="numpy"):
    """Return a small task: few labels, three classes, near-copies in the pool."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(150, 5))
    X[100:110] = X[110:120] + 1e-3 * rng.normal(size=(10, 5))
    X[120:123] = X[123:126]
    y = np.argmax(X[:, :3] + 0.7 * rng.normal(size=(150, 3)), axis=1)
    if kind == "float32":
        X = X.astype(np.float32)
    if kind == "torch":
        import torch

        X = torch.asarray(X)
    return X, y


def suggestion(text, kind="numpy", round=1, learner=None, pool=None):
    """Return what a recipe says of the task."""
    X, y = data(kind)
    # That goal leaves out rows that the model was trained on.
    labelled = 50 if "left-out" in text else 24
    first, known = (10 if "left-out" in text else 24), X[50:]
    fitted = (learner or gw.Logistic(C=0.7)).fit(X[:labelled], y[:labelled])
    strategy = gw.recipe(text).build(
        dev=(X[first:50], y[first:50]), pool=known, truth=y[50:], seed=3
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return strategy.suggest(
            fitted, known if pool is None else pool, 6, exclude=[3, 4, 60], round=round
        )


def record(text, kind="numpy"):
    """Return rows and utilities, as they are kept."""
    said = suggestion(text, kind)
    return {
        "rows": [int(row) for row in said.rows],
        "utility": [float(f"{value:.8g}") for value in said.utility[:40]],
    }


if __name__ == "__main__":
    FILE.write_text(
        json.dumps({text: record(text) for text in RECIPES}, indent=None, separators=(",", ":"))
        + "\n"
    )
