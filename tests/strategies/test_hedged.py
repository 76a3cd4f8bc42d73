"""The recommended strategy: three parts in turn, from no label, on pools of any size."""

from collections import Counter

import numpy as np
import pytest

import goalward as gw
from goalward.strategies import Among, InTurn, Margin
from goalward.study.ranking import queued

RNG = np.random.default_rng(0)
POOL = RNG.standard_normal((6000, 3))
LABELS = (POOL[:, 0] + 0.5 * POOL[:, 1] > 0).astype(int)


def fitted_to(rows):
    return gw.Logistic(classes=[0, 1], penalize_intercept="until-seen").fit(
        POOL[rows], LABELS[rows]
    )


def part_of(strategy, labels):
    return strategy.strategies.index(strategy.turn(fitted_to(np.arange(2)), labels))


def test_it_is_what_the_recipe_and_the_library_say():
    named = gw.recipe("hedged")
    assert str(named) == (
        "decision-risk/average/information/sequential among 1000 by margin, "
        "coverage/average/covering/sequential among 4000 by random, margin in turn"
    )
    assert named.needs == {"pool"}
    built = gw.GoalOriented.recommended(POOL)
    assert isinstance(built, InTurn)
    assert [type(part) for part in built.strategies] == [Among, Among, Margin]


@pytest.mark.parametrize("batch", [1, 5, 10, 20])
def test_every_part_has_its_share_whatever_the_batch(batch):
    strategy = gw.GoalOriented.recommended(POOL)
    turns = Counter(part_of(strategy, labels) for labels in range(0, 60 * batch, batch))
    assert min(turns[i] for i in range(3)) >= 15


def test_it_asks_from_nothing_to_the_end_without_asking_twice():
    strategy = gw.GoalOriented.recommended(POOL)
    asked: list[int] = []
    for _ in range(9):
        rows = strategy.suggest(fitted_to(np.array(asked, dtype=int)), POOL, 5, exclude=asked).rows
        asked += rows.tolist()
    assert len(set(asked)) == 45


def test_a_queue_longer_than_the_short_list_has_no_closed_rows():
    fitted = fitted_to(np.arange(20))
    strategy = Among(gw.recipe("coverage").build(pool=POOL[:200]), most=30)
    queue, suggestion = queued(
        strategy, fitted, POOL, size=256, head=5, closed=np.arange(3000), round=0
    )
    assert len(queue) == len(set(queue.tolist())) == 30
    assert queue.min() >= 3000
    assert np.isfinite(suggestion.utility[queue]).all()
