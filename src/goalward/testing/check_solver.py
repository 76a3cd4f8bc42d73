"""What a solver must satisfy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.testing.problem import problem

__all__ = ["check_solver", "explicit"]


def explicit(hessian: Any) -> NDArray[Any]:
    """Return 𝓗 as a (pK, pK) matrix, column by column from its products."""
    p, k = hessian.shape
    columns = [hessian.matvec(unit.reshape(p, k)).ravel() for unit in np.eye(p * k)]
    return np.array(columns).T


def check_solver(solver: Any, *, rtol: float = 1e-6) -> None:
    """Check `solver` against the pseudo-inverse, on every kind of intercept and K = 2, 3, 5.

    Examples
    --------
    >>> from goalward.solvers import Cholesky
    >>> check_solver(Cholesky())
    """
    for n_classes in (2, 3, 5):
        for intercept, penalised in ((True, False), (True, True), (False, False)):
            for n_features in (3, 40):
                task = problem(
                    n_classes=n_classes,
                    n_features=n_features,
                    fit_intercept=intercept,
                    penalize_intercept=penalised,
                    seed=n_classes,
                )
                _check(solver, task.fitted.hessian, task.goal.gradient(task.fitted), rtol)


def _check(solver: Any, hessian: Any, g: NDArray[Any], rtol: float) -> None:
    solve = solver.prepare(hessian)
    exact = np.linalg.pinv(explicit(hessian), rcond=1e-12) @ g.ravel()
    solution = solve(g)
    scale = np.abs(exact).max()
    np.testing.assert_allclose(
        solution.value.ravel(),
        exact,
        atol=rtol * scale,
        err_msg=f"{solver!r} differs from the least-norm solution",
    )
    residual = np.linalg.norm(hessian.matvec(solution.value) - g) / np.linalg.norm(g)
    assert abs(solution.residual - residual) <= 1e-12, (
        f"{solver!r} reports a residual of {solution.residual:.1e}; it is {residual:.1e}"
    )
    again = solve(2.0 * g).value
    np.testing.assert_allclose(
        again, 2.0 * solution.value, atol=10 * rtol * scale, err_msg=f"{solver!r} is not linear"
    )
    assert not np.any(solve(np.zeros_like(g)).value), f"{solver!r} of zero is not zero"
