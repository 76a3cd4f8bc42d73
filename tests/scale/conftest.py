"""Two workers, and a pool on disk for them."""

import numpy as np
import pytest

import goalward as gw
from goalward.scale import open_pool
from tests.conftest import need


@pytest.fixture(scope="module")
def client():
    need("distributed")
    import distributed

    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        ) as workers,
        distributed.Client(workers) as client,
    ):
        yield client


@pytest.fixture
def setting(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 8)), np.arange(60) % 4
    pool = rng.normal(size=(40_000, 8)).astype(np.float32)
    np.save(tmp_path / "pool.npy", pool)
    return (
        gw.Logistic().fit(X, y),
        gw.goals.DevLoss(X[:30], y[:30]),
        open_pool(tmp_path / "pool.npy"),
    )
