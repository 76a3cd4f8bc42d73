from dataclasses import replace

import numpy as np
import pytest

import goalward as gw
from goalward.core.arrays import namespace, to_numpy
from goalward.errors import ShapeMismatch
from goalward.models import Fitted, Labelled, Loss, Softmax
from goalward.solvers import Cholesky, ConjugateGradient, Dual
from goalward.testing import check_loss, problem

LOSS = Softmax()


class Sigmoids(Loss):
    """Outcomes that do not exclude one another, each with its own logit: the six methods alone."""

    def targets(self, y, classes, n_rows, name):
        return np.asarray(y, dtype=float)

    def basis(self, n_outcomes, reference):
        return namespace(reference).eye(n_outcomes, dtype=reference.dtype)

    def proba(self, logits):
        return 1.0 / (1.0 + namespace(logits).exp(-logits))

    def rows(self, logits, targets):
        xp = namespace(logits)
        return xp.sum(xp.log(1.0 + xp.exp(logits)) - targets * logits, axis=-1)

    def curvature(self, proba, motion):
        return proba * (1.0 - proba) * motion

    def third(self, proba, motion):
        bend = proba * (1.0 - proba) * (1.0 - 2.0 * proba) * motion
        return bend[:, :, None] * np.eye(proba.shape[1])


def proba(rng, n=6, k=4):
    return LOSS.proba(3 * rng.normal(size=(n, k)))


def explicit(p):
    return np.einsum("nk,kl->nkl", p, np.eye(p.shape[1])) - p[:, :, None] * p[:, None, :]


@pytest.mark.parametrize("n_outcomes", [2, 3, 7])
@pytest.mark.parametrize("loss", [Softmax(), Sigmoids()])
def test_losses_agree_with_their_differences(loss, n_outcomes):
    check_loss(loss, n_outcomes)


def test_a_wrong_curvature_is_found():
    class Wrong(Sigmoids):
        def curvature(self, proba, motion):
            return 2.0 * super().curvature(proba, motion)

    with pytest.raises(AssertionError, match="curvature is not the slope of slope"):
        check_loss(Wrong())


@pytest.mark.parametrize("solver", [None, Cholesky(), Dual(), ConjugateGradient()])
def test_another_loss_is_fitted_by_every_solver(rng, solver):
    """Three independent outcomes by three two-class softmaxes, whose columns are ∓w/2 with ρ doubled."""
    X = rng.normal(size=(40, 5))
    t = (X @ rng.normal(size=(5, 3)) + rng.normal(size=(40, 3)) > 0).astype(float)
    penalty = np.append(np.full(5, 1.0), 0.0)
    start = Fitted(
        np.zeros((6, 3)), Labelled(X, t, np.ones(40)), penalty, np.arange(3), loss=Sigmoids()
    )

    fitted = start.polished(tol=1e-10, solver=solver)

    assert fitted.flatness() < 1e-9
    for k in range(3):
        both = Labelled(X, np.stack([1 - t[:, k], t[:, k]], axis=1), np.ones(40))
        two = Fitted(np.zeros((6, 2)), both, 2 * penalty, np.arange(2)).polished(tol=1e-10)
        np.testing.assert_allclose(
            two.params[:, 1] - two.params[:, 0], fitted.params[:, k], atol=1e-7
        )


def test_targets_are_checked_by_the_loss_of_the_model():
    fitted = Fitted(
        np.zeros((2, 2)),
        Labelled(np.eye(2)[:, :1], np.eye(2), np.ones(2)),
        np.ones(2),
        np.array(["a", "b"]),
    )
    np.testing.assert_array_equal(fitted.targets(["b", "a"], 2), [[0.0, 1.0], [1.0, 0.0]])
    with pytest.raises(ShapeMismatch, match="y has 1 labels; 2 were expected"):
        fitted.targets(["b"], 2)


def test_slope_and_curvature_are_derivatives(rng, to_xp):
    f, s = rng.normal(size=(2, 5, 3))
    t = LOSS.proba(rng.normal(size=(5, 3)))
    h = 1e-6
    rows = [to_numpy(LOSS.rows(to_xp(f + e * s), to_xp(t))) for e in (h, -h)]
    slope = to_numpy(LOSS.slope(to_xp(f), to_xp(t)))
    np.testing.assert_allclose((slope * s).sum(1), (rows[0] - rows[1]) / (2 * h), rtol=1e-7)
    slopes = [to_numpy(LOSS.slope(to_xp(f + e * s), to_xp(t))) for e in (h, -h)]
    bent = to_numpy(LOSS.curvature(LOSS.proba(to_xp(f)), to_xp(s)))
    np.testing.assert_allclose(bent, (slopes[0] - slopes[1]) / (2 * h), atol=1e-9)


def test_along_is_the_slope_of_every_label_at_once(rng, to_xp):
    f, s = rng.normal(size=(2, 5, 3))
    along = to_numpy(LOSS.along(LOSS.proba(to_xp(f)), to_xp(s)))
    for k in range(3):
        slope = LOSS.slope(f, np.tile(np.eye(3)[k], (5, 1)))
        np.testing.assert_allclose(along[:, k], (slope * s).sum(1), rtol=1e-12)


@pytest.mark.parametrize("k", [2, 3, 7])
def test_the_basis_is_orthonormal_and_spans_what_sums_to_zero(k):
    Q = LOSS.basis(k, np.ones(1))
    np.testing.assert_allclose(Q.T @ Q, np.eye(k - 1), atol=1e-15)
    np.testing.assert_allclose(Q.sum(axis=0), 0.0, atol=1e-15)


def test_blocks_and_factors_are_the_curvature_in_the_basis(rng, to_xp):
    p = proba(rng)
    p[0] = [1.0, 0.0, 0.0, 0.0]  # a row whose curvature vanishes
    p[1] = [0.0, 0.0, 0.0, 1.0]
    Q = LOSS.basis(4, p)
    exact = np.einsum("kc,nkl,ld->ncd", Q, explicit(p), Q)
    np.testing.assert_allclose(to_numpy(LOSS.blocks(to_xp(p))), exact, atol=1e-15)
    L = to_numpy(LOSS.factors(to_xp(p)))
    np.testing.assert_allclose(L @ L.transpose(0, 2, 1), exact, atol=1e-15)
    inherited = to_numpy(Loss.blocks(LOSS, to_xp(p)))
    np.testing.assert_allclose(inherited, exact, atol=1e-15)


def test_the_third_derivative_is_that_of_blocks_on_every_library(rng, to_xp):
    f, s = rng.normal(size=(2, 5, 3))
    h = 1e-5
    above, below = (LOSS.blocks(LOSS.proba(f + e * s)) for e in (h, -h))
    third = to_numpy(LOSS.third(LOSS.proba(to_xp(f)), to_xp(s)))
    np.testing.assert_allclose(third, (above - below) / (2 * h), atol=1e-9)


def test_probabilities_do_not_overflow(to_xp):
    f = to_xp(np.array([[1000.0, 0.0], [-1000.0, 0.0]]))
    np.testing.assert_array_equal(to_numpy(LOSS.proba(f)), [[1.0, 0.0], [0.0, 1.0]])
    np.testing.assert_array_equal(
        to_numpy(LOSS.rows(f, to_xp(np.array([[0.0, 1.0], [0.0, 1.0]])))), [1000.0, 0.0]
    )


def test_what_is_written_for_exclusive_outcomes_refuses_others():
    """Not a number of another loss: Unsupported, in the name of what was asked."""
    task = problem()
    other = replace(task.fitted, loss=Sigmoids())
    for goal in (task.goal, gw.goals.Entropy(task.X_pool), gw.goals.DecisionRisk(task.X_pool)):
        with pytest.raises(gw.errors.Unsupported, match=type(goal).__name__):
            goal.value(other)
        with pytest.raises(gw.errors.Unsupported, match=type(goal).__name__):
            gw.GoalOriented(goal).suggest(other, task.X_pool, 2)
    with pytest.raises(gw.errors.Unsupported, match="FisherRatio"):
        gw.strategies.Bait().suggest(other, task.X_pool, 2)
    with pytest.raises(gw.errors.Unsupported, match="Retrain"):
        gw.utility.Retrain()(other, task.goal, task.X_pool)
