"""Approximate leave-one-out predictions, by one Newton step per row."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import Rows, log_softmax, to_numpy
from goalward.models.fitted import Fitted


def left_out_pull(
    fitted: Fitted, rows: Rows, targets: Any, weights: Any
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return (I - wΛM)⁻¹w(p - y) of labelled rows, the motion of their logits, and its basis."""
    posterior = fitted.posterior(fitted.labelled.X, "Leaving rows out")
    M = to_numpy(posterior.leverage(rows, posterior.coordinates(rows)))
    logits = np.asarray(to_numpy(fitted.logits_of(rows)), dtype=np.float64)
    w = to_numpy(weights)[:, None, None]
    Q = fitted.loss.basis(logits.shape[1], logits)
    # Missing answers have neither slope nor curvature.
    known = np.asarray(to_numpy(targets), dtype=np.float64)
    proba = fitted.loss.seen(fitted.loss.proba(logits), known)
    slope = w * (fitted.loss.slope(logits, known) @ Q)[:, :, None]
    kept = np.eye(Q.shape[1]) - w * fitted.loss.blocks(proba) @ M
    pull = np.linalg.solve(kept, slope)
    return pull[:, :, 0], (M @ pull)[:, :, 0] @ Q.T, Q


def left_out(fitted: Fitted) -> NDArray[Any]:
    """Return (n, k) leave-one-out logits of the labelled rows."""
    known = fitted.labelled
    _, shift, _ = left_out_pull(fitted, known.X, known.targets, known.weights)
    return np.asarray(to_numpy(fitted.logits_of(known.X)) + shift)


def left_out_likelihood(fitted: Fitted) -> float:
    """Return Σ w log p_y over labelled rows, each left out."""
    known, logits = fitted.labelled, left_out(fitted)
    t = to_numpy(known.weights)[:, None] * to_numpy(known.targets)
    return float(np.sum(t * log_softmax(logits)))
