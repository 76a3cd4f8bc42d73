"""Labelled rows as if each had been left out: one Newton step of leaving it out, and C by it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import Rows, log_softmax, to_numpy
from goalward.errors import NotConverged, Separable
from goalward.models.fitted import Fitted

if TYPE_CHECKING:
    from goalward.models.fitted import Fitted
    from goalward.models.logistic import Logistic


def left_out_pull(
    fitted: Fitted, rows: Rows, targets: Any, weights: Any
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return (I - wΛM)⁻¹w(p - y) of labelled rows, their leverages M, and the basis of both.

    Without row i the parameters move by 𝓗⁻¹Jᵀ of it, in the K - 1 directions that logits can move in.
    """
    posterior = fitted.posterior(fitted.labelled.X, "Leaving rows out")
    M = to_numpy(posterior.leverage(rows, posterior.coordinates(rows)))
    logits = np.asarray(to_numpy(fitted.logits_of(rows)), dtype=np.float64)
    w = to_numpy(weights)[:, None, None]
    Q = fitted.loss.basis(logits.shape[1], logits)
    # A label that has no answer pulls nothing and bends nothing.
    known = np.asarray(to_numpy(targets), dtype=np.float64)
    proba = fitted.loss.seen(fitted.loss.proba(logits), known)
    slope = w * (fitted.loss.slope(logits, known) @ Q)[:, :, None]
    kept = np.eye(Q.shape[1]) - w * fitted.loss.blocks(proba) @ M
    return np.linalg.solve(kept, slope)[:, :, 0], M, Q


def left_out_shift(fitted: Fitted, rows: Rows, targets: Any, weights: Any) -> NDArray[Any]:
    """Return how far the logits of labelled rows move when each is left out."""
    pull, M, Q = left_out_pull(fitted, rows, targets, weights)
    return np.asarray((M @ pull[:, :, None])[:, :, 0] @ Q.T)


def left_out(fitted: Fitted) -> NDArray[Any]:
    """Return (n, k) logits of the labelled rows, each as if it had not been trained on."""
    known = fitted.labelled
    shift = left_out_shift(fitted, known.X, known.targets, known.weights)
    return np.asarray(to_numpy(fitted.logits_of(known.X)) + shift)


def left_out_likelihood(fitted: Fitted) -> float:
    """Return Σ w log p_y over the labelled rows of classes, each left out."""
    known, logits = fitted.labelled, left_out(fitted)
    t = to_numpy(known.weights)[:, None] * to_numpy(known.targets)
    return float(np.sum(t * log_softmax(logits)))


# C by approximate leave-one-out: of a few models, the one that predicts left-out rows best.


PATH = (0.01, 0.1, 1.0, 10.0)
MIDDLE = 1.0
FEW = 10
"""Labels below which nothing is chosen, and C is the middle one."""


def best_left_out(learner: Logistic, X: Any, y: Any, n: int, **given: Any) -> Fitted:
    """Return the model, of those along the path, of the highest left-out log-likelihood.

    Each fit starts from the one before; the strongest penalty is the last to be given up.
    """
    start, most = given.pop("start", None), float("-inf")
    best: Fitted | None = None
    for C in PATH if n >= FEW else (MIDDLE,):
        try:
            fitted = learner.having(C=C).fit(X, y, start=start, **given)
            value = left_out_likelihood(fitted) if n >= FEW else 0.0
        except (Separable, NotConverged):
            if best is None:
                raise
            break
        start = fitted
        if value > most:
            best, most = fitted, value
    assert best is not None
    return best
