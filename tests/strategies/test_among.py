"""A strategy on the short list of another: what it sees, what is read, and how it is written."""

from dataclasses import dataclass, field

import numpy as np
import pytest

import goalward as gw
from goalward.strategies import Among, InTurn, Margin, Random
from goalward.strategies.engine import Engine, Memory
from goalward.testing import check_strategy, problem

TASK = problem(n_classes=3, n_pool=400)
RISK = gw.recipe("decision-risk").build(pool=TASK.X_pool)
COVERAGE = gw.recipe("coverage").build(pool=TASK.X_pool)


@dataclass
class Counting(Engine):
    """Memory, and what was read through it."""

    whole: bool = False
    scans: list = field(default_factory=list)

    def scan(self, rule, request, kept):
        self.scans.append(len(request.pool))
        return Memory().scan(rule, request, kept)


@pytest.mark.parametrize("inner", [RISK, COVERAGE, Random()], ids=["risk", "coverage", "random"])
def test_it_picks_what_the_strategy_picks_of_the_short_list(inner):
    gone = np.arange(0, 400, 7)
    first = Margin().suggest(TASK.fitted, TASK.X_pool, 50, exclude=gone).rows
    few = np.sort(first)
    alone = inner.suggest(TASK.fitted, TASK.X_pool[few], 5, rows=few)
    got = Among(inner, most=50).suggest(TASK.fitted, TASK.X_pool, 5, exclude=gone)
    np.testing.assert_array_equal(got.rows, alone.rows)
    np.testing.assert_array_equal(got.positions, alone.rows)
    np.testing.assert_array_equal(got.utility[few], alone.utility)
    assert np.flatnonzero(~np.isnan(got.utility)).tolist() == few.tolist()


@pytest.mark.parametrize("by", [Margin(), Random()], ids=repr)
@pytest.mark.parametrize("inner", [RISK, COVERAGE], ids=["risk", "coverage"])
def test_a_pool_no_longer_than_the_list_is_seen_as_it_is(inner, by):
    gone = range(0, 400, 7)
    want = inner.suggest(TASK.fitted, TASK.X_pool, 5, exclude=gone)
    for engine in (Memory(), gw.scale.Threads(n_jobs=2)):
        among = Among(inner, by=by, most=400)
        got = among.suggest(TASK.fitted, TASK.X_pool, 5, exclude=gone, engine=engine)
        np.testing.assert_array_equal(got.rows, want.rows)
        np.testing.assert_array_equal(got.utility, want.utility)


def test_the_pool_is_read_once_and_not_at_all_for_rows_drawn():
    engine = Counting()
    got = Among(COVERAGE, most=50).suggest(TASK.fitted, TASK.X_pool, 5, engine=engine)
    assert engine.scans == [400]
    assert (got.utility, got.per_label) == (None, None)
    drawn = Among(COVERAGE, by=Random(seed=3), most=50, seed=3)
    for round in range(2):
        got = drawn.suggest(TASK.fitted, TASK.X_pool, 5, round=round, engine=engine)
        same = drawn.suggest(TASK.fitted, TASK.X_pool, 5, round=round)
        np.testing.assert_array_equal(got.rows, same.rows)
    assert engine.scans == [400]


def test_it_is_a_strategy_like_others():
    check_strategy(Among(RISK, most=10))
    check_strategy(Among(COVERAGE, by=Random(), most=10))
    turns = InTurn((Among(Random(), most=20), Among(Margin(), by=Random(), most=20)))
    check_strategy(Among(turns, most=30))
    assert Among(Random(), by=gw.GoalOriented(TASK.goal)).labels_held == len(TASK.y_dev)
    assert Among(gw.GoalOriented(TASK.goal)).progress(TASK.fitted) < 0.0
    with pytest.raises(gw.errors.BadParameter, match="most=0"):
        Among(Random(), most=0)


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("core-set among 50 by margin", Among(gw.strategies.CoreSet(), most=50)),
        (
            "random among 20 by entropy among 100 by margin",
            Among(Among(Random(), by=gw.strategies.Entropy(), most=20), most=100),
        ),
        (
            "(random until 9 then random among 5 by margin), margin in turn",
            InTurn(
                (gw.strategies.Then(Random(), Among(Random(), most=5), labels=9), Margin()),
            ),
        ),
    ],
)
def test_it_is_a_recipe(text, made):
    recipe = gw.recipe(text)
    assert str(recipe) == text
    assert gw.recipe(str(recipe)) == recipe
    assert recipe.build() == made
    assert gw.recipe(text.replace("(", "").replace(")", "")) == recipe


def test_its_recipe_asks_for_what_both_need():
    recipe = gw.recipe("decision-risk among 1000 by dev/spread")
    assert recipe.needs == {"pool", "dev"}
    with pytest.raises(gw.errors.BadParameter, match="warp"):
        gw.recipe("margin among 10 by warp")
    with pytest.raises(gw.errors.BadParameter, match="epig among 1000 by margin"):
        gw.recipe("margin among by random")
