import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import goalward as gw
from goalward.labels import Expected, Spread, Truth, WorstCase
from goalward.strategies import Entropy, LeastConfident, Margin, Random
from goalward.testing import check_strategy, problem
from goalward.utility import Retrain, utility
from tests.conftest import need

ROOT = Path(__file__).parents[1]

TASK = problem()
STRATEGIES = [
    Random(seed=3),
    Entropy(),
    Margin(),
    LeastConfident(),
    gw.GoalOriented(TASK.goal),
    gw.GoalOriented(TASK.goal, operator=WorstCase(), utility=Retrain()),
    gw.GoalOriented(gw.goals.Entropy(TASK.X_pool), operator=Spread()),
]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
def test_strategies_conform(strategy):
    check_strategy(strategy, TASK)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
def test_any_block_size_chooses_the_same_rows(strategy, monkeypatch):
    from goalward.strategies import engine
    from goalward.utility import ladder

    whole = strategy.suggest(TASK.fitted, TASK.X_pool, batch=15)
    for room in (engine, ladder, utility):
        monkeypatch.setattr(room, "block_size", lambda n_classes: 7)
    cut = strategy.suggest(TASK.fitted, TASK.X_pool, batch=15)
    np.testing.assert_array_equal(cut.rows, whole.rows)
    np.testing.assert_allclose(cut.utility, whole.utility, atol=1e-8)


@pytest.mark.parametrize(
    "pool",
    [
        TASK.X_pool.tolist(),
        pd.DataFrame(TASK.X_pool),
        sp.csr_array(TASK.X_pool),
        sp.coo_array(TASK.X_pool),
        np.asfortranarray(TASK.X_pool),
    ],
    ids=["list", "frame", "csr", "coo", "fortran"],
)
@pytest.mark.parametrize("strategy", STRATEGIES[3:5], ids=repr)
def test_any_kind_of_pool_chooses_the_same_rows(strategy, pool):
    expected = strategy.suggest(TASK.fitted, TASK.X_pool, batch=5).rows
    np.testing.assert_array_equal(strategy.suggest(TASK.fitted, pool, batch=5).rows, expected)


def test_a_memory_mapped_pool_is_read_in_blocks(tmp_path):
    path = tmp_path / "pool.npy"
    np.save(path, TASK.X_pool.astype(np.float32))
    pool = np.load(path, mmap_mode="r")
    strategy = gw.GoalOriented(TASK.goal)
    got = strategy.suggest(TASK.fitted, pool, batch=5).rows
    np.testing.assert_array_equal(got, strategy.suggest(TASK.fitted, TASK.X_pool, batch=5).rows)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("operator", [Expected(), WorstCase(), Spread()], ids=repr)
@pytest.mark.parametrize("utility", [gw.utility.FirstOrder(), Retrain()], ids=repr)
def test_every_array_library_chooses_the_same_rows(to_xp, dtype, operator, utility):
    strategy = gw.GoalOriented(TASK.goal, operator=operator, utility=utility)
    expected = strategy.suggest(TASK.fitted, TASK.X_pool, batch=10).rows
    fitted = TASK.learner.fit(to_xp(TASK.X), TASK.y)
    X_dev, X_pool = (to_xp(X.astype(dtype)) for X in (TASK.X_dev, TASK.X_pool))
    goal = gw.goals.DevLoss(X_dev, TASK.y_dev)
    strategy = gw.GoalOriented(goal, operator=operator, utility=utility)
    got = strategy.suggest(fitted, X_pool, batch=10)
    np.testing.assert_array_equal(got.rows, expected)
    assert isinstance(got.utility, np.ndarray)


def test_a_suggestion_says_what_was_thought():
    got = gw.GoalOriented(TASK.goal).suggest(TASK.fitted, TASK.X_pool, batch=3)
    np.testing.assert_allclose(got.utility, got.per_label.mean(axis=1))
    np.testing.assert_array_equal(got.rows, np.argsort(-got.utility)[:3])
    assert got.solver.residual < 1e-8
    assert got.solver.solver == "Cholesky"


def test_a_gain_stands_under_every_label_also_for_a_part_of_the_pool():
    inner = gw.recipe("decision-risk").build(pool=TASK.X_pool)
    part = gw.strategies.Among(inner, by="random", most=10)
    got = part.suggest(TASK.fitted, TASK.X_pool, batch=2)
    assert np.isnan(got.utility).sum() == 30
    np.testing.assert_array_equal(got.per_label, np.repeat(got.utility[:, None], 3, axis=1))


def test_the_table_of_labels_is_left_out_of_large_pools(monkeypatch):
    from goalward.strategies import engine

    monkeypatch.setattr(engine, "LARGEST_TABLE", 100)
    got = gw.GoalOriented(TASK.goal).suggest(TASK.fitted, TASK.X_pool, batch=3)
    assert got.per_label is None
    assert len(got.utility) == 40


def test_ties_fall_by_the_seed():
    same = np.tile(TASK.X_pool[:1], (30, 1))
    picks = [
        tuple(Margin(seed=seed).suggest(TASK.fitted, same, batch=3).rows) for seed in (0, 0, 1, 2)
    ]
    assert picks[0] == picks[1]
    assert len(set(picks)) == 3


def test_truth_follows_ids_through_a_strategy():
    rows = np.array([11, 5, 8, 30, 2])
    strategy = gw.GoalOriented(TASK.goal, operator=Expected(Truth(TASK.y_pool)))
    small = strategy.suggest(TASK.fitted, TASK.X_pool[rows], batch=5, rows=rows)
    whole = strategy.suggest(TASK.fitted, TASK.X_pool, batch=40)
    np.testing.assert_allclose(small.utility, whole.utility[rows])
    assert set(small.rows) == set(rows)


def test_a_vacuous_choice_warns_once_for_the_pool():
    strategy = gw.GoalOriented(TASK.goal, operator=Expected(gw.labels.Predicted()))
    with pytest.warns(gw.errors.VacuousUtility) as caught:
        strategy.suggest(TASK.fitted, TASK.X_pool, batch=3)
    assert len(caught) == 1


def test_ids_must_be_distinct_and_one_per_row():
    with pytest.raises(gw.errors.DuplicateRows, match="stands 2 times"):
        Margin().suggest(TASK.fitted, TASK.X_pool[:3], batch=1, rows=[1, 2, 1])
    with pytest.raises(gw.errors.ShapeMismatch, match="one id per row"):
        Margin().suggest(TASK.fitted, TASK.X_pool[:3], batch=1, rows=[1, 2])
    texts = Margin().suggest(TASK.fitted, TASK.X_pool[:3], batch=2, rows=["a", "b", "c"])
    assert set(texts.rows) <= {"a", "b", "c"}


def test_strategies_repeat_their_recipe():
    assert repr(gw.GoalOriented(TASK.goal)) == (
        "GoalOriented(goal=DevLoss(), operator=Expected(belief=Uniform()), "
        "utility=FirstOrder(solver='auto', per_row_penalty=False), selection=Top(), seed=0)"
    )


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("dev/average/first-order/top", "dev/average/first-order/top"),
        ("dev/min", "dev/min/first-order/top"),
        ("Entropy/Predicted:2/retrain", "entropy/predicted:2/retrain/top"),
        ("random", "random"),
        ("fisher/ucb:0.5", "fisher/ucb:0.5/first-order/top"),
    ],
)
def test_recipes_are_completed(text, full):
    assert str(gw.recipe(text)) == full


def test_recipes_build_strategies():
    dev = (TASK.X_dev, TASK.y_dev)
    built = gw.recipe("dev/average/first-order/top").build(dev=dev)
    expected = gw.GoalOriented(TASK.goal).suggest(TASK.fitted, TASK.X_pool, batch=5).rows
    np.testing.assert_array_equal(built.suggest(TASK.fitted, TASK.X_pool, batch=5).rows, expected)
    oracle = gw.recipe("entropy/oracle").build(pool=TASK.X_pool, truth=TASK.y_pool)
    check_strategy_runs = oracle.suggest(TASK.fitted, TASK.X_pool, batch=2)
    assert len(check_strategy_runs.rows) == 2
    for name in ("ei", "pi", "ucb:2", "spread:3", "max", "predicted:0.5"):
        strategy = gw.recipe(f"fisher/{name}").build(pool=TASK.X_pool)
        assert len(strategy.suggest(TASK.fitted, TASK.X_pool, batch=2).rows) == 2
    for name, kind in (("random", Random), ("margin", Margin), ("entropy", Entropy)):
        assert gw.recipe(name).build(seed=4) == kind(seed=4)


@pytest.mark.parametrize(
    ("word", "kind", "need"),
    [
        ("calibrated", gw.goals.CalibratedDevLoss, "dev"),
        ("accuracy", gw.goals.SmoothAccuracy, "dev"),
        ("f1", gw.goals.SmoothF1, "dev"),
        ("soft-pool", gw.goals.SoftPool, "pool"),
    ],
)
def test_recipes_name_the_goals(word, kind, need):
    recipe = gw.recipe(f"{word}/spread/first-order/sequential")
    assert recipe.needs == {need}
    built = recipe.build(dev=(TASK.X_dev, TASK.y_dev), pool=TASK.X_pool)
    assert isinstance(built.goal, kind)
    assert built.goal.labels_held == (len(TASK.y_dev) if need == "dev" else 0)
    suggested = built.suggest(TASK.fitted, TASK.X_pool, batch=3)
    assert len(suggested.rows) == 3
    assert np.ptp(suggested.utility) > 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dev/mean", "names the operator 'mean'; known are average"),
        ("loss/average", "names the goal 'loss'"),
        ("dev/average/exact", "names the utility 'exact'"),
        ("dev/average/retrain/best", "names the selection 'best'"),
        ("dev/a/b/c/d", "has more parts"),
        ("badger", "names the strategy 'badger'"),
        ("dev/predicted:warm", "'warm' after 'predicted'"),
        ("dev/min:3", "not a number that it takes"),
    ],
)
def test_bad_recipes_are_refused(text, message):
    with pytest.raises(gw.errors.BadParameter, match=message):
        gw.recipe(text)


def test_a_recipe_without_its_data_is_refused():
    with pytest.raises(gw.errors.BadParameter, match="needs dev="):
        gw.recipe("dev/average").build()


@pytest.mark.heavy
def test_the_words_that_a_type_checker_knows_are_those_that_there_are(tmp_path):
    from goalward.strategies import goal_oriented
    from goalward.strategies import recipes as recipe_names
    from goalward.utility import ladder as named

    assert set(get_args(named.UtilityWord)) == set(named.UTILITIES)
    assert set(get_args(goal_oriented.OperatorWord)) == set(recipe_names.OPERATORS) - {"oracle"}
    assert set(get_args(goal_oriented.SelectionWord)) == set(recipe_names.SELECTIONS)
    need("mypy")
    path = tmp_path / "typed.py"
    lines = [
        "import goalward as gw",
        "goal = gw.goals.DevLoss([[0.0]], [1])",
        "gw.GoalOriented(goal, operator='spread', utility='implicit', selection='sequential')",
        "gw.GoalOriented(goal, operator='sprad')",
        "gw.GoalOriented(goal, utility='implict')",
        "gw.GoalOriented(goal, selection='sequental')",
        "reveal_type(gw.Logistic().fit([[0.0]], [1]).predict_proba([[0.0]]))",
    ]
    path.write_text("\n".join(lines))
    run = [sys.executable, "-m", "mypy", str(path)]
    told = subprocess.run(run, capture_output=True, text=True, check=False, cwd=ROOT).stdout
    assert re.findall(r"typed\.py:(\d+): error: .*\[arg-type\]", told) == ["4", "5", "6"], told
    assert 'typed.py:7: note: Revealed type is "numpy.ndarray[' in told
