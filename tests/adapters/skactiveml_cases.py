"""Every goal and every recipe, small, for the tests of scikit-activeml's conventions."""

from functools import partial

import numpy as np
from skactiveml.classifier import SklearnClassifier
from skactiveml.utils import MISSING_LABEL
from sklearn.linear_model import LogisticRegression

import goalward as gw
from goalward.strategies.recipes import LABEL_FREE, PRESETS
from goalward.strategies.strategy import WORDS

X = np.random.default_rng(0).normal(size=(12, 2))
Y = np.array([0.0, 1.0, 0.0, 1.0] + [MISSING_LABEL] * 8)
CLASSES = (0.0, 1.0)
OF_NUMBERS = {"greedy", "committee", "model-change"}


def clf(model=None, classes=CLASSES, **options):
    return SklearnClassifier(model or LogisticRegression(), classes=list(classes), **options)


def dev(goal):
    """Return how to make a goal of labelled rows, under any two classes."""
    return lambda classes: goal(X[4:8], [classes[0], classes[1]] * 2)


def pool(goal):
    """Return how to make a goal that knows no classes."""
    return lambda classes: goal(X)


def built(name, classes):
    """Return a recipe with the dev labels that it needs."""
    return gw.recipe(name).build(dev=(X[4:8], [*classes] * 2), pool=X)


GOALS = {
    "CalibratedDevLoss": dev(gw.goals.CalibratedDevLoss),
    "Coverage": pool(gw.goals.Coverage),
    "Custom": lambda classes: gw.goals.Custom(X, lambda f: (f[:, 0] - f[:, 1]).sum()),
    "DecisionRisk": pool(gw.goals.DecisionRisk),
    "DevLoss": dev(gw.goals.DevLoss),
    "Entropy": pool(gw.goals.Entropy),
    "Epig": pool(gw.goals.Epig),
    "ExpectedAccuracy": pool(gw.goals.ExpectedAccuracy),
    "Fisher": pool(gw.goals.Fisher),
    "FisherRatio": pool(gw.goals.FisherRatio),
    "LeaveOneOut": lambda classes: gw.goals.LeaveOneOut(),
    "PredictionVariance": pool(gw.goals.PredictionVariance),
    "SmoothAccuracy": dev(gw.goals.SmoothAccuracy),
    "SmoothF1": dev(gw.goals.SmoothF1),
    "SoftPool": lambda classes: gw.goals.SoftPool(X, gw.labels.Jackknife()),
    "TargetSet": dev(lambda rows, y: gw.goals.TargetSet(rows, y, X[8:])),
    "Weighted": lambda classes: gw.goals.Entropy(X) + 0.5 * gw.goals.Fisher(X),
    "WorstGroup": dev(lambda rows, y: gw.goals.WorstGroup(rows, y, [0, 0, 1, 1])),
}

RECIPES = sorted(
    word
    for word in [*WORDS, *LABEL_FREE, *PRESETS, "recommended"]
    if word == "recommended" or (word not in OF_NUMBERS and not gw.recipe(word).needs - {"pool"})
)
"""Every word that needs no dev labels."""
OBJECTS = {
    "Then": lambda classes: gw.strategies.Then(
        gw.strategies.Random(), built("dev/spread", classes), labels=3
    ),
    "InTurn": lambda classes: gw.strategies.InTurn((gw.strategies.Badge(), gw.strategies.Margin())),
    "Among": lambda classes: gw.strategies.Among(built("dev/min/implicit", classes), most=5),
    "drawn": lambda classes: gw.strategies.Among(gw.strategies.Margin(), by="random", most=3),
    "oracle": lambda classes: gw.GoalOriented(
        gw.goals.Entropy(X), operator=gw.labels.Expected(gw.labels.Truth([*classes] * 6))
    ),
    **{name: partial(built, name) for name in ("glister", "isal", "goral-average")},
}


CASES = {
    **{
        name: partial(lambda make, classes: {"goal": make(classes)}, make)
        for name, make in GOALS.items()
    },
    **{
        name: partial(lambda make, classes: {"strategy": make(classes)}, make)
        for name, make in OBJECTS.items()
    },
    **{f"{name!r}": partial(lambda name, classes: {"strategy": name}, name) for name in RECIPES},
}
"""Options of GoalQuery, given two classes."""
