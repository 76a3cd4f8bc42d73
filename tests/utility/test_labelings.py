"""Operators over the labelings of a batch, against every model fitted by hand."""

from itertools import product

import numpy as np
import pytest

import goalward as gw
from goalward.errors import BadParameter, ShapeMismatch
from goalward.labels import (
    BestCase,
    Expected,
    ExpectedImprovement,
    Predicted,
    Spread,
    Truth,
    Uniform,
    WorstCase,
)
from goalward.testing import problem
from goalward.utility import FirstOrder, Retrain, resolve_batches

TASK = problem(n_pool=6)
PAIRS = TASK.X_pool.reshape(3, 2, -1)


@pytest.fixture(scope="module")
def truth():
    """Δτ of every pair of rows under every pair of labels, fitted from scratch."""
    before = TASK.goal.value(TASK.fitted)
    return np.array(
        [
            [
                TASK.goal.value(TASK.learner.fit(np.vstack([TASK.X, pair]), [*TASK.y, *labels]))
                - before
                for labels in product(range(3), repeat=2)
            ]
            for pair in PAIRS
        ]
    )


def chances(temperature=1.0):
    """P(y₁) P(y₂), for the nine labelings of each pair."""
    p = TASK.fitted.predict_proba(TASK.X_pool) ** (1 / temperature)
    p = (p / p.sum(axis=1, keepdims=True)).reshape(3, 2, 3)
    return np.einsum("ba,bc->bac", p[:, 0], p[:, 1]).reshape(3, 9)


def test_operators_resolve_the_labelings_of_a_batch(truth):
    P, warm = chances(), chances(2.0)
    mean = np.sum(P * truth, axis=1)
    expected = [
        (Expected(Predicted()), mean),
        (Expected(Predicted(2.0)), np.sum(warm * truth, axis=1)),
        (Expected(Uniform()), truth.mean(axis=1)),
        (WorstCase(), truth.min(axis=1)),
        (BestCase(), truth.max(axis=1)),
        (Spread(), np.sqrt(np.sum(P * (truth - mean[:, None]) ** 2, axis=1))),
        (ExpectedImprovement(), np.sum(P * np.maximum(truth, 0.0), axis=1)),
    ]
    table = Retrain().batch(TASK.fitted, TASK.goal, PAIRS)
    for operator, value in expected:
        found = resolve_batches(operator, table, TASK.fitted, PAIRS)
        np.testing.assert_allclose(found, value, atol=1e-7, err_msg=repr(operator))


def test_the_true_labeling_is_found_by_the_ids_of_rows(truth):
    names = np.array(list("abcdef"))
    operator = Expected(Truth(dict(zip(names.tolist(), TASK.y_pool.tolist(), strict=True))))
    table = Retrain().batch(TASK.fitted, TASK.goal, PAIRS)
    found = resolve_batches(operator, table, TASK.fitted, PAIRS, rows=names.reshape(3, 2))
    own = TASK.y_pool.reshape(3, 2) @ [3, 1]
    np.testing.assert_allclose(found, truth[range(3), own], atol=1e-7)


def test_to_first_order_the_rows_of_a_batch_add_up():
    """Remark 2, and that spreads do not: variances would."""
    single = FirstOrder()(TASK.fitted, TASK.goal, TASK.X_pool)
    table = FirstOrder().batch(TASK.fitted, TASK.goal, PAIRS)
    for operator in (Expected(Uniform()), Expected(Predicted(3.0)), WorstCase(), BestCase()):
        rows = operator(single, TASK.fitted, TASK.X_pool).reshape(3, 2)
        found = resolve_batches(operator, table, TASK.fitted, PAIRS)
        np.testing.assert_allclose(found, rows.sum(axis=1), atol=1e-12)
    rows = Spread()(single, TASK.fitted, TASK.X_pool).reshape(3, 2)
    found = resolve_batches(Spread(), table, TASK.fitted, PAIRS)
    np.testing.assert_allclose(found**2, np.sum(rows**2, axis=1), atol=1e-12)


def test_some_labelings_share_the_belief_between_them(truth):
    some = [[0, 1], [2, 2]]
    table = Retrain().batch(TASK.fitted, TASK.goal, PAIRS, labels=some)
    P = chances()[:, [1, 8]]
    found = resolve_batches(Expected(Predicted()), table, TASK.fitted, PAIRS, labels=some)
    value = np.sum(P * truth[:, [1, 8]], axis=1) / P.sum(axis=1)
    np.testing.assert_allclose(found, value, atol=1e-7)


def test_what_does_not_fit_is_refused():
    table = FirstOrder().batch(TASK.fitted, TASK.goal, PAIRS)
    with pytest.raises(ShapeMismatch, match=r"\(3, 9\), batches by labelings"):
        resolve_batches(WorstCase(), table[:, :4], TASK.fitted, PAIRS)
    with pytest.raises(ShapeMismatch, match="3 x 2 ids"):
        resolve_batches(WorstCase(), table, TASK.fitted, PAIRS, rows=[1, 2])
    other = [[(y + 1) % 3 for y in TASK.y_pool[:2].tolist()]]
    one = FirstOrder().batch(TASK.fitted, TASK.goal, PAIRS[:1], labels=other)
    with pytest.raises(BadParameter, match="believed possible"):
        resolve_batches(Expected(Truth(TASK.y_pool)), one, TASK.fitted, PAIRS[:1], labels=other)
    assert gw.utility.resolve_batches is resolve_batches
