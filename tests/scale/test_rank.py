"""One query over a pool of any kind: the same rows, whatever reads them."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import goalward as gw
from goalward import errors
from goalward.core.kernels.compiled import accelerate
from goalward.labels import BestCase, Expected, Predicted, Spread, WorstCase
from goalward.scale import rank
from goalward.utility.utility import chunk_rows
from tests.conftest import need
from tests.scale.setting import setting

OPERATORS = [Expected(), WorstCase(), BestCase(), Spread(), Expected(Predicted(2.0))]


@pytest.fixture
def compiled():
    need("numba")
    assert accelerate()
    yield
    accelerate(False)


@pytest.mark.parametrize("operator", OPERATORS, ids=repr)
@pytest.mark.parametrize("K", [2, 3])
def test_rank_gives_the_rows_of_suggest(K, operator):
    fitted, goal, pool = setting(K)
    out = range(0, 3000, 7)
    suggestion = gw.GoalOriented(goal, operator=operator).suggest(fitted, pool, 15, exclude=out)
    ranking = rank(pool, fitted, goal, operator=operator, batch=15, exclude=out)
    assert ranking.rows.tolist() == suggestion.rows.tolist()
    np.testing.assert_array_equal(ranking.utility, suggestion.utility[suggestion.rows])


@pytest.mark.parametrize("options", [{"block": 1}, {"n_jobs": 3, "block": 1}])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("K", [2, 26])
def test_rows_do_not_depend_on_blocks_or_threads(K, dtype, options):
    fitted, goal, pool = setting(K, dtype=dtype, n_pool=3 * chunk_rows(K) + 77)
    pool[-100:] = pool[:100]  # ties over blocks, which the seed must break alike
    whole = rank(pool, fitted, goal, operator=Spread(), batch=200, block=10 * len(pool))
    seen = []
    parts = rank(
        pool,
        fitted,
        goal,
        operator=Spread(),
        batch=200,
        progress=lambda done, total: seen.append(done),
        **options,
    )
    assert seen[0] < len(pool) == seen[-1]  # it was cut
    assert whole.rows.tolist() == parts.rows.tolist()
    np.testing.assert_array_equal(whole.utility, parts.utility)
    suggestion = gw.GoalOriented(goal, operator=Spread()).suggest(fitted, pool, 200)
    assert whole.rows.tolist() == suggestion.rows.tolist()


@pytest.mark.heavy
@pytest.mark.parametrize("K", [2, 3, 26])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("statistic", ["mean", "min", "max", "spread"])
def test_compiled_loops_give_numpys_scores(K, dtype, statistic, compiled):
    fitted, goal, pool = setting(K, dtype=dtype)
    direction = gw.utility.FirstOrder().prepare(fitted, goal)
    fast = direction.motion.reduced(pool, statistic)
    accelerate(False)
    plain = direction.motion.reduced(pool, statistic)
    # A few roundings of sums over 6 features and K classes.
    np.testing.assert_allclose(fast, plain, atol=50 * np.finfo(dtype).eps * np.abs(plain).max())
    assert fast.dtype == dtype


@pytest.mark.parametrize("K", [2, 3, 26])
def test_reduced_scores_are_the_operators_on_the_table(K):
    fitted, goal, pool = setting(K)
    utility = gw.utility.FirstOrder(per_row_penalty=True)
    per_label, proba, _ = utility.prepare(fitted, goal)(pool)
    for operator in OPERATORS[:4]:
        strategy = gw.GoalOriented(goal, operator=operator, utility=utility)
        np.testing.assert_allclose(
            strategy.suggest(fitted, pool, batch=1).utility,
            operator(per_label, fitted, pool),
            rtol=1e-9,
            atol=1e-12,
        )
    np.testing.assert_allclose(proba, fitted.predict_proba(pool), atol=1e-14)


def test_progress_counts_every_row():
    fitted, goal, pool = setting(K=26)
    seen = []
    rank(pool, fitted, goal, block=300, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (3000, 3000)
    assert len(seen) > 3
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("K", [2, 3])
def test_a_bad_number_is_found_by_its_score_and_named(K, bad):
    fitted, goal, pool = setting(K, n_pool=2 * chunk_rows(K) + 400)
    row = len(pool) - 55
    pool[row, 3] = bad
    with pytest.raises(errors.NotFinite, match=f"row {row}, column 3"):
        rank(pool, fitted, goal, block=500)
    with pytest.raises(errors.NotFinite, match=f"row {row}, column 3"):
        gw.GoalOriented(goal).suggest(fitted, pool)


@pytest.mark.heavy
@pytest.mark.parametrize("K", [2, 3])
def test_compiled_loops_let_a_bad_number_through(K, compiled):
    fitted, goal, pool = setting(K)
    pool[7, 0] = np.nan
    with pytest.raises(errors.NotFinite, match="row 7, column 0"):
        rank(pool, fitted, goal, operator=Spread())


def test_no_more_rows_than_are_left_and_none_that_the_pool_does_not_have():
    fitted, goal, pool = setting(n_pool=20)
    few = rank(pool, fitted, goal, batch=11, exclude=range(10))
    assert sorted(few.rows.tolist()) == list(range(10, 20))
    assert few.says.endswith("all that are left: 11 were asked for.")
    assert len(rank(pool, fitted, goal, exclude=range(20)).rows) == 0
    with pytest.raises(errors.BadParameter, match="not in the pool"):
        rank(pool, fitted, goal, exclude=[20])


@pytest.mark.parametrize("selection", [gw.selection.Sequential(), gw.selection.Stochastic()])
def test_every_selection_keeps_the_ids_of_its_rows(selection, tmp_path):
    """The truth is looked up by id: other ids would give other utilities."""
    fitted, goal, pool = setting()
    truth = np.random.default_rng(3).integers(3, size=len(pool))
    operator = Expected(gw.labels.Truth(truth))
    exact = operator(gw.utility.FirstOrder()(fitted, goal, pool), fitted, pool)
    ranking = rank(pool, fitted, goal, operator=operator, selection=selection, batch=5)
    np.testing.assert_allclose(ranking.utility[0], exact[ranking.rows[0]])
    if isinstance(selection, gw.selection.Stochastic):
        np.testing.assert_allclose(ranking.utility, exact[ranking.rows])


@pytest.mark.parametrize("fmt", ["coo", "bsr", "csc"])
def test_every_sparse_format_is_ranked(fmt):
    fitted, goal, pool = setting()
    expected = rank(pool, fitted, goal, batch=5)
    ranking = rank(scipy.sparse.coo_array(pool).asformat(fmt), fitted, goal, batch=5)
    assert ranking.rows.tolist() == expected.rows.tolist()
    assert ranking.bytes < 3 * pool.nbytes


@pytest.mark.parametrize("dtype", [np.int8, np.float16])
def test_narrow_numbers_are_widened_a_block_at_a_time(dtype):
    fitted, goal, pool = setting()
    narrow = np.round(10 * pool).astype(dtype)
    expected = rank(narrow.astype(np.float64), fitted, goal, batch=5)
    assert rank(narrow, fitted, goal, batch=5).rows.tolist() == expected.rows.tolist()


def test_rows_that_can_be_read_once_only_are_no_pool():
    fitted, goal, pool = setting()
    with pytest.raises(errors.Unsupported, match="generator, whose rows are gone"):
        rank((part for part in [pool]), fitted, goal)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch": True}, "batch=True"),
        ({"n_jobs": 0}, "n_jobs=0"),
        ({"block": -5}, "block=-5"),
        ({"exclude": ["a"]}, "not in the pool"),
        ({"utility": "best"}, "one of auto, .*first-order"),
        ({"client": object(), "device": "cpu"}, "one of them"),
        ({"strategy": gw.strategies.Margin()}, "of its own"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, message):
    fitted, goal, pool = setting(n_pool=50)
    with pytest.raises(errors.BadParameter, match=message):
        rank(pool, fitted, goal, **options)


def test_a_vacuous_query_warns_as_everywhere():
    fitted, goal, pool = setting()
    with pytest.warns(errors.VacuousUtility):
        rank(pool, fitted, goal, operator=Expected(Predicted()))


@pytest.mark.heavy
def test_a_device_gives_the_rows_of_the_cpu_or_refuses(tmp_path):
    """With torch's CPU device: the same road that a GPU takes, but for its kernels."""
    need("torch")
    import torch

    fitted, goal, pool = setting(n_pool=9_000)
    np.save(tmp_path / "pool.npy", pool)
    for utility in (gw.utility.FirstOrder(), gw.utility.FirstOrder(per_row_penalty=True)):
        options = {"utility": utility, "batch": 20, "exclude": range(50)}
        here = rank(pool, fitted, goal, **options)
        there = rank(tmp_path / "pool.npy", fitted, goal, device="cpu", block=1, **options)
        assert there.rows.tolist() == here.rows.tolist()
        np.testing.assert_allclose(there.utility, here.utility, rtol=1e-9)
        tensor = rank(torch.as_tensor(pool), fitted, goal, device="cpu", **options)
        np.testing.assert_array_equal(tensor.utility, there.utility)  # double stays double
    pool[8_000, 2] = np.nan
    with pytest.raises(errors.NotFinite, match="row 8000, column 2"):
        rank(pool, fitted, goal, device="cpu", block=1)
    with pytest.raises(errors.Unsupported, match="goalward doctor"):
        rank(pool, fitted, goal, device="cuda:99")
    with pytest.raises(errors.Unsupported, match="cannot be computed with device="):
        rank(pool, fitted, goal, device="cpu", utility=gw.utility.ImplicitStep())
    with pytest.raises(errors.Unsupported, match="csr_array"):
        rank(scipy.sparse.csr_array(pool), fitted, goal, device="cpu")
    scaled = make_pipeline(StandardScaler(), LogisticRegression(tol=1e-8))
    X, y = fitted.labelled.X, np.arange(60) % 3
    piped = gw.adapters.from_sklearn(scaled.fit(X, y), X, y)
    with pytest.raises(errors.Unsupported, match="pipeline"):
        rank(pool, piped, goal, device="cpu")


def test_a_pipeline_is_applied_to_every_block():
    _, goal, pool = setting()
    X, y = pool[:60] * [1, 10, 1, 1, 1, 1] + 5.0, np.arange(60) % 3
    scaled = make_pipeline(StandardScaler(), LogisticRegression(tol=1e-8))
    piped = gw.adapters.from_sklearn(scaled.fit(X, y), X, y)
    suggestion = gw.GoalOriented(goal).suggest(piped, pool, 7)
    assert rank(pool, piped, goal, batch=7, block=1).rows.tolist() == suggestion.rows.tolist()


def test_any_strategy_is_ranked_and_brings_its_own_options():
    fitted, _, pool = setting()
    margin = gw.strategies.Margin(seed=2)
    expected = margin.suggest(fitted, pool, 5).rows
    assert rank(pool, fitted, strategy=margin, batch=5).rows.tolist() == expected.tolist()
    with pytest.raises(errors.BadParameter, match="of its own"):
        rank(pool, fitted, strategy=margin, seed=1)
    with pytest.raises(errors.BadParameter, match="Pass a goal"):
        rank(pool, fitted)
    with pytest.raises(errors.BadParameter, match="block=0"):
        rank(pool, fitted, strategy=margin, block=0)
