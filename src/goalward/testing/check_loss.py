"""What a loss must satisfy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.models import Loss

__all__ = ["check_loss"]

STEP = 1e-5
"""Half the width of a central difference: its error and that of rounding are both about 1e-10."""


def check_loss(loss: Loss, n_outcomes: int = 3, seed: int = 0) -> None:
    """Check slope, curvature and third derivative of a loss against differences, in NumPy.

    And that whatever may be replaced for speed (blocks, factors, means) agrees with what it
    follows from.

    Examples
    --------
    >>> from goalward.models import Softmax
    >>> check_loss(Softmax())
    """
    rng = np.random.default_rng(seed)
    f, s = rng.normal(size=(2, 6, n_outcomes))
    t = loss.proba(rng.normal(size=f.shape))
    p, Q = loss.proba(f), loss.basis(n_outcomes, f)

    def slope_of(values: Any) -> NDArray[Any]:
        above, below = values(f + STEP * s), values(f - STEP * s)
        return np.asarray((above - below) / (2 * STEP))

    def same(got: Any, expected: Any, message: str) -> None:
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-8, err_msg=message)

    slope = loss.slope(f, t)
    same(
        np.sum(slope * s, axis=1), slope_of(lambda f: loss.rows(f, t)), "slope is not that of rows"
    )
    bent = loss.curvature(p, s)
    same(bent, slope_of(lambda f: loss.slope(f, t)), "curvature is not the slope of slope")
    third = slope_of(lambda f: loss.blocks(loss.proba(f)))
    same(loss.third(p, s), third, "third is not the slope of blocks")
    along = [np.sum(loss.slope(f, np.broadcast_to(e, f.shape)) * s, axis=1) for e in np.eye(len(Q))]
    same(loss.along(p, s), np.stack(along, axis=1), "along is not ⟨slope, motion⟩ of every outcome")

    same(Q.T @ Q, np.eye(Q.shape[1]), "the basis is not orthonormal")
    unseen = np.broadcast_to(loss.unseen(s), s.shape)
    same(s - s @ Q @ Q.T, unseen, "unseen is not what lies outside the basis")
    same(loss.proba(f + unseen), p, "a direction outside the basis changes the law of a label")

    full = np.stack(
        [loss.curvature(p, np.broadcast_to(e, f.shape)) for e in np.eye(len(Q))], axis=2
    )
    inside = Q.T @ full @ Q
    same(loss.blocks(p), inside, "blocks are not QᵀΛQ")
    L = loss.factors(p)
    same(L @ L.transpose(0, 2, 1), inside, "factors do not multiply to blocks")
    same(loss.diagonal(p), np.diagonal(full, axis1=1, axis2=2), "diagonal is not that of Λ")
    w = rng.uniform(0.5, 2.0, size=len(f))
    mean = np.tensordot(w / w.sum(), full, axes=1)
    same(loss.mean_curvature(p, w), mean, "mean_curvature is not the weighted mean of Λ")
    same(loss.weighted(p, w)(s), w[:, None] * bent, "weighted is not wΛs")
    inner = (f @ Q)[:, :, None]
    same(loss.mean(inner, Q)[:, :, 0], loss.proba(f @ Q @ Q.T) @ Q, "mean is not Qᵀp at Qf")
