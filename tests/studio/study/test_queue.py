"""The queue of a ranking: different rows first, whatever the pool."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

import goalward as gw
from goalward.strategies import Margin
from goalward.studio.study.ranking import queued

X, y = load_digits(n_class=3, return_X_y=True)
KINDS, COPIES = 12, 30


@pytest.mark.parametrize("strategy", ["auto", "entropy/spread/first-order/sequential-curvature"])
def test_different_rows_come_before_copies(tmp_path, strategy):
    """12 different rows, 30 times each: fewer than are picked with care."""
    pool, truth = np.tile(X[:KINDS] / 16, (COPIES, 1)), np.tile(y[:KINDS], COPIES)
    study = gw.Study.create(tmp_path / "a.db", pool=pool, classes=[0, 1, 2], strategy=strategy)
    study.tell_many([(row, int(truth[row])) for row in range(3)])
    queue = np.array(study.refresh().queue)
    assert len(set((queue[:8] % KINDS).tolist())) == 8
    assert len(set(queue.tolist())) == len(queue) == 256
    assert not set(range(3)) & set(queue.tolist())


def test_a_pool_of_one_row_is_served_and_a_closed_one_gives_none():
    fitted = gw.Logistic().fit([[0.0], [1.0]], [0, 1])
    pool = np.full((5, 1), 0.3)
    options = {"size": 4, "head": 4, "round": 0}
    sequential = gw.recipe("entropy/spread/first-order/sequential-curvature").build(pool=pool)
    rows, _ = queued(sequential, fitted, pool, closed=np.array([2]), **options)
    assert sorted(rows.tolist()) == [0, 1, 3, 4]
    none, _ = queued(Margin(), fitted, pool, closed=np.arange(5), **options)
    assert len(none) == 0


def test_a_fit_after_other_labels_is_the_next_ones_turn(tmp_path):
    """However many labels came; ranked again, the same labels give the same queue."""
    names = ["margin, entropy in turn", "margin", "entropy"]
    studies = [
        gw.Study.create(tmp_path / f"{i}.db", pool=X, classes=[0, 1, 2], strategy=name)
        for i, name in enumerate(names)
    ]
    rows = iter(range(100))
    for turn, count in enumerate((6, 6, 12, 1)):
        answers = [(row, int(y[row])) for row, _ in zip(rows, range(count), strict=False)]
        for study in studies:
            study.tell_many(answers)
        queues = [list(study.refresh().queue) for study in studies]
        assert queues[0] == list(studies[0].refresh().queue)
        assert queues[0] == queues[1 + turn % 2]
        assert queues[0] != queues[2 - turn % 2]
