"""Refine and BoSS: batches proposed by many strategies from parts of the pool."""

import numpy as np
import pytest
import scipy.sparse as sp

import goalward as gw
from goalward.errors import BadParameter, UnknownLabel
from goalward.strategies import Bait, Boss, CoreSet, Margin, Refine, Strategy
from goalward.strategies import ensemble as ensembles
from goalward.strategies.ensemble import Proposer, proposers
from goalward.strategies.strategy import Request
from goalward.testing import check_strategy, problem

TASK = problem(n_classes=3, n_pool=150, n_labelled=20)
NOTHING = gw.Logistic(classes=[0, 1, 2], penalize_intercept="until-seen")


@pytest.fixture
def heard(monkeypatch):
    """Collect every batch that is proposed, with the part of the pool it was picked from."""
    batches = []
    propose = Proposer.__call__

    def listening(self, part, rng):
        batches.append((part, propose(self, part, rng)))
        return batches[-1][1]

    monkeypatch.setattr(Proposer, "__call__", listening)
    return batches


@pytest.mark.parametrize("strategy", [Margin(), CoreSet(), Bait()], ids=repr)
def test_a_part_of_the_pool_is_picked_from_as_if_it_were_the_pool(strategy):
    request = Request.of(TASK.fitted, TASK.X_pool, 6, exclude=range(10), round=0)
    part = np.arange(5, 150, 3)
    rng = np.random.default_rng(0)
    found = Proposer(strategy, request)(part, rng)
    free = part[part >= 10]
    if strategy == Bait():  # its reference is the whole pool, not the part
        assert set(found) <= set(free.tolist())
        best = strategy.suggest(TASK.fitted, TASK.X_pool, 1).utility
        assert found[0] == free[best[free].argmax()]
        return
    alone = strategy.suggest(TASK.fitted, TASK.X_pool[free], 6, round=0).rows
    assert set(found) == set(free[alone].tolist())


def test_refine_picks_only_what_was_proposed_in_every_step(heard):
    strategy = Refine(depth=3, batches=27)
    found = strategy.suggest(TASK.fitted, TASK.X_pool, 4, exclude=range(20), round=1)
    assert len(heard) == 3 * 27
    steps = [heard[i : i + 27] for i in range(0, 81, 27)]
    pool = set(range(20, 150))
    for step in steps:
        for part, batch in step:
            assert set(part.tolist()) <= pool
            assert set(batch.tolist()) <= set(part.tolist())
            assert len(part) == max(4, int(0.4 * len(pool)))
        pool = {row for _, batch in step for row in batch.tolist()}
    assert set(found.rows.tolist()) <= pool
    np.testing.assert_array_equal(np.isfinite(found.utility), np.isin(np.arange(150), list(pool)))
    # What is left is herded: the first row covers most of it.
    left = np.array(sorted(pool))
    herding = gw.GoalOriented(gw.goals.Coverage(TASK.X_pool[left]))
    gains = herding.suggest(TASK.fitted, TASK.X_pool[left], 1).utility
    assert found.rows[0] == left[gains.argmax()]


def test_the_usual_strategies():
    request = Request.of(TASK.fitted, TASK.X_pool, 4, round=0)
    usual = proposers(request)
    assert len(usual) == 9
    rng = np.random.default_rng(0)
    drawn = [tuple(usual[0].drawn(request.free, 150, rng)) for _ in range(5)]
    assert len(set(drawn)) == 5  # random rows are others each time
    forest = problem(n_pool=30)
    from sklearn.ensemble import RandomForestClassifier

    trees = RandomForestClassifier(10, random_state=0).fit(forest.X, forest.y)
    fitted = gw.adapters.from_classifier(trees, forest.X, forest.y)
    assert len(Refine(depth=1, batches=6).suggest(fitted, forest.X_pool, 3).rows) == 3


def test_boss_takes_the_best_of_the_batches_proposed(heard):
    """Judged by models fitted from nothing, on the pool's true labels."""
    strategy = Boss(TASK.y_pool, batches=30)
    found = strategy.suggest(TASK.fitted, TASK.X_pool, 5, exclude=range(20), round=2)

    def accuracy(rows):
        X, y = np.vstack([TASK.X, TASK.X_pool[rows]]), np.append(TASK.y, TASK.y_pool[rows])
        return np.mean(gw.Logistic().fit(X, y).predict(TASK.X_pool) == TASK.y_pool)

    batches = [batch for _, batch in heard]
    scores = [accuracy(batch) for batch in batches]
    assert accuracy(found.rows) == max(scores)
    assert any(set(found.rows) == set(batch.tolist()) for batch in batches)
    assert len(heard) == 30
    assert not set(found.rows.tolist()) & set(range(20))
    for part, _ in heard:
        assert 20 <= len(part) <= 130
    row = found.rows[0]
    known = [score for batch, score in zip(batches, scores, strict=True) if row in batch]
    assert found.utility[row] == max(known)


def test_boss_looks_labels_up_by_the_rows_ids_and_says_when_there_are_none():
    names = np.array([f"row {i}" for i in range(150)])
    truth = dict(zip(names.tolist(), TASK.y_pool.tolist(), strict=True))
    named = Boss(truth, batches=20).suggest(TASK.fitted, TASK.X_pool, 3, rows=names, round=0)
    plain = Boss(TASK.y_pool, batches=20).suggest(TASK.fitted, TASK.X_pool, 3, round=0)
    np.testing.assert_array_equal(named.rows, names[plain.rows])
    with pytest.raises(UnknownLabel, match="no label for row"):
        Boss({0: 1}, batches=10).suggest(TASK.fitted, TASK.X_pool, 3)
    with pytest.raises(BadParameter, match="fidelity"):
        Boss(TASK.y_pool).suggest(TASK.fitted, TASK.X_pool, 3, fidelity=5)
    with pytest.raises(BadParameter, match="truth="):
        gw.recipe("boss").build()


@pytest.mark.parametrize("word", ["refine", "boss"])
def test_they_are_ordinary_strategies_and_recipes(word, monkeypatch):
    monkeypatch.setattr(ensembles, "FEW", 30)
    small = problem(n_pool=25)
    recipe = gw.recipe(word)
    assert recipe.needs == ({"truth"} if word == "boss" else frozenset())
    strategy: Strategy = recipe.build(truth=[*small.y_pool, *small.y_pool], seed=3)
    named = {1000 + i: y for i, y in enumerate(small.y_pool.tolist())}
    both = {**named, **dict(enumerate(small.y_pool.tolist()))}
    check_strategy(Boss(both, batches=20) if word == "boss" else Refine(depth=2, batches=18), small)
    rows = strategy.suggest(small.fitted, small.X_pool, 4, round=0).rows
    sparse = strategy.suggest(small.fitted, sp.csr_array(small.X_pool), 4, round=0).rows
    assert len(rows) == len(sparse) == 4
    copies = np.repeat(small.X_pool[:4], 5, axis=0)
    assert len(set(strategy.suggest(small.fitted, copies, 12).rows.tolist())) == 12
    # Classes without a label, then no label at all.
    for few in (8, 0):
        fitted = NOTHING.fit(small.X[:few], np.minimum(small.y[:few], 1))
        assert len(set(strategy.suggest(fitted, small.X_pool, 4).rows.tolist())) == 4


def test_boss_judges_the_first_batch_too(heard):
    nothing = NOTHING.fit(np.empty((0, 4)), [])
    found = Boss(TASK.y_pool, batches=20).suggest(nothing, TASK.X_pool, 6, round=0)
    assert len(heard) == 20

    def accuracy(rows):
        fitted = NOTHING.fit(TASK.X_pool[rows], TASK.y_pool[rows])
        return np.mean(fitted.predict(TASK.X_pool) == TASK.y_pool)

    assert accuracy(found.rows) == max(accuracy(batch) for _, batch in heard)


def test_what_they_refuse():
    for wrong in ({"depth": 0}, {"batches": 0}):
        with pytest.raises(BadParameter, match=next(iter(wrong))):
            Refine(**wrong)
    with pytest.raises(BadParameter, match="batches"):
        Boss([], batches=0)
