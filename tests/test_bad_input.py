"""DESIGN's list of bad input: what came, what was expected, what to do; nothing changed."""

import re

import numpy as np
import pytest
import scipy.sparse as sp

import goalward as gw
from goalward import errors
from goalward.goals import DevLoss, Entropy, Fisher
from goalward.testing import problem

TASK = problem()
NAN = TASK.X.copy()
NAN[3, 1] = np.nan


def fit(X=TASK.X, y=TASK.y, **options):
    fit_options = {k: options.pop(k) for k in ("sample_weight", "start") if k in options}
    return gw.Logistic(**options).fit(X, y, **fit_options)


def score(goal=TASK.goal, pool=TASK.X_pool, batch=1, **options):
    return gw.GoalOriented(goal).suggest(TASK.fitted, pool, batch=batch, **options)


CASES = {
    "NaN in labelled rows": (lambda: fit(NAN), errors.NotFinite, "row 3, column 1"),
    "infinity in labelled rows": (lambda: fit(NAN * np.inf), errors.NotFinite, "infinite"),
    "NaN in sparse rows": (lambda: fit(sp.csr_array(NAN)), errors.NotFinite, "row 3, column 1"),
    "NaN in the pool": (
        lambda: score(pool=NAN),
        errors.NotFinite,
        "X_pool must be finite, got 1 NaN",
    ),
    "NaN in dev rows": (lambda: score(DevLoss(NAN, TASK.y)), errors.NotFinite, "X of DevLoss"),
    "one class": (lambda: fit(y=np.zeros(30)), errors.OneClass, "Label a row of another class"),
    "K = 1": (lambda: fit(classes=[0]), errors.OneClass, "two or more classes"),
    "one class seen": (
        lambda: fit(y=np.zeros(30), classes=[0.0, 1.0]),
        errors.OneClass,
        "two or more classes",
    ),
    "a label outside classes": (
        lambda: fit(y=np.full(30, 7), classes=[0, 1]),
        errors.UnknownLabel,
        "must be among the classes 0, 1, got 7",
    ),
    "a dev label outside classes": (
        lambda: score(DevLoss(TASK.X_dev[:1], ["?"])),
        errors.UnknownLabel,
        "got '\\?'",
    ),
    "no label": (lambda: fit(y=[None] * 30), errors.NotFinite, "label of row 0 is None"),
    "a class twice": (lambda: fit(classes=[0, 1, 1]), errors.BadInput, "stands twice"),
    "an unhashable label": (lambda: fit(y=[[0]] * 30), errors.BadInput, "one label per row"),
    "a text for labels": (lambda: fit(y="positive"), errors.BadInput, "one label per row"),
    "too few labels": (lambda: fit(y=TASK.y[:5]), errors.ShapeMismatch, "must have 30 labels"),
    "soft labels that do not add up": (
        lambda: fit(y=np.ones((30, 3))),
        errors.BadInput,
        "sum to 3",
    ),
    "soft labels of other classes": (
        lambda: fit(y=np.full((30, 3), 1 / 3), classes=[0, 1]),
        errors.ShapeMismatch,
        "a column for each of the 2 classes, got 3",
    ),
    "pool of other width": (
        lambda: score(pool=TASK.X_pool[:, :2]),
        errors.ShapeMismatch,
        "must have 4 features, .* got 2",
    ),
    "dev of other width": (
        lambda: score(DevLoss(TASK.X_dev[:, :2], TASK.y_dev)),
        errors.ShapeMismatch,
        "X of DevLoss must have 4 features, .* got 2",
    ),
    "goal of other width": (
        lambda: score(Fisher(TASK.X_pool[:, :3])),
        errors.ShapeMismatch,
        "X of Fisher must have 4 features, .* got 3",
    ),
    "fewer dev labels than rows": (
        lambda: score(DevLoss(TASK.X_dev, TASK.y_dev[:3])),
        errors.ShapeMismatch,
        "must have 25 labels, one for each row, got 3",
    ),
    "one row instead of a table": (lambda: fit(X=TASK.X[0]), errors.ShapeMismatch, "reshape"),
    "no labelled rows": (lambda: fit(TASK.X[:0], []), errors.Empty, "no rows"),
    "no dev": (lambda: score(DevLoss(TASK.X[:0], [])), errors.Empty, "X of DevLoss has no rows"),
    "no goal rows": (lambda: score(Entropy(TASK.X[:0])), errors.Empty, "X of Entropy has no rows"),
    "no features": (lambda: fit(TASK.X[:, :0]), errors.ShapeMismatch, "no features"),
    "batch below 1": (lambda: score(batch=0), errors.BadParameter, "at least 1"),
    "half a batch": (lambda: score(batch=2.5), errors.BadParameter, "whole number"),
    "C = 0": (lambda: fit(C=0.0), errors.BadParameter, "above 0"),
    "C < 0": (lambda: fit(C=-1.0), errors.BadParameter, "above 0"),
    "C infinite": (lambda: fit(C=np.inf), errors.BadParameter, "finite number"),
    "C a word": (lambda: fit(C="big"), errors.BadParameter, "got 'big'"),
    "duplicate row ids": (
        lambda: score(rows=np.zeros(40, int)),
        errors.DuplicateRows,
        "0 stands 40 times",
    ),
    "features that overflow": (lambda: fit(TASK.X * 1e200), errors.TooLarge, "Rescale"),
    "a pool that overflows": (
        lambda: score(pool=TASK.X_pool * 1e300),
        errors.TooLarge,
        "whose square overflows",
    ),
    "texts for features": (lambda: fit([["a"], ["b"]], [0, 1]), errors.BadInput, "not numbers"),
    "complex numbers": (lambda: fit(TASK.X * 1j), errors.BadInput, "Complex data not supported"),
    "a negative weight": (
        lambda: fit(sample_weight=np.full(30, -1.0)),
        errors.BadInput,
        "weights of 0 or more",
    ),
    "weights of other rows": (
        lambda: fit(sample_weight=[1.0]),
        errors.ShapeMismatch,
        "a number per row",
    ),
    "no iterations": (lambda: fit(max_iter=0), errors.BadParameter, "at least 1"),
    "too few iterations": (lambda: fit(max_iter=1), errors.NotConverged, "relative gradient"),
    "a tolerance of 0": (lambda: fit(tol=0.0), errors.BadParameter, "above 0"),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_input_is_refused_in_three_clauses(name):
    call, error, message = CASES[name]
    with pytest.raises(error, match=message) as caught:
        call()
    assert isinstance(caught.value, errors.GoalwardError)
    assert isinstance(caught.value, (ValueError, RuntimeError))
    # What is expected and what was given; then, in a sentence of its own, what to do.
    message = str(caught.value)
    assert re.search("must|need|expected|at least|not in|no |asked for", message)
    assert re.search(r"\. [A-Z][^.]*.*\.$", message), f"what to do is missing: {message}"


def test_inputs_are_never_modified():
    X, y, pool, dev = (a.copy() for a in (TASK.X, TASK.y, TASK.X_pool, TASK.X_dev))
    weights = np.ones(len(X))
    for array in (X, y, pool, dev, weights):
        array.setflags(write=False)
    fitted = gw.Logistic().fit(X, y, sample_weight=weights)
    goal = DevLoss(dev, TASK.y_dev) + Entropy(pool) + Fisher(pool)
    for utility in (gw.utility.FirstOrder(), gw.utility.Retrain()):
        for operator in (gw.labels.Expected(), gw.labels.WorstCase(), gw.labels.Spread()):
            gw.GoalOriented(goal, operator=operator, utility=utility).suggest(fitted, pool, 2)
        utility.batch(fitted, goal, pool[None, :2])


def test_errors_are_drawn_as_the_tree_they_are():
    for name in (name for name, thing in vars(errors).items() if isinstance(thing, type)):
        assert name in (errors.__doc__ or ""), f"{name} is not in the tree"
