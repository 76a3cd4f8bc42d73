"""EK-FAC: exact where the curvature is a Kronecker product, and its own diagonal everywhere."""

import dataclasses

import numpy as np
import pytest
from sklearn.datasets import load_digits

import goalward as gw
from goalward.adapters import from_torch
from goalward.errors import NotConverged, Unsupported
from goalward.models.gauss_newton import GaussNewton
from goalward.utility import FirstOrder, NetworkStep
from tests.conftest import need

need("torch")
import torch  # noqa: E402
from torch import nn  # noqa: E402

DIGITS, LABELS = load_digits(return_X_y=True)
IMAGES = (DIGITS / 16).reshape(-1, 1, 8, 8)


def both(net, X, y, **options):
    """Return the EK-FAC curvature of a network as it is, and the Gauss-Newton matrix there."""
    fitted = from_torch(
        net, X, y, layers="all", curvature="ek-fac", classes=range(10), **options
    )  # fmt: skip
    logits = fitted.model.logits(fitted.params, fitted.labelled.X)
    damping = fitted.model.damping
    return fitted.hessian, GaussNewton(fitted.objective, fitted.params, logits, damping)


def small(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 3, 3, stride=2), nn.GELU(), nn.Conv2d(3, 4, 2), nn.Flatten(), nn.Linear(16, 10)
    )


@pytest.mark.parametrize("case", ["one row", "equal predictions"])
def test_it_is_exact_where_the_curvature_is_a_kronecker_product(case, rng):
    """One row: Λ ⊗ aaᵀ. Weights of nought: all rows have one Λ, and Λ ⊗ Σaaᵀ is left."""
    net = nn.Linear(64, 10).double()
    n = 1 if case == "one row" else 40
    if n > 1:
        nn.init.zeros_(net.weight)
        nn.init.zeros_(net.bias)
    weights = None if n == 1 else rng.uniform(0.5, 2.0, size=n)
    options = {"weight_decay": 0.01, "damping": 0.2, "sample_weight": weights}
    kronecker, true = both(net, IMAGES[:n].reshape(n, -1), LABELS[:n], **options)
    v = torch.tensor(rng.normal(size=true.shape))
    torch.testing.assert_close(kronecker.matvec(v), true.matvec(v), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(kronecker.near(true.matvec(v)), v, rtol=1e-7, atol=1e-7)


def test_it_is_the_diagonal_in_the_basis_of_every_layer_penalties_of_their_own_included(rng):
    """eᵀ𝓗e of any vector e of the basis is that of the Gauss-Newton matrix, over blocks of rows."""
    net = small()
    decay = {name: 10.0 ** -(i % 3) for i, (name, _) in enumerate(net.named_parameters())}
    kronecker, true = both(net, IMAGES[:30], LABELS[:30], weight_decay=decay)
    assert sum(layer.where.size for layer in kronecker.layers) == true.shape[0]
    for where, U, V, scale in kronecker.layers:
        for o, i in zip(*(rng.integers(size, size=4) for size in where.shape), strict=True):
            e = torch.zeros(true.shape, dtype=torch.float64)
            e[where, 0] = torch.outer(U[:, o], V[:, i])
            assert float((e * true.matvec(e)).sum()) == pytest.approx(float(scale[o, i]), rel=1e-9)


def test_an_untrained_network_is_taken_as_it_is_and_solved_in_one_product():
    fitted = from_torch(
        small(), IMAGES[:40], LABELS[:40], layers="all", weight_decay=1e-3, curvature="ek-fac"
    )
    goal = gw.goals.DevLoss(IMAGES[40:90], LABELS[40:90])
    strategy = gw.GoalOriented(goal, operator=gw.labels.Spread(), utility=FirstOrder())
    suggestion = strategy.suggest(fitted, IMAGES[90:100], batch=2)
    assert suggestion.solver.iterations <= 1
    assert suggestion.solver.residual < 1e-8
    assert fitted.validity.gradient > 1e-2
    with pytest.raises(NotConverged, match="neither penalty nor damping"):
        from_torch(small(), IMAGES[:9], LABELS[:9], layers="all", weight_decay=0.0,
                   curvature="ek-fac")  # fmt: skip


def test_a_layer_too_wide_for_eigenvectors_is_refused():
    wide = from_torch(nn.Linear(9000, 2), np.eye(2, 9000), [0, 1], layers="all",
                      weight_decay=1.0, curvature="ek-fac")  # fmt: skip
    with pytest.raises(Unsupported, match="9000 inputs"):
        FirstOrder()(wide, gw.goals.DevLoss(np.zeros((1, 9000)), [0]), np.zeros((1, 9000)))


def test_the_network_step_minimises_the_quadratic_plus_the_rows_own_loss():
    """Against LBFGS on ½δᵀ𝓗δ + Σ ℓ(f + Jδ, k), then the network at θ + δ; a row, and a batch."""
    options = {"layers": "all", "weight_decay": 1e-2, "curvature": "ek-fac"}
    fitted = from_torch(small(), IMAGES[:30], LABELS[:30], **options)
    goal = gw.goals.DevLoss(IMAGES[40:60], LABELS[40:60])
    rows = fitted.features(IMAGES[60:62])
    model, eye = fitted.model.at(fitted.params), torch.eye(10).double()
    J = model.row_slopes(rows, eye.expand(2, 10, 10)).reshape(2, 10, -1)
    f = fitted.logits_of(rows)

    def gain(which, labels):
        delta = torch.zeros_like(fitted.params, requires_grad=True)
        search = torch.optim.LBFGS(
            [delta], max_iter=300, tolerance_grad=1e-10, tolerance_change=1e-14,
            line_search_fn="strong_wolfe",
        )  # fmt: skip

        def closure():
            search.zero_grad()
            own = nn.functional.cross_entropy(
                f[which] + (J[which] @ delta)[..., 0], torch.tensor(labels), reduction="sum"
            )
            loss = own + 0.5 * (delta * fitted.hessian.matvec(delta)).sum()
            loss.backward()
            return loss

        search.step(closure)
        moved = dataclasses.replace(fitted, params=(fitted.params + delta).detach())
        return goal.value(moved) - goal.value(fitted)

    got = NetworkStep()(fitted, goal, IMAGES[60:62])
    for i, k in [(0, 3), (1, 7)]:
        assert float(got[i, k]) == pytest.approx(gain([i], [k]), rel=1e-4)
    pair = NetworkStep().batch(fitted, goal, [IMAGES[60:62]], labels=[[3, 7]])
    assert float(pair[0, 0]) == pytest.approx(gain([0, 1], [3, 7]), rel=1e-4)


def test_the_network_step_wants_an_inverse():
    net = small()
    plain = from_torch(net, IMAGES[:9], LABELS[:9], layers="all", weight_decay=1.0, polish=True)
    goal = gw.goals.DevLoss(IMAGES[:3], LABELS[:3])
    with pytest.raises(Unsupported, match="curvature='ek-fac'"):
        NetworkStep()(plain, goal, IMAGES[:2])
    with pytest.raises(Unsupported, match="ImplicitStep"):
        NetworkStep()(gw.Logistic().fit(DIGITS[:9], LABELS[:9]), goal, DIGITS[:2])
