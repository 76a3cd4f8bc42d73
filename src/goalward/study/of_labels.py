"""How good a model of several labels is, with an honest interval: over all rows, not those asked.

It is learned how often a yes or a no is right where its logit is so far from 0, as `accuracy.py`
learns it for classes, with terms for saying yes and for each label. Averaged over the pool that says
how many yes are right and how many rows with a label are missed, so F1 follows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from goalward.study.accuracy import MEAN, PRECISION, Estimate, counted, drawn
from goalward.study.answers import LeftOut

__all__ = ["measured_labels"]

OWN, YES = 0.5, 1.0
"""How far labels differ, and how far a yes from a no, in log-odds of being right."""
ROWS = 300
"""Rows of the pool that are averaged over."""


def measured_labels(answers: LeftOut, pool: NDArray[Any]) -> tuple[Estimate, Estimate]:
    """Return macro-F1 over a pool, and the share of its yes and no that are right.

    Answers of a row err together: its K labels count as √K answers.

    Parameters
    ----------
    answers
        (n, K): NaN where a label was not answered.
    pool
        (m, K) probabilities of rows of the pool.

    Examples
    --------
    >>> import numpy as np
    >>> proba = np.array([[0.9, 0.2], [0.3, 0.6], [0.8, 0.1], [0.2, 0.4]])
    >>> known = LeftOut(np.arange(4), (proba > 0.5).astype(float), proba, np.array([True] * 4))
    >>> f1, right = measured_labels(known, proba)
    >>> right.low < right.value < right.high, f1.value < right.value
    (True, True)
    """
    n, K = answers.proba.shape
    told = ~np.isnan(answers.truth)
    right = (answers.proba > 0.5) == (answers.truth > 0.5)
    design = _design(answers.proba, answers.chosen)
    weights = np.broadcast_to(counted(answers.chosen)[:, None] / K**0.5, (n, K))
    mean = np.concatenate([MEAN, np.zeros(1 + 2 * K)])
    precision = np.diag(np.concatenate([np.zeros(3), [YES**-2.0], np.full(2 * K, OWN**-2.0)]))
    precision[:3, :3] = PRECISION
    theta = drawn(design[told], right[told], weights[told], mean, precision)
    theta[1] = np.maximum(theta[1], 0.0)
    shown = pool[np.linspace(0, len(pool) - 1, min(len(pool), ROWS)).astype(int)]
    f1, share = np.zeros(theta.shape[1]), np.zeros(theta.shape[1])
    for k, lines in enumerate(_design(shown, np.zeros(len(shown))).swapaxes(0, 1)):
        good, yes = expit(lines @ theta), shown[:, k] > 0.5
        hits, missed = good[yes].sum(axis=0), (1.0 - good[~yes]).sum(axis=0)
        f1 += 2.0 * hits / (hits + missed + yes.sum()) / K
        share += good.mean(axis=0) / K
    return Estimate.of(f1, n), Estimate.of(share, n)


def _design(proba: NDArray[Any], chosen: NDArray[Any]) -> NDArray[Any]:
    """Return (n, K, 4 + 2K): 1, log(1 + |logit|), chosen, yes; and for each label 1 and yes."""
    n, K = proba.shape
    lead = np.log1p(np.abs(logit(np.clip(proba.astype(np.float64), 1e-12, 1.0 - 1e-12))))
    yes = (proba > 0.5) - 0.5
    picked = np.broadcast_to(np.asarray(chosen, dtype=np.float64)[:, None], (n, K))
    shared = np.stack([np.ones((n, K)), lead, picked, yes], axis=-1)
    own = np.broadcast_to(np.eye(K), (n, K, K))
    return np.concatenate([shared, own, own * yes[:, :, None]], axis=-1)
