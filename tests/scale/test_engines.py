"""Every engine gives the rows of memory; those that do not are found out."""

from dataclasses import dataclass

import numpy as np
import pytest

import goalward as gw
from goalward.scale import Cuda, Dask, Threads, open_pool
from goalward.selection.best import Best
from goalward.strategies.engine import Memory, Reader, Reading
from goalward.testing import check_engine, problem
from tests.conftest import need


@pytest.mark.parametrize("engine", [Memory(), Threads(), Threads(n_jobs=2, block=1)], ids=repr)
def test_engines_of_one_machine_give_the_rows_of_memory(engine):
    check_engine(engine)


def test_a_device_gives_the_rows_of_memory():
    need("torch")
    check_engine(Cuda("cpu", block=1))


def test_a_cluster_gives_the_rows_of_memory(client, tmp_path):
    def stored(X):
        np.save(tmp_path / "pool.npy", X)
        return open_pool(tmp_path / "pool.npy")

    check_engine(Dask(client, block=1), stored)


@dataclass(frozen=True)
class Once:
    """The whole pool as one part."""

    mistake: str = ""
    whole = False

    def scan(self, rule, request, kept):
        total, reader = len(request.pool), Reader.of(rule, request.fitted)
        names = np.arange(total) if self.mistake == "ids" else request.names(np.arange(total))
        excluded = request.excluded[:0] if self.mistake == "excluded" else request.excluded
        kept = Best(kept.count, np.uint64(1)) if self.mistake == "ties" else kept
        best = reader.best(request.pool.source, 0, 1600, excluded, kept, names)
        return Reading(best.rows, best.values)


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
