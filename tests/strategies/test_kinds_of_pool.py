"""A recipe gives the same rows whatever holds the pool: arrays, tensors or a file."""

import warnings

import numpy as np
import pytest

import goalward as gw
from tests.conftest import need

RECIPES = [
    "decision-risk/average/information/sequential",
    "dev/average",
    "entropy/spread",
    "f1/max",
    "dev/spread/implicit",
    "margin",
    "bait",
]


def suggested(text, X, pool):
    y = np.argmax(np.asarray(X)[:, :3], axis=1)
    fitted = gw.Logistic(C=0.7).fit(X[:24], y[:24])
    strategy = gw.recipe(text).build(dev=(X[24:50], y[24:50]), pool=X[50:], seed=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return strategy.suggest(fitted, pool, 6, exclude=[3, 4, 60], round=1)


def rows():
    X = np.random.default_rng(7).normal(size=(150, 5))
    X[100:110] = X[110:120] + 1e-3
    X[120:123] = X[123:126]
    return X


@pytest.mark.heavy
@pytest.mark.parametrize("text", RECIPES)
def test_tensors_give_the_same_rows(text):
    need("torch")
    import torch

    X = rows()
    plain, tensors = suggested(text, X, X[50:]), torch.asarray(X)
    there = suggested(text, tensors, tensors[50:])
    assert there.rows.tolist() == plain.rows.tolist()
    np.testing.assert_allclose(there.utility, plain.utility, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("text", RECIPES)
def test_files_give_the_same_rows(text, tmp_path):
    X = rows()
    np.save(tmp_path / "pool.npy", X[50:])
    there = suggested(text, X, gw.scale.open_pool(tmp_path / "pool.npy"))
    assert there.rows.tolist() == suggested(text, X, X[50:]).rows.tolist()
