"""What a utility must satisfy."""

from __future__ import annotations

import numpy as np
from scipy.stats import spearmanr

from goalward.testing.problem import Problem, problem
from goalward.utility import Retrain, Utility

__all__ = ["check_utility"]


def check_utility(
    utility: Utility, *, rank: float = 0.9, rtol: float | None = None, linear: bool = False
) -> None:
    """Check shapes, independence of blocks, batches, and agreement with retraining.

    Parameters
    ----------
    rank
        The rank correlation with retraining over all (row, label) pairs to reach.
    rtol
        If given, the values must agree with retraining, to this much of their scale.
    linear
        Whether the utility of twice a goal must be twice that of the goal.

    Examples
    --------
    >>> from goalward.utility import FirstOrder
    >>> check_utility(FirstOrder(), linear=True)
    """
    for n_classes in (2, 3):
        task = problem(n_classes=n_classes, n_labelled=60, C=0.5)
        _check_shape(utility, task, linear)
        _check_batches(utility, task)
        truth = Retrain()(task.fitted, task.goal, task.X_pool)
        got = utility(task.fitted, task.goal, task.X_pool)
        reached = spearmanr(truth.ravel(), got.ravel()).statistic
        assert reached >= rank, (
            f"{utility!r} has a rank correlation of {reached:.3f} with retraining; at least "
            f"{rank} was expected"
        )
        if rtol is not None:
            np.testing.assert_allclose(got, truth, atol=rtol * np.abs(truth).max())


def _check_shape(utility: Utility, task: Problem, linear: bool) -> None:
    fitted, goal, X = task.fitted, task.goal, task.X_pool
    before = X.copy()
    whole = utility(fitted, goal, X)
    assert whole.shape == (len(X), fitted.n_classes), f"{utility!r} returned {whole.shape}"
    assert np.all(np.isfinite(whole)), f"{utility!r} returned numbers that are not finite"
    assert np.array_equal(before, X), f"{utility!r} changed the pool"
    scale = np.abs(whole).max()
    parts = np.vstack([utility(fitted, goal, X[:7]), utility(fitted, goal, X[7:])])
    np.testing.assert_allclose(
        parts, whole, atol=1e-7 * scale, err_msg=f"{utility!r} depends on how the pool is cut"
    )
    if linear:
        doubled = utility(fitted, 2.0 * goal, X)
        np.testing.assert_allclose(doubled, 2.0 * whole, atol=1e-9 * scale)


def _check_batches(utility: Utility, task: Problem) -> None:
    fitted, goal, X = task.fitted, task.goal, task.X_pool
    single = utility(fitted, goal, X[:4])
    scale = np.abs(single).max()
    np.testing.assert_allclose(
        utility.batch(fitted, goal, X[:4][:, None, :]),
        single,
        atol=1e-6 * scale,
        err_msg=f"batches of one row differ from rows, under {utility!r}",
    )
    K = fitted.n_classes
    pairs = utility.batch(fitted, goal, X[None, :2])
    assert pairs.shape == (1, K * K), f"{utility!r}.batch returned {pairs.shape}"
    labelings = np.array([[a, b] for a in fitted.classes for b in fitted.classes])
    np.testing.assert_allclose(
        utility.batch(fitted, goal, X[None, :2], labels=labelings),
        pairs,
        atol=1e-9 * scale,
        err_msg=f"labels=None is not all labelings in order, under {utility!r}",
    )
