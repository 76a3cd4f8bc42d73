"""What a goal must satisfy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import to_numpy
from goalward.goals import Goal, Kernel
from goalward.models import Fitted

__all__ = ["check_goal"]


def check_goal(goal: Goal, fitted: Fitted, *, rtol: float = 1e-6, seed: int = 0) -> None:
    """Check value, gradient and curvature of `goal` at a NumPy model, against differences.

    Examples
    --------
    >>> from goalward.goals import Entropy
    >>> from goalward.testing import problem
    >>> task = problem()
    >>> check_goal(Entropy(task.X_pool), task.fitted)
    """
    rng = np.random.default_rng(seed)
    assert np.isfinite(goal.value(fitted)), f"{goal!r} has the value {goal.value(fitted)}"
    v = rng.normal(size=tuple(fitted.params.shape))
    for weight, X, kernel in goal.terms(fitted):
        assert np.isfinite(weight)
        logits = to_numpy(fitted.logits_of(X))
        step = rng.normal(size=logits.shape)
        _check_kernel(goal, kernel, logits, step, rtol)
    # Last: a kernel that is wrong makes the gradient wrong, and says better why.
    _check_gradient(goal, fitted, v, rtol)


def _check_gradient(goal: Goal, fitted: Fitted, v: NDArray[Any], rtol: float) -> None:
    gradient = to_numpy(goal.gradient(fitted))
    assert gradient.shape == tuple(fitted.params.shape), (
        f"the gradient of {goal!r} has shape {gradient.shape}, the parameters "
        f"{tuple(fitted.params.shape)}"
    )
    h = 1e-5 / np.linalg.norm(v)
    above = goal.value(replace(fitted, params=fitted.params + h * v))
    below = goal.value(replace(fitted, params=fitted.params - h * v))
    np.testing.assert_allclose(
        np.sum(gradient * v),
        (above - below) / (2 * h),
        rtol=rtol,
        # Central differences of a value τ carry rounding of τ over h.
        atol=float(1e-14 * abs(above) / h + 1e-9),
        err_msg=f"the gradient of {goal!r} is not the slope of its value",
    )


def _check_kernel(
    goal: Goal, kernel: Kernel, logits: NDArray[Any], step: NDArray[Any], rtol: float
) -> None:
    u = kernel.cotangent(logits)
    np.testing.assert_allclose(
        u.sum(axis=1),
        0.0,
        atol=1e-9 * max(1.0, np.abs(u).max()),
        err_msg=f"{goal!r} changes when a constant is added to all logits of a row",
    )
    h = 1e-5
    slope = (kernel.cotangent(logits + h * step) - kernel.cotangent(logits - h * step)) / (2 * h)
    bent = kernel.curvature(logits, step)
    scale = max(np.abs(bent).max(), 1e-12)
    np.testing.assert_allclose(
        bent,
        slope,
        rtol=rtol,
        atol=max(1e-5, 10 * rtol) * scale,
        err_msg=f"the curvature of {goal!r} is not the slope of its cotangent",
    )
    other = np.random.default_rng(1).normal(size=logits.shape)
    np.testing.assert_allclose(
        np.sum(other * bent),
        np.sum(step * kernel.curvature(logits, other)),
        rtol=max(1e-5, rtol),
        atol=1e-6 * scale,
        err_msg=f"the curvature of {goal!r} is not symmetric",
    )
    stacked = kernel.value(np.stack([logits, logits + step]))
    np.testing.assert_allclose(
        stacked,
        [float(kernel.value(logits)), float(kernel.value(logits + step))],
        rtol=1e-10,
        err_msg=f"{goal!r} of stacked models differs from one model at a time",
    )
