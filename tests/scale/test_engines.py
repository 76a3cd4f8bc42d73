"""Every engine gives the rows of memory; those that do not are found out."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import goalward as gw
from goalward.core.cores import cores
from goalward.core.kernels.compiled import compiled, installed
from goalward.goals import DecisionRisk
from goalward.goals.posterior import PosteriorGoal
from goalward.scale import Cuda, Dask, Threads, open_pool
from goalward.strategies import Among, GoalOriented, Margin, engine
from goalward.strategies.engine import Engine, Memory, Reader, ScanResult
from goalward.strategies.selectors import Best, Sequential
from goalward.testing import check_engine, problem
from tests.conftest import need
from tests.scale.setting import setting


@pytest.mark.parametrize("engine", [Memory(), Threads(), Threads(n_jobs=2, block=1)], ids=repr)
def test_engines_of_one_machine_give_the_rows_of_memory(engine):
    check_engine(engine)


@pytest.mark.heavy
def test_a_device_gives_the_rows_of_memory():
    need("torch")
    check_engine(Cuda("cpu", block=1))


@dataclass(frozen=True, eq=False)
class Watched(DecisionRisk):
    """It remembers in which library it was asked."""

    seen: list = field(default_factory=list, kw_only=True)

    def slope(self, logits, M):
        self.seen.append(type(M).__module__)
        return super().slope(logits, M)


class Variance(PosteriorGoal):
    """A user's, which knows NumPy alone."""

    kinds = ("class",)

    def risk(self, logits, M):
        return np.trace(M, axis1=1, axis2=2)

    def slope(self, logits, M):
        assert isinstance(logits, np.ndarray)
        return np.broadcast_to(np.eye(M.shape[1]), M.shape)


@pytest.mark.heavy
@pytest.mark.parametrize("pool", ["array", "tensor"])
def test_a_short_list_is_worked_on_where_the_device_has_it(pool):
    need("torch")
    import torch

    task = problem(n_classes=3, n_labelled=40, n_pool=500)
    rows = task.X_pool if pool == "array" else torch.as_tensor(task.X_pool)
    goal = Watched(task.X_pool[:50])
    strategy = Among(GoalOriented(goal, selection=Sequential()), most=100)
    want = strategy.suggest(task.fitted, task.X_pool, 6)
    assert goal.seen == ["numpy"]
    got = strategy.suggest(task.fitted, rows, 6, engine=Cuda("cpu"))
    assert goal.seen == ["numpy", "torch"]
    assert got.rows.tolist() == want.rows.tolist()
    np.testing.assert_allclose(got.values, want.values, rtol=1e-9)


@pytest.mark.heavy
def test_a_goal_that_knows_numpy_alone_is_given_it():
    need("torch")
    task = problem(n_classes=3, n_labelled=40, n_pool=500)
    strategy = Among(GoalOriented(Variance(task.X_pool[:50])), most=100)
    want = strategy.suggest(task.fitted, task.X_pool, 6)
    got = strategy.suggest(task.fitted, task.X_pool, 6, engine=Cuda("cpu"))
    assert got.rows.tolist() == want.rows.tolist()


@pytest.mark.heavy
def test_a_cluster_gives_the_rows_of_memory(client, tmp_path):
    def stored(X):
        np.save(tmp_path / "pool.npy", X)
        return open_pool(tmp_path / "pool.npy")

    check_engine(Dask(client, block=1), stored)


@dataclass(frozen=True)
class Once(Engine):
    """The whole pool as one part."""

    mistake: str = ""

    def scan(self, rule, request, kept):
        total, reader = len(request.pool), Reader.of(rule, request.fitted)
        names = np.arange(total) if self.mistake == "ids" else request.names(np.arange(total))
        excluded = request.excluded[:0] if self.mistake == "excluded" else request.excluded
        kept = Best(kept.count, np.uint64(1)) if self.mistake == "ties" else kept
        best = reader.best(request.pool.source, 0, 1600, excluded, kept, names)
        return ScanResult(best.rows, best.values)


def test_an_engine_of_a_few_lines_passes():
    check_engine(Once())


@pytest.mark.parametrize("mistake", ["ids", "excluded", "ties"])
def test_an_engine_with_a_mistake_is_found_out(mistake):
    with pytest.raises((AssertionError, LookupError)):
        check_engine(Once(mistake))


@pytest.mark.parametrize("engine", ["threads", Threads])
def test_what_is_no_engine_is_refused_by_name(engine):
    task = problem()
    with pytest.raises(gw.errors.BadParameter, match="Threads"):
        gw.strategies.Margin().suggest(task.fitted, task.X_pool, 2, engine=engine)


@pytest.fixture
def shared(monkeypatch):
    """A pool of any size is a large one, three threads look at it, and someone counts them."""
    monkeypatch.setattr(engine, "LARGE", 1)
    monkeypatch.setattr(engine, "cores", lambda: 3)
    used = []
    pool = engine.ThreadPoolExecutor
    monkeypatch.setattr(engine, "ThreadPoolExecutor", lambda jobs: used.append(jobs) or pool(jobs))
    return used


STRATEGIES = {
    "first order": lambda goal, X: gw.GoalOriented(goal),
    "spread": lambda goal, X: gw.GoalOriented(goal, operator=gw.labels.Spread()),
    "margin": lambda goal, X: Margin(),
    "decision risk": lambda goal, X: gw.recipe("decision-risk").build(pool=X[:50]),
    "coverage": lambda goal, X: gw.recipe("coverage").build(pool=X[:50]),
    "among": lambda goal, X: gw.recipe("decision-risk among 300 by margin").build(pool=X[:50]),
}


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("K", [2, 26])
def test_all_cores_give_the_rows_of_one(K, name, request):
    fitted, goal, X = setting(K, dtype=np.float32, n_pool=70_000 if K == 2 else 6_000)
    X[-50:] = X[:50]
    strategy = STRATEGIES[name](goal, X)
    one = strategy.suggest(fitted, X, 5, exclude=range(9))
    used = request.getfixturevalue("shared")
    all_cores = strategy.suggest(fitted, X, 5, exclude=range(9))
    assert used[0] == 3
    np.testing.assert_array_equal(all_cores.rows, one.rows)
    # Compiled loops, and blocks of another size: roundings of single precision.
    atol = 1e-4 * np.nanmax(np.abs(one.utility))
    np.testing.assert_allclose(all_cores.utility, one.utility, atol=atol)


def test_what_calls_a_users_code_and_small_pools_stay_in_one_thread(shared):
    fitted, goal, X = setting(3)
    own = gw.labels.Expected(gw.labels.Predicted(2.0))
    gw.GoalOriented(goal, operator=own).suggest(fitted, X, 5)
    gw.strategies.Random().suggest(fitted, X, 5)
    assert not shared
    engine.LARGE = 2**26
    Margin().suggest(fitted, X, 5)
    assert not shared


def test_a_bad_number_is_named_by_whichever_thread_meets_it(shared):
    fitted, goal, X = setting(26, n_pool=6_000)
    X[5_000, 3] = np.nan
    with pytest.raises(gw.errors.NotFinite, match="row 5000, column 3"):
        gw.GoalOriented(goal).suggest(fitted, X, 5)


def test_loops_are_compiled_for_large_pools_and_no_others(shared, monkeypatch):
    fitted, goal, X = setting(3)
    seen = []
    within = gw.utility.first_order.Motion.reduced
    watched = lambda *a: seen.append(compiled("shift") is not None) or within(*a)
    monkeypatch.setattr(gw.utility.first_order.Motion, "reduced", watched)
    for reader in (Memory(), Threads()):
        gw.GoalOriented(goal).suggest(fitted, X, 5, engine=reader)
    assert set(seen) == {installed()}
    assert compiled("shift") is None


def test_cores_are_those_that_blas_may_use():
    with threadpool_limits(limits=1):
        assert cores() == 1
    with threadpool_limits(limits=2, user_api="blas"):
        assert cores() == 2
