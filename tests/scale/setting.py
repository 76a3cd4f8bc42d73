"""A small query for the tests of this folder."""

import numpy as np

import goalward as gw

TURNS = ("decision-risk among 1000 by margin", "coverage among 4000 by random", "margin")
"""Strategies for pools of any size: each reads the pool once at most."""


def setting(K=3, d=6, n_pool=3_000, dtype=np.float64):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, d)), np.arange(60) % K
    pool = rng.normal(size=(n_pool, d)).astype(dtype)
    dev = rng.normal(size=(40, d))
    return gw.Logistic().fit(X, y), gw.goals.DevLoss(dev, y[:40]), pool
