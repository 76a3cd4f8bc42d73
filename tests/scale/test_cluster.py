"""Workers read the file themselves; losing one changes nothing."""

import os
import signal
import threading
import time

import numpy as np
import pytest

import goalward as gw
from goalward import errors
from goalward.labels import Expected, Predicted, Spread
from goalward.scale import rank
from tests.conftest import need

need("distributed")

pytestmark = pytest.mark.filterwarnings("ignore")  # Dask's own


QUERIES = {
    "first order": {"operator": Spread()},
    "implicit step": {
        "operator": Expected(Predicted(2.0)),
        "utility": gw.utility.ImplicitStep(),
    },
}


@pytest.mark.parametrize("name", QUERIES)
def test_a_cluster_gives_the_rows_of_one_process(name, client, setting):
    fitted, goal, pool = setting
    options = {**QUERIES[name], "batch": 25, "exclude": range(0, 40_000, 11)}
    alone = rank(pool, fitted, goal, **options)
    seen = []
    many = rank(
        pool, fitted, goal, client=client, block=700, progress=lambda *a: seen.append(a), **options
    )
    assert many.rows.tolist() == alone.rows.tolist()
    # The implicit step iterates over blocks together, to a tolerance.
    np.testing.assert_allclose(many.utility, alone.utility, rtol=1e-7)
    assert seen[-1] == (40_000, 40_000)


def test_rows_in_memory_are_not_sent_around(client, setting):
    fitted, goal, pool = setting
    with pytest.raises(errors.Unsupported, match="Save it with numpy"):
        rank(np.asarray(pool), fitted, goal, client=client)


class Slow(Spread):
    """An operator that gives a test the time to kill a worker."""

    @property
    def statistic(self):
        return None

    def resolve(self, utility, belief):
        time.sleep(0.05)
        return super().resolve(utility, belief)


@pytest.mark.attack("workers killed, or gone for good")
def test_a_worker_killed_mid_run_changes_nothing(client, setting):
    fitted, goal, pool = setting
    alone = rank(pool, fitted, goal, operator=Spread(), batch=25)
    pids = client.run(os.getpid)
    first = threading.Event()
    killed = []

    def progress(done, total):
        if not killed and done < total:
            killed.append(next(iter(pids.values())))
            os.kill(killed[0], signal.SIGKILL)
            first.set()

    many = rank(
        pool, fitted, goal, operator=Slow(), batch=25, client=client, block=1024, progress=progress
    )
    assert first.is_set()
    assert many.rows.tolist() == alone.rows.tolist()
