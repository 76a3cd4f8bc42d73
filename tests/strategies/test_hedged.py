"""The recommended strategy: unseen classes first, then three parts in turn, on pools of any size."""

import numpy as np
import pytest

import goalward as gw
from goalward.strategies import Among, InTurn, Margin, WhileUnseen
from goalward.studio.study.ranking import queued

RNG = np.random.default_rng(0)
POOL = RNG.standard_normal((6000, 3))
LABELS = (POOL[:, 0] + 0.5 * POOL[:, 1] > 0).astype(int)


def fitted_to(rows):
    return gw.Logistic(classes=[0, 1], penalize_intercept="until-seen").fit(
        POOL[rows], LABELS[rows]
    )


def test_it_is_what_the_recipe_and_the_library_say():
    named = gw.recipe("hedged")
    assert str(named) == (
        "coverage/average/covering/sequential among 4000 by random while classes are unseen then "
        "(decision-risk/average/information/sequential among 1000 by margin, margin, "
        "coverage/average/covering/sequential among 4000 by random in turn)"
    )
    assert named.needs == {"pool"}
    built = gw.GoalOriented.recommended(POOL)
    assert isinstance(built, WhileUnseen)
    assert isinstance(built.later, InTurn)
    assert [type(part) for part in built.later.strategies] == [Among, Margin, Among]
    assert repr(built.first) == repr(built.later.strategies[2])


@pytest.mark.parametrize("batch", [1, 3, 4, 10])
def test_every_part_has_its_turn_whatever_the_batch(batch):
    strategy = gw.GoalOriented.recommended(POOL)
    for number in (9, 10, 11):
        fitted = fitted_to(np.arange(number * batch))
        found = strategy.suggest(fitted, POOL, batch, exclude=np.arange(number * batch))
        part = strategy.later.strategies[number % 3]
        alone = part.suggest(fitted, POOL, batch, exclude=np.arange(number * batch))
        np.testing.assert_array_equal(found.rows, alone.rows)


def test_a_class_without_a_label_is_looked_for_by_coverage():
    """Whoever's turn it is: three labels, each the only one of its class, and a fourth class."""
    strategy = gw.GoalOriented.recommended(POOL)
    learner = gw.Logistic(classes=list("abcd"), penalize_intercept=True)
    for known, looking in (("abc", True), ("abcd", False)):
        fitted = learner.fit(POOL[: len(known)], list(known))
        for round in range(3):
            turn = strategy.turn(fitted, round)
            assert turn is (strategy.first if looking else strategy.later.strategies[round])


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
