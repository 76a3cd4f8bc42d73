import numpy as np
import pytest

from goalward.bench import rounds
from goalward.bench.datasets import breast_cancer, digits, digits_3v8, wine
from goalward.strategies import recipe


@pytest.mark.parametrize("make", [breast_cancer, digits, digits_3v8, wine])
def test_splits_part_the_rows_and_repeat(make):
    dataset = make()
    split = dataset.split(3)
    parts = np.concatenate([split.init, split.pool, split.test])
    assert sorted(parts.tolist()) == list(range(len(dataset.y)))
    assert set(split.dev.tolist()) <= set(split.pool.tolist())
    assert set(dataset.y[split.init]) == set(dataset.y)
    np.testing.assert_array_equal(dataset.split(3).pool, split.pool)
    assert not np.array_equal(dataset.split(4).pool, split.pool)


def test_a_session_spends_its_budget_once_on_each_row():
    dataset = wine()
    session = list(rounds(dataset, recipe("dev/average"), batch=4, budget=10, seed=1))
    assert [r.queries for r in session] == [0, 4, 8, 10]
    asked = np.concatenate([r.rows for r in session])
    assert len(set(asked.tolist())) == 10
    split = dataset.split(1)
    assert set(asked.tolist()) <= set(split.pool.tolist())
    last = session[-1]
    assert last.labels == len(split.init) + 10
    unpaid = len(np.setdiff1d(split.dev, asked))
    assert last.labels_with_dev == last.labels + unpaid
    assert len(last.rows) == 0
    baseline = list(rounds(dataset, recipe("margin"), batch=5, budget=5, seed=1))
    assert baseline[-1].labels_with_dev == baseline[-1].labels
    assert np.isnan(baseline[-1].goal)


@pytest.mark.parametrize("name", ["random", "dev/oracle", "entropy/min"])
def test_a_session_taken_up_again_goes_on_as_before(name):
    dataset = wine()
    whole = list(rounds(dataset, recipe(name), batch=3, budget=12, seed=2))
    asked = [r.rows for r in whole[:2]]
    rest = list(rounds(dataset, recipe(name), batch=3, budget=12, seed=2, asked=asked))
    for again, before in zip(rest, whole[2:], strict=True):
        np.testing.assert_array_equal(again.rows, before.rows)
        assert again.accuracy == before.accuracy
        assert again.log_loss == before.log_loss


def test_a_budget_beyond_the_pool_ends_with_the_pool():
    dataset = wine()
    session = list(rounds(dataset, recipe("random"), batch=50, budget=10_000))
    assert session[-1].queries == len(dataset.split(0).pool)
