"""A label model is fitted once a query, in the process that asks, whatever reads the pool."""

import pytest
from sklearn.naive_bayes import GaussianNB

import goalward as gw
from goalward import errors
from goalward.labels import Expected, LabelModel
from goalward.scale import Cuda, Dask, Threads, rank
from goalward.strategies.engine import Memory
from goalward.strategies.selectors import Sequential, Top
from tests.conftest import need
from tests.scale.setting import setting as small

FITS = []
"""Rows of each fit of a label model in this process; a worker has a list of its own."""


class Counted(GaussianNB):
    """Counts its fits in the process it is fitted in."""

    def fit(self, X, y, sample_weight=None):
        FITS.append(len(X))
        return super().fit(X, y, sample_weight)


def fits_on_worker():
    """Return the fits of the process this runs in."""
    return len(FITS)


@pytest.fixture(autouse=True)
def none_yet():
    FITS.clear()


def strategy(goal, selection, belief=None):
    operator = Expected(belief or LabelModel(Counted()))
    return gw.GoalOriented(goal, operator=operator, selection=selection)


@pytest.mark.parametrize("selection", [Top(), Sequential()], ids=repr)
@pytest.mark.parametrize("engine", [Memory(), Threads(n_jobs=2, block=1)], ids=repr)
def test_a_suggestion_fits_it_once(engine, selection):
    fitted, goal, pool = small(K=10)
    asked = strategy(goal, selection)
    assert len(asked.suggest(fitted, pool, batch=4, engine=engine).rows) == 4
    assert FITS == [60]


def test_reading_the_table_afterwards_fits_nothing():
    fitted, goal, pool = small()
    assert strategy(goal, Top()).suggest(fitted, pool, batch=4).per_label.shape == (3000, 3)
    assert FITS == [60]


@pytest.mark.parametrize("selection", [Top(), Sequential()], ids=repr)
def test_rank_fits_it_once(selection):
    fitted, goal, pool = small(K=10)
    operator = Expected(LabelModel(Counted()))
    rank(pool, fitted, goal, operator=operator, selection=selection, batch=4, n_jobs=2, block=1)
    assert FITS == [60]
    rank(pool, fitted, strategy=strategy(goal, selection), batch=4)
    assert FITS == [60, 60]


@pytest.mark.heavy
def test_a_device_refuses_it():
    need("torch")
    fitted, goal, pool = small()
    with pytest.raises(errors.Unsupported, match="cannot be computed with device="):
        strategy(goal, Top()).suggest(fitted, pool, batch=4, engine=Cuda("cpu"))
    assert len(FITS) <= 1


@pytest.mark.heavy
@pytest.mark.parametrize("selection", [Top(), Sequential()], ids=repr)
def test_a_cluster_fits_it_once_here_and_never_there(client, setting, selection):
    fitted, goal, pool = setting
    there = strategy(goal, selection).suggest(fitted, pool, batch=4, engine=Dask(client, block=1))
    assert FITS == [60]
    assert set(client.run(fits_on_worker).values()) == {0}
    here = strategy(goal, selection).suggest(fitted, pool, batch=4)
    assert there.rows.tolist() == here.rows.tolist()
