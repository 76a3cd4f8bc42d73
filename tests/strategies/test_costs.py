"""Rows with prices: gain per price, under a budget, by every engine."""

from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import goalward as gw
from goalward import errors
from goalward.core.rows import Candidates
from goalward.labels import Spread, WorstCase
from goalward.scale import Cuda, Dask, Threads, open_pool, rank
from goalward.strategies import (
    Among,
    Badge,
    Bait,
    Bald,
    Boss,
    CoreSet,
    Entropy,
    LeastConfident,
    Margin,
    Random,
    Refine,
    TypiClust,
)
from goalward.strategies.selectors import PerCost, Sequential, Shortlist, Stochastic, Top
from goalward.testing import problem
from goalward.utility.utility import Rule
from tests.conftest import need
from tests.scale.conftest import client  # noqa: F401 - a fixture

TASK = problem(n_pool=60)
COSTS = np.random.default_rng(3).uniform(0.2, 4.0, 60)
BOUND = (1 - np.exp(-1)) / 2


@dataclass(frozen=True, eq=False)
class Cover(Rule):
    """How much of a weighted set a row covers that no row taken does: monotone and submodular."""

    sets: np.ndarray
    weights: np.ndarray
    covered: np.ndarray = field(default_factory=lambda: np.zeros(12, bool))

    def __call__(self, rows):
        return (self.sets[rows.ids] & ~self.covered) @ self.weights

    def after(self, rows, position, update):
        return replace(self, covered=self.covered | self.sets[rows.ids[position]])


def best_affordable(value, costs, budget):
    rows = range(len(costs))
    return max(
        value(list(some))
        for size in range(1, len(costs) + 1)
        for some in combinations(rows, size)
        if costs[list(some)].sum() <= budget
    )


@pytest.mark.parametrize("selection", [Top(), Sequential(shortlist=None, radius=None)], ids=repr)
def test_a_batch_brings_half_of_1_less_1_over_e_of_the_best_one_for_its_budget(selection):
    rng = np.random.default_rng(0)
    shares = []
    for _ in range(60):
        sets, weights = rng.random((9, 12)) < 0.3, rng.exponential(size=12) ** 2
        costs, budget = rng.exponential(size=9) ** 2 + 0.01, float(rng.uniform(0.5, 3.0))
        if costs.min() > budget:
            continue
        rule = Cover(sets, weights)
        modular = isinstance(selection, Top)

        def value(some, sets=sets, weights=weights, modular=modular):
            if modular:
                return (sets[some] @ weights).sum()
            return sets[some].any(axis=0) @ weights

        few = _shortlist(rule, costs)
        found = PerCost(selection, costs, budget)(few, 9, rng)
        assert costs[found].sum() <= budget
        shares.append(value(found) / best_affordable(value, costs, budget))
    assert min(shares) >= BOUND
    assert np.mean(shares) > 0.9
    assert max(shares) <= 1.0 + 1e-12


def _shortlist(rule, costs):
    def read(positions):
        return Candidates(positions, np.eye(len(costs))[positions], lambda X: X)

    rows = np.arange(len(costs))
    return Shortlist(rule, rows, rule(read(rows)), read)


def test_one_dear_row_that_brings_all_comes_before_many_cheap_ones():
    """Greedy by ratio alone would buy the crumb, and could not pay the loaf any more."""
    costs = np.array([0.1, 10.0])
    few = _shortlist(Gains(np.array([1.0, 50.0])), costs)
    found = PerCost(Top(), costs, 10.0)(few, 2, RNG)
    assert found.tolist() == [1]


@dataclass(frozen=True, eq=False)
class Gains(Rule):
    """Gains that stay what they are as rows are taken."""

    gains: np.ndarray

    def __call__(self, rows):
        return self.gains[rows.ids]

    def after(self, rows, position, update):
        return self


RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    "selection", [Top(), Stochastic(beta=50.0), Sequential(radius=None)], ids=repr
)
def test_a_cap_on_the_batch_is_not_filled_with_what_is_cheap(selection):
    """Five rows of gain 4 fit the budget; five that cost nothing to speak of fill the batch."""
    gains, costs = np.full(205, 4.0), np.full(205, 2.0)
    gains[:5], costs[:5] = 0.1, 0.001
    few = _shortlist(Gains(gains), costs)
    assert gains[PerCost(selection, costs, 10.0)(few, 5, RNG)].sum() == pytest.approx(20.0)
    unbounded = PerCost(Top(), costs)  # gain per price alone
    assert set(unbounded(few, 5, RNG)) == set(range(5))


def test_engines_buy_what_gains_most_where_the_cap_binds():
    """1,500 crumbs gain more per price than any of the loaves that the budget pays for."""
    pool, _ = _pool()
    utility = LeastConfident().suggest(TASK.fitted, pool, 1).utility
    costs = np.full(4000, 2.0)
    costs[np.argsort(utility)[:1500]] = 0.001
    bought = {"costs": costs, "budget": 10.0, "batch": 5}
    for engine in (None, Threads()):
        found = LeastConfident().suggest(TASK.fitted, pool, **bought, engine=engine)
        assert set(found.rows) == set(np.argsort(-utility)[:5])


@pytest.mark.parametrize(
    "strategy",
    [
        gw.GoalOriented(TASK.goal, operator=Spread()),
        gw.GoalOriented(TASK.goal, operator=Spread(), selection=Stochastic()),
        gw.GoalOriented(TASK.goal, operator=Spread(), selection=Sequential()),
        gw.GoalOriented(gw.goals.DecisionRisk(TASK.X_pool), selection=Sequential()),
        gw.GoalOriented(gw.goals.Coverage(TASK.X_pool), selection=Sequential()),
        gw.GoalOriented.recommended(TASK.X_pool),
        *(Entropy(), Margin(), LeastConfident(), Bald(), Bait(), Refine(depth=1, batches=9)),
        Among(Margin(), by="random", most=30),
    ],
    ids=repr,
)
def test_a_budget_is_kept_and_no_row_without_a_gain_is_bought(strategy):
    for budget in (1.0, 7.5):
        found = strategy.suggest(TASK.fitted, TASK.X_pool, 20, [5, 6], costs=COSTS, budget=budget)
        spent = COSTS[found.rows].sum()
        assert 0 < len(found.rows) == len(set(found.rows.tolist())) <= 20
        assert found.cost == pytest.approx(spent)
        assert spent <= budget
        assert not {5, 6} & set(found.rows.tolist())
    few = strategy.suggest(TASK.fitted, TASK.X_pool, 2, costs=COSTS, budget=100.0)
    assert len(few.rows) == 2  # the batch stays a cap


def test_without_a_budget_rows_are_in_the_order_of_gain_per_price():
    strategy = gw.GoalOriented(TASK.goal, operator=Spread())
    found = strategy.suggest(TASK.fitted, TASK.X_pool, 60, costs=COSTS)
    plain = strategy.suggest(TASK.fitted, TASK.X_pool, 60)
    assert found.rows.tolist() == np.argsort(-plain.utility / COSTS).tolist()
    np.testing.assert_array_equal(found.utility, plain.utility)  # gains, as without prices
    np.testing.assert_allclose(found.values, plain.utility[found.rows], rtol=1e-14)


def test_equal_prices_change_nothing_but_the_number_of_rows():
    for selection in (Top(), Sequential()):
        strategy = gw.GoalOriented(TASK.goal, operator=Spread(), selection=selection)
        plain = strategy.suggest(TASK.fitted, TASK.X_pool, 5)
        same = strategy.suggest(TASK.fitted, TASK.X_pool, 20, costs=np.full(60, 2.0), budget=10.0)
        assert same.rows.tolist() == plain.rows.tolist()


def test_gains_of_margin_are_counted_from_certainty():
    """Zero where the model is certain: a row is worth 1 less its margin, not less than nothing."""
    found = Margin().suggest(TASK.fitted, TASK.X_pool, 60, costs=COSTS)
    first, second = np.sort(TASK.fitted.predict_proba(TASK.X_pool), axis=1).T[:-3:-1]
    assert found.rows.tolist() == np.argsort(-(1 - (first - second)) / COSTS).tolist()


@pytest.mark.parametrize(
    "strategy",
    [
        *(Random(), CoreSet(), Badge(), TypiClust(), Boss(TASK.y)),
        gw.recipe("bait-backward").build(),
    ],
    ids=repr,
)
def test_scores_that_only_order_rows_are_refused_with_a_way_out(strategy):
    with pytest.raises(errors.Unsupported, match=r"costs= does not work with .*Use GoalOriented"):
        strategy.suggest(TASK.fitted, TASK.X_pool, 5, costs=COSTS)


def test_where_every_row_loses_none_is_bought():
    strategy = gw.GoalOriented(TASK.goal, operator=WorstCase())
    assert strategy.suggest(TASK.fitted, TASK.X_pool, 1).utility.max() < 0
    with pytest.raises(errors.PoolExhausted, match="No row is worth its price: WorstCase"):
        strategy.suggest(TASK.fitted, TASK.X_pool, 5, costs=COSTS)


def test_bad_costs_and_budgets_are_refused():
    def asked(costs, budget=None, error=errors.BadParameter, match="costs"):
        with pytest.raises(error, match=match):
            Margin().suggest(TASK.fitted, TASK.X_pool, 5, costs=costs, budget=budget)

    for bad in (0.0, -1.0, np.nan, np.inf):
        asked(np.where(np.arange(60) == 7, bad, COSTS), match=r"at costs\[7\] \(1 such\)")
    asked(COSTS[:59], error=errors.ShapeMismatch, match=r"shape \(60,\), got \(59,\)")
    asked(3.0, error=errors.ShapeMismatch)
    asked(["dear"] * 60, match="costs must be numeric")
    asked(COSTS, budget=0.0, match="budget must be .* got 0.0")
    asked(COSTS, budget=float("nan"), match="budget must be .* got nan")
    asked(None, budget=5.0, match="got 5.0 without costs")
    asked(COSTS, budget=0.1, error=errors.PoolExhausted, match="pays for no row; the cheapest")


def _pool():
    rng = np.random.default_rng(0)
    pool = rng.normal(size=(4000, TASK.X.shape[1]))
    return pool, rng.uniform(0.1, 9.0, 4000) ** 2


def _same_rows(engine, stored=lambda X: X):
    pool, costs = _pool()
    for selection in (Top(), Sequential()):
        strategy = gw.GoalOriented(TASK.goal, operator=Spread(), selection=selection)
        given = {"batch": 30, "exclude": range(0, 4000, 7), "costs": costs, "budget": 2.0}
        here = strategy.suggest(TASK.fitted, pool, **given)
        there = strategy.suggest(TASK.fitted, stored(pool), **given, engine=engine)
        assert there.rows.tolist() == here.rows.tolist()
        np.testing.assert_allclose(there.values, here.values, rtol=1e-9)
    return strategy


@pytest.mark.parametrize("engine", [Threads(), Threads(n_jobs=2, block=1)], ids=repr)
def test_threads_buy_what_memory_buys(engine):
    _same_rows(engine)


@pytest.mark.heavy
def test_a_device_buys_what_memory_buys():
    need("torch")
    _same_rows(Cuda("cpu", block=1))


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore")  # Dask's own
def test_a_cluster_buys_what_memory_buys(client, tmp_path):  # noqa: F811
    def stored(X):
        np.save(tmp_path / "pool.npy", X)
        return open_pool(tmp_path / "pool.npy")

    _same_rows(Dask(client, block=1), stored)


def test_the_dearest_row_is_found_by_engines_that_keep_the_best_per_price():
    """It gains more than all that the budget buys otherwise, and least for its price."""
    pool, _ = _pool()
    utility = LeastConfident().suggest(TASK.fitted, pool, 1).utility
    dearest = int(utility.argmax())
    costs = np.full(4000, 99.0)
    costs[np.argsort(utility)[:1500]] = 0.001
    costs[dearest] = 100.0
    alone = {"costs": costs, "budget": 100.0, "batch": 1}
    for engine in (None, Threads()):
        found = LeastConfident().suggest(TASK.fitted, pool, **alone, engine=engine)
        assert found.rows.tolist() == [dearest]
    ranked = rank(pool, TASK.fitted, strategy=LeastConfident(), **alone)
    assert ranked.rows.tolist() == [dearest]


def test_one_call_takes_prices():
    pool, costs = _pool()
    for model in (None, RandomForestClassifier(10, random_state=0)):
        found = gw.suggest(model, TASK.X, TASK.y, pool, 10, costs=costs, budget=3.0)
        assert costs[found.rows].sum() <= 3.0
        assert f"chose {len(found.rows)} of " in found.says
        assert f" rows for {found.cost:g}" in found.says
    nothing = gw.suggest(None, None, None, pool, 10, costs=costs, budget=3.0, classes=[0, 1, 2])
    assert 0 < costs[nothing.rows].sum() <= 3.0
