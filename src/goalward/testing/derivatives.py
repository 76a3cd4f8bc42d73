"""A small random task, and what goals, losses, models and solvers must satisfy on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import to_numpy
from goalward.goals import DevLoss, Goal
from goalward.models import Fitted, Loss
from goalward.models.logistic import Logistic

STEP = 1e-5
"""Half the width of a central difference: its error and that of rounding are both about 1e-10."""


@dataclass(frozen=True)
class Problem:
    """Labelled, pool and dev rows of one random classification task, and a fitted model."""

    X: NDArray[Any] = field(repr=False)
    y: NDArray[Any] = field(repr=False)
    X_pool: NDArray[Any] = field(repr=False)
    y_pool: NDArray[Any] = field(repr=False)
    X_dev: NDArray[Any] = field(repr=False)
    y_dev: NDArray[Any] = field(repr=False)
    learner: Logistic
    fitted: Fitted = field(repr=False)

    @cached_property
    def goal(self) -> DevLoss:
        """The dev loss."""
        return DevLoss(self.X_dev, self.y_dev)


def problem(
    *,
    seed: int = 0,
    n_classes: int = 3,
    n_features: int = 4,
    n_labelled: int = 30,
    n_pool: int = 40,
    n_dev: int = 25,
    **options: Any,
) -> Problem:
    """Return a task whose labels follow a random softmax model; `options` go to Logistic.

    Every class has at least one labelled row.

    Examples
    --------
    >>> problem(n_classes=2).fitted.n_classes
    2
    """
    rng = np.random.default_rng(seed)
    total = n_labelled + n_pool + n_dev
    X = rng.normal(size=(total, n_features))
    noise = rng.gumbel(size=(total, n_classes))
    y = np.argmax(X @ rng.normal(scale=1.5, size=(n_features, n_classes)) + noise, axis=1)
    y[:n_classes] = np.arange(n_classes)
    cuts = [n_labelled, n_labelled + n_pool]
    (X_l, X_p, X_d), (y_l, y_p, y_d) = np.split(X, cuts), np.split(y, cuts)
    learner = Logistic(**{"tol": 1e-11, **options})
    return Problem(X_l, y_l, X_p, y_p, X_d, y_d, learner, learner.fit(X_l, y_l))


def same(got: Any, expected: Any, message: str, rtol: float = 1e-7, atol: float = 0.0) -> None:
    """Raise with the message unless arrays agree."""
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=atol, err_msg=message)


def check_goal(goal: Goal, fitted: Fitted, *, rtol: float = 1e-6, seed: int = 0) -> None:
    """Check value, gradient and curvature of `goal` at a NumPy model, against differences.

    Examples
    --------
    >>> from goalward.goals import Entropy
    >>> task = problem()
    >>> check_goal(Entropy(task.X_pool), task.fitted)
    """
    rng = np.random.default_rng(seed)
    value = goal.value(fitted)
    assert np.isfinite(value), f"{goal!r} has the value {value}"
    shape = tuple(fitted.params.shape)
    v = rng.normal(size=shape)
    for weight, X, kernel in goal.terms(fitted):
        assert np.isfinite(weight)
        logits = to_numpy(fitted.logits_of(X))
        u, (s, other) = kernel.cotangent(logits), rng.normal(size=(2, *logits.shape))
        if fitted.loss.kind == "class":
            message = f"{goal!r} changes when a constant is added to all logits of a row"
            same(u.sum(axis=1), 0.0, message, atol=1e-9 * max(1.0, np.abs(u).max()))
        bent = kernel.curvature(logits, s)
        scale = max(np.abs(bent).max(), 1e-12)
        message = f"the curvature of {goal!r} is not the slope of its cotangent"
        atol = max(1e-5, 10 * rtol) * scale
        same(bent, _slope(kernel.cotangent, logits, s), message, rtol, atol)
        turned = np.sum(s * kernel.curvature(logits, other))
        message = f"the curvature of {goal!r} is not symmetric"
        same(np.sum(other * bent), turned, message, max(1e-5, rtol), atol=1e-6 * scale)
        models = np.stack([logits, logits + s])
        message = f"{goal!r} of stacked models differs from one model at a time"
        same(kernel.value(models), [float(kernel.value(f)) for f in models], message, 1e-10)
    # Last: a kernel that is wrong makes the gradient wrong, and says better why.
    gradient = to_numpy(goal.gradient(fitted))
    assert gradient.shape == shape, (
        f"the gradient of {goal!r} has shape {gradient.shape}, the parameters {shape}"
    )
    h = STEP / float(np.linalg.norm(v))
    slope = _slope(lambda params: goal.value(replace(fitted, params=params)), fitted.params, v, h)
    # Central differences of a value τ carry rounding of τ over h.
    rounding = float(1e-14 * abs(value) / h + 1e-9)
    message = f"the gradient of {goal!r} is not the slope of its value"
    same(np.sum(gradient * v), slope, message, rtol, rounding)


def check_loss(loss: Loss, n_outcomes: int = 3, seed: int = 0) -> None:
    """Check a loss against differences, in NumPy, and that what may be replaced for speed agrees.

    Examples
    --------
    >>> from goalward.models import Softmax
    >>> check_loss(Softmax())
    """
    rng = np.random.default_rng(seed)
    f, s = rng.normal(size=(2, 6, n_outcomes))
    t = loss.proba(rng.normal(size=f.shape))
    p, Q = loss.proba(f), loss.basis(n_outcomes, f)
    units = [np.broadcast_to(e, f.shape) for e in np.eye(len(Q))]

    def agree(got: Any, expected: Any, message: str) -> None:
        same(got, expected, message, rtol=1e-6, atol=1e-8)

    slope = np.sum(loss.slope(f, t) * s, axis=1)
    agree(slope, _slope(lambda f: loss.rows(f, t), f, s), "slope is not that of rows")
    bent = loss.curvature(p, s)
    expected = _slope(lambda f: loss.slope(f, t), f, s)
    agree(bent, expected, "curvature is not the slope of slope")
    expected = _slope(lambda f: loss.blocks(loss.proba(f)), f, s)
    agree(loss.third(p, s), expected, "third is not the slope of blocks")
    answers = np.broadcast_to(loss.answers(p), (len(f), loss.n_answers(n_outcomes), n_outcomes))
    along = [np.sum(loss.slope(f, answers[:, a]) * s, axis=1) for a in range(answers.shape[1])]
    agree(loss.along(p, s), np.stack(along, axis=1), "along is not ⟨slope, motion⟩ of every answer")
    chances, asked = loss.chances(p), loss.questions(n_outcomes)
    totals = chances.reshape(len(f), asked, -1).sum(axis=2)
    agree(totals, 1.0, "the chances of a question's answers do not sum to 1")
    away = answers - p[:, None, :]
    agree(np.einsum("nl,nlk->nk", chances, away), 0.0, "answers are not p in the mean")
    agree(loss.supposed(chances, p), p, "supposed is not the mean of the answers")
    agree(loss.supposed(loss.standing_for(t, p), p), t, "standing_for does not make the target")

    agree(Q.T @ Q, np.eye(Q.shape[1]), "the basis is not orthonormal")
    unseen = np.broadcast_to(loss.unseen(s), s.shape)
    agree(s - s @ Q @ Q.T, unseen, "unseen is not what lies outside the basis")
    agree(loss.proba(f + unseen), p, "a direction outside the basis changes the law of a label")

    full = np.stack([loss.curvature(p, e) for e in units], axis=2)
    inside = Q.T @ full @ Q
    agree(loss.blocks(p), inside, "blocks are not QᵀΛQ")
    L = loss.factors(p)
    agree(L @ L.transpose(0, 2, 1), inside, "factors do not multiply to blocks")
    agree(loss.diagonal(p), np.diagonal(full, axis1=1, axis2=2), "diagonal is not that of Λ")
    w = rng.uniform(0.5, 2.0, size=len(f))
    mean = np.average(full, axis=0, weights=w)
    agree(loss.mean_curvature(p, w), mean, "mean_curvature is not the weighted mean of Λ")
    agree(loss.weighted(p, w)(s), w[:, None] * bent, "weighted is not wΛs")
    inner = (f @ Q)[:, :, None]
    agree(loss.mean(inner, Q)[:, :, 0], loss.proba(f @ Q @ Q.T) @ Q, "mean is not Qᵀp at Qf")


def check_model(model: Any, n_features: int = 4, n_classes: int = 3, seed: int = 0) -> None:
    """Check that `vjp` is the adjoint of `jvp`, and `jvp` the slope of `logits`.

    Examples
    --------
    >>> from goalward.models import LinearModel
    >>> check_model(LinearModel(intercept=True))
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(7, n_features))
    params, v = rng.normal(size=(2, model.n_params(n_features), n_classes))
    c = rng.normal(size=(7, n_classes))
    motion = model.jvp(X, v)
    right = np.sum(v * model.vjp(X, c))
    same(np.sum(motion * c), right, "⟨Jv, c⟩ differs from ⟨v, Jᵀc⟩", 1e-12)
    slope = _slope(lambda params: model.logits(params, X), params, v)
    same(motion, slope, "jvp is not the slope of logits", 1e-6, 1e-8)


def check_solver(solver: Any, *, rtol: float = 1e-6) -> None:
    """Check `solver` against the pseudo-inverse, on every kind of intercept and K = 2, 3, 5.

    Examples
    --------
    >>> from goalward.solvers import Cholesky
    >>> check_solver(Cholesky())
    """
    intercepts = ((True, False), (True, True), (False, False))
    for n_classes, (intercept, penalised), n_features in product((2, 3, 5), intercepts, (3, 40)):
        task = problem(
            n_classes=n_classes,
            n_features=n_features,
            fit_intercept=intercept,
            penalize_intercept=penalised,
            seed=n_classes,
        )
        hessian, g = task.fitted.hessian, task.goal.gradient(task.fitted)
        solve = solver.prepare(hessian)
        solution = solve(g)
        exact = (np.linalg.pinv(explicit(hessian), rcond=1e-12) @ g.ravel()).reshape(g.shape)
        scale = np.abs(exact).max()
        message = f"{solver!r} differs from the least-norm solution"
        same(solution.value, exact, message, atol=rtol * scale)
        residual = np.linalg.norm(hessian.matvec(solution.value) - g) / np.linalg.norm(g)
        assert abs(solution.residual - residual) <= 1e-12, (
            f"{solver!r} reports a residual of {solution.residual:.1e}; it is {residual:.1e}"
        )
        twice = 2.0 * solution.value
        same(solve(2.0 * g).value, twice, f"{solver!r} is not linear", atol=10 * rtol * scale)
        assert not np.any(solve(np.zeros_like(g)).value), f"{solver!r} of zero is not zero"


def explicit(hessian: Any) -> NDArray[Any]:
    """Return 𝓗 as a (pK, pK) matrix, column by column from its products."""
    units = np.eye(np.prod(hessian.shape)).reshape(-1, *hessian.shape)
    return np.array([hessian.matvec(unit).ravel() for unit in units]).T


def _slope(values: Callable[[Any], Any], at: Any, along: Any, h: float = STEP) -> Any:
    return (values(at + h * along) - values(at - h * along)) / (2 * h)
