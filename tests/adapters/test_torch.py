"""Torch networks: the head as a linear model, and all layers by products with J."""

import copy
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.datasets import load_digits

import goalward as gw
from goalward.adapters import from_torch
from goalward.errors import BadParameter, Empty, LooseFit, NotConverged, ShapeMismatch, Unsupported
from goalward.goals import DevLoss, Entropy, Fisher
from goalward.models import Labelled
from goalward.models.network import GaussNewton, smallest_eigenvalue
from goalward.utility import FirstOrder, ImplicitStep, Retrain
from tests.conftest import need

need("torch")
import torch  # noqa: E402
from torch import nn  # noqa: E402

DECAY = 0.02


def digits(seed, n_labelled=80, n_dev=150, n_pool=14):
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    cuts = np.cumsum([n_labelled, n_dev, n_pool])
    return [(X[part] / 16, y[part]) for part in np.split(order, cuts)[:3]]


def network(seed, *sizes, last=()):
    torch.manual_seed(seed)
    layers = [nn.Linear(sizes[0], sizes[1]), nn.Tanh(), nn.Linear(sizes[1], sizes[2])]
    return nn.Sequential(*layers, *last)


def trained(net, X, y, decay, steps=60, optimizer=None):
    """Train as a user would: mean loss, weight decay by the optimizer or by hand."""
    X, y = torch.tensor(X, dtype=next(net.parameters()).dtype), torch.tensor(y)
    own = torch.optim.LBFGS(
        net.parameters(), max_iter=steps * 20, tolerance_grad=1e-9, tolerance_change=1e-14,
        line_search_fn="strong_wolfe",
    )  # fmt: skip

    def closure():
        own.zero_grad()
        squares = sum((p**2).sum() for p in net.parameters())
        loss = nn.functional.cross_entropy(net(X), y) + 0.5 * decay * squares
        loss.backward()
        return loss

    own.step(closure)
    return net


@pytest.fixture(scope="module")
def task():
    (X, y), dev, (X_pool, y_pool) = digits(0)
    net = trained(network(0, 64, 8, 10).double(), X, y, DECAY)
    return X, y, dev, X_pool, y_pool, net


@pytest.mark.parametrize("seed", [0, 1])
def test_first_order_ranks_like_retraining_from_the_trained_weights(seed):
    """A two-layer network on digits, trained by LBFGS to convergence: oracle operator."""
    (X, y), dev, (X_pool, y_pool) = digits(seed, n_pool=10)
    decay = 0.05
    net = trained(network(seed, 64, 8, 10).double(), X, y, decay)
    fitted = from_torch(net, X, y, layers="all", weight_decay=decay)
    assert fitted.gradient < 1e-4
    assert fitted.validity.curvature > 0.0
    goal = DevLoss(*dev)
    oracle = gw.labels.Expected(gw.labels.Truth(y_pool))
    cheap = oracle(FirstOrder()(fitted, goal, X_pool), fitted, X_pool).numpy()
    exact = [
        float(Retrain().batch(fitted, goal, X_pool[[i], None], labels=y_pool[[i], None])[0, 0])
        for i in range(len(y_pool))
    ]
    rank = spearmanr(cheap, exact).statistic
    print(f"seed {seed}: rank correlation with retraining {rank:.3f}")
    assert rank >= 0.8


def test_all_labels_of_a_row_equal_autograd_pair_by_pair(task):
    """Against v·∇ℓ(x, k) with v from a dense Gauss-Newton matrix, all by torch.autograd."""
    X, y, dev, X_pool, _, net = task
    fitted = from_torch(net, X, y, layers="all", weight_decay=DECAY)
    solver = gw.solvers.ConjugateGradient(tol=1e-12)
    got = FirstOrder(solver=solver)(fitted, DevLoss(*dev), X_pool[:4]).numpy()

    params = list(net.parameters())

    def flat(scalar):
        return torch.cat([g.reshape(-1) for g in torch.autograd.grad(scalar, params)])

    n, K = len(X), 10
    H = n * DECAY * torch.eye(sum(p.numel() for p in params), dtype=torch.float64)
    for x in torch.tensor(X):
        f = net(x)
        J = _jacobian(net, x, params)
        p = torch.softmax(f, 0).detach()
        H += J.T @ (torch.diag(p) - torch.outer(p, p)) @ J
    log_p = nn.functional.log_softmax(net(torch.tensor(dev[0])), 1)
    tau = flat(log_p[torch.arange(len(dev[1])), torch.tensor(dev[1])].sum())
    v = -torch.linalg.solve(H, tau)
    want = np.empty((4, K))
    for i in range(4):
        for k in range(K):
            f = net(torch.tensor(X_pool[i]))
            want[i, k] = float(v @ flat(nn.functional.cross_entropy(f, torch.tensor(k))))
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-8 * np.abs(want).max())


def _jacobian(net, x, params):
    rows = []
    for k in range(10):
        grads = torch.autograd.grad(net(x)[k], params)
        rows.append(torch.cat([g.reshape(-1) for g in grads]))
    return torch.stack(rows)


@pytest.mark.parametrize("utility", [FirstOrder(), ImplicitStep()], ids=repr)
def test_the_head_equals_our_own_linear_path(task, utility):
    X, y, (X_dev, y_dev), X_pool, _, net = task
    fitted = from_torch(net, X, y, layers="last", weight_decay=DECAY, polish=True)

    def front(rows):
        with torch.no_grad():
            return net[:2](torch.tensor(rows)).numpy()

    own = gw.Logistic(C=1 / (len(X) * DECAY), penalize_intercept=True, tol=1e-12)
    linear = own.fit(front(X), y)
    want = utility(linear, DevLoss(front(X_dev), y_dev), front(X_pool))
    got = utility(fitted, DevLoss(X_dev, y_dev), X_pool).numpy()
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-8 * np.abs(want).max())


def test_a_linear_network_is_our_linear_model_by_either_road(task):
    X, y, (X_dev, y_dev), X_pool, _, _ = task
    net = nn.Sequential(nn.Linear(64, 10)).double()
    goal = DevLoss(X_dev, y_dev) + 0.1 * Entropy(X_pool)
    last, everything = (
        FirstOrder()(
            from_torch(net, X, y, layers=layers, weight_decay=DECAY, polish=True), goal, X_pool
        ).numpy()
        for layers in ("last", "all")
    )
    np.testing.assert_allclose(everything, last, rtol=0, atol=1e-6 * np.abs(last).max())


def test_jvp_and_vjp_are_adjoint_and_the_hessian_is_the_slope_of_the_gradient(task, rng):
    X, y, _, _, _, _ = task
    net = network(0, 64, 2, 10)
    options = {"weight_decay": DECAY, "polish": True, "block": 40}
    fitted = from_torch(net, X, y, layers=[net[0], net[2]], **options)
    model = fitted.model.at(fitted.params)
    v = torch.tensor(rng.normal(size=fitted.params.shape))
    c = torch.tensor(rng.normal(size=(len(X), 10)))
    rows = fitted.labelled.X
    left, right = (model.jvp(rows, v) * c).sum(), (v * model.vjp(rows, c)).sum()
    assert float(left) == pytest.approx(float(right), rel=1e-11)

    def gradient(params):
        return fitted.objective.gradient(params, fitted.model.logits(params, rows))

    h = 1e-6
    slope = (gradient(fitted.params + h * v) - gradient(fitted.params - h * v)) / (2 * h)
    logits = fitted.model.logits(fitted.params, rows)
    exact = GaussNewton(fitted.objective, fitted.params, logits, exact=True)
    np.testing.assert_allclose(exact.matvec(v), slope, rtol=1e-5, atol=1e-6 * float(slope.norm()))
    assert smallest_eigenvalue(exact) >= -1e-8 + float(torch.linalg.eigvalsh(_dense(exact))[0])


def _dense(hessian):
    size = hessian.shape[0]
    columns = [hessian.matvec(e[:, None])[:, 0] for e in torch.eye(size, dtype=torch.float64)]
    return torch.stack(columns)


def test_retraining_reaches_the_minimum_and_starts_from_the_weights(task):
    X, y, dev, X_pool, _, net = task
    fitted = from_torch(net, X, y, layers="all", weight_decay=DECAY)
    old = fitted.labelled
    row = torch.tensor(X_pool[:1])
    more = Labelled(
        torch.cat([old.X, row]), torch.cat([old.targets, old.targets[:1]]), torch.ones(81).double()
    )
    after = replace(fitted, labelled=more).polished()
    assert after.gradient < 1e-7
    moved = float((after.params - fitted.params).norm() / fitted.params.norm())
    assert 0 < moved < 0.5
    value = DevLoss(*dev).value(after) - DevLoss(*dev).value(fitted)
    label = [[int(y[0])]]
    got = Retrain().batch(fitted, DevLoss(*dev), X_pool[None, :1], labels=label)
    assert float(got[0, 0]) == pytest.approx(value, rel=1e-3)


def test_weight_decay_is_read_from_the_optimizer(task):
    X, y, _, _, _, net = task
    groups = [
        {"params": net[0].parameters(), "weight_decay": 0.1},
        {"params": net[2].parameters(), "weight_decay": 0.3},
    ]
    optimizer = torch.optim.SGD(groups, lr=0.1)
    fitted = from_torch(net, X, y, layers="all", optimizer=optimizer, polish=True)
    assert fitted.validity.penalty == pytest.approx((8.0, 24.0))
    head = from_torch(net, X, y, optimizer=optimizer, loss_reduction="sum", polish=True)
    assert float(head.penalty[0]) == pytest.approx(0.3)
    with pytest.raises(Unsupported, match="decoupled weight"):
        from_torch(net, X, y, optimizer=torch.optim.AdamW(net.parameters()))
    with pytest.raises(Unsupported, match="LBFGS has no weight_decay"):
        from_torch(net, X, y, optimizer=torch.optim.LBFGS(net.parameters()))
    with pytest.raises(BadParameter, match="does not hold"):
        from_torch(net, X, y, optimizer=torch.optim.SGD(net[0].parameters(), lr=0.1))
    with pytest.raises(BadParameter, match="exactly one"):
        from_torch(net, X, y)


@pytest.mark.parametrize("layers", ["last", "all"])
def test_an_untrained_network_is_refused_with_the_remedy(task, layers):
    X, y, _, _, _, _ = task
    with pytest.raises(NotConverged, match="polish=True"):
        from_torch(network(5, 64, 8, 10), X, y, layers=layers, weight_decay=DECAY)


def test_rows_that_say_nothing_give_no_scale_and_none_at_all_are_refused():
    net = nn.Sequential(nn.Linear(4, 3, bias=False), nn.Tanh(), nn.Linear(3, 2, bias=False))
    options = {"layers": "all", "weight_decay": 0.1}
    zeros = np.zeros((3, 4)), [0, 1, 1]
    assert from_torch(net, *zeros, polish=True, **options).flatness() < 1e-8
    with pytest.raises(NotConverged, match="polish=True"):
        from_torch(net, *zeros, **options)
    with pytest.raises(Empty, match="no rows"):
        from_torch(net, np.zeros((0, 4)), [], classes=[0, 1], **options)
    assert gw.Logistic(fit_intercept=False).fit(*zeros).flatness() == 0.0


def test_a_loose_network_is_used_with_a_warning(task):
    X, y, _, _, _, net = task
    loose = copy.deepcopy(net)
    with torch.no_grad():
        loose[2].bias += 2e-3 * torch.arange(10)
    with pytest.warns(LooseFit, match="not quite at a minimum"):
        from_torch(loose, X, y, layers="all", weight_decay=DECAY)


def test_a_saddle_and_a_missing_penalty_are_refused(task):
    X, y, _, _, _, net = task
    # With all weights nought every slope but that of the last bias vanishes: a saddle.
    flat = copy.deepcopy(net)
    with torch.no_grad():
        for p in flat.parameters():
            p.zero_()
        flat[2].bias += torch.log(torch.bincount(torch.tensor(y), minlength=10) / len(y))
    decay = {"0.weight": 1e-3, "2.weight": 1e-3, "0.bias": 1e-3}
    with pytest.raises(NotConverged, match="saddle"):
        from_torch(flat, X, y, layers="all", weight_decay=decay)
    free = {name: DECAY for name, _ in net.named_parameters() if name != "2.bias"}
    with pytest.raises(NotConverged, match="need a penalty or damping"):
        from_torch(net, X, y, layers="all", weight_decay=free, polish=True)
    damped = from_torch(net, X, y, layers="all", weight_decay=free, polish=True, damping=0.1)
    assert damped.validity.damping == 0.1


def test_dropout_is_off_and_the_callers_module_is_not_changed(task):
    X, y, (X_dev, y_dev), X_pool, _, _ = task
    net = nn.Sequential(nn.Linear(64, 8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 10))
    before = copy.deepcopy(net.state_dict())
    net.train()
    fitted = from_torch(net, X, y, weight_decay=DECAY, polish=True)
    a, b = (fitted.predict_proba(X_pool) for _ in range(2))
    assert torch.equal(a, b)
    assert net.training
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    rows = gw.GoalOriented(DevLoss(X_dev, y_dev)).suggest(fitted, X_pool, batch=3).rows
    assert len(set(rows.tolist())) == 3


def test_images_batch_norm_and_float32_pass_through_all_layers():
    """Rows of any shape are flat here; the module sees its own shape again."""
    (X, y), (X_dev, y_dev), (X_pool, _) = digits(1, n_labelled=60)
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 3, 3, stride=2), nn.BatchNorm2d(3), nn.GELU(), nn.Flatten(), nn.Linear(27, 10)
    )
    images = [rows.reshape(-1, 1, 8, 8).astype(np.float32) for rows in (X, X_dev, X_pool)]
    fitted = from_torch(net, images[0], y, layers=[net[4], net[1]], weight_decay=0.05, polish=True)
    goal = DevLoss(images[1], y_dev)
    utility = FirstOrder()(fitted, goal, images[2])
    assert tuple(utility.shape) == (14, 10)
    suggestion = gw.GoalOriented(
        goal, operator=gw.labels.Spread(), selection=gw.selection.Sequential()
    ).suggest(fitted, images[2], batch=3)
    assert len(set(suggestion.rows.tolist())) == 3
    assert suggestion.solver.residual < 1e-7
    assert "products" in suggestion.solver.reason


def test_single_precision_agrees_to_its_tolerance(task):
    X, y, dev, X_pool, _, net = task
    options = {"layers": "all", "weight_decay": DECAY}
    wide = FirstOrder()(from_torch(net, X, y, **options), DevLoss(*dev), X_pool)
    narrow = from_torch(copy.deepcopy(net).float(), X, y, **options, double=False)
    got = FirstOrder()(narrow, DevLoss(*dev), X_pool).double()
    assert float((got - wide).abs().max() / wide.abs().max()) < 5e-3


def test_features_are_computed_once_and_texts_go_in_by_inputs():
    words = ["good fine", "bad poor", "fine", "poor", "good", "bad"]
    vocabulary = {"good": 0, "fine": 1, "bad": 2, "poor": 3}

    def tokens(texts):
        ids = [[vocabulary[w] for w in text.split()] for text in texts]
        offsets = np.cumsum([0] + [len(i) for i in ids[:-1]])
        return {
            "input": torch.tensor([i for one in ids for i in one]),
            "offsets": torch.tensor(offsets),
        }

    class Bag(nn.Module):
        def __init__(self):
            super().__init__()
            self.bag, self.head = nn.EmbeddingBag(4, 3), nn.Linear(3, 2)

        def forward(self, input, offsets):
            return nn.functional.log_softmax(self.head(self.bag(input, offsets)), dim=1)

    torch.manual_seed(0)
    fitted = from_torch(
        Bag(), words, ["yes", "no"] * 3, weight_decay=0.1, classes=["no", "yes"], inputs=tokens,
        polish=True,
    )  # fmt: skip
    goal = DevLoss(["good", "poor"], ["yes", "no"])
    first = FirstOrder()(fitted, goal, words)
    passes = fitted.transform.passes
    assert torch.equal(first, FirstOrder()(fitted, goal, words))
    assert fitted.transform.passes == passes
    with pytest.raises(Unsupported, match="layers='last'"):
        from_torch(Bag(), words, ["no", "yes"] * 3, layers="all", weight_decay=0.1, inputs=tokens,
                   classes=["no", "yes"])  # fmt: skip


def test_what_cannot_be_done_is_refused(task):
    X, y, dev, X_pool, _, net = task
    fitted = from_torch(net, X, y, layers="all", weight_decay=DECAY)
    with pytest.raises(Unsupported, match="layers='last'"):
        ImplicitStep()(fitted, DevLoss(*dev), X_pool)
    with pytest.raises(Unsupported, match="Fisher information"):
        Fisher(X_pool).value(fitted)
    for name in ("badge", "bait", "bald"):
        with pytest.raises(Unsupported, match="linear"):
            gw.recipe(name).build().suggest(fitted, X_pool, batch=2)
    with pytest.raises(Unsupported, match=r"last nn\.Linear"):
        from_torch(nn.Sequential(nn.Linear(64, 10), nn.ReLU()), X, y, weight_decay=0.1)
    with pytest.raises(ShapeMismatch, match="logits"):
        from_torch(net, X, y, weight_decay=0.1, classes=["a", "b"])
    with pytest.raises(BadParameter, match="layers='middle'"):
        from_torch(net, X, y, layers="middle", weight_decay=0.1)
    with pytest.raises(Unsupported, match="got list"):
        from_torch([net], X, y, weight_decay=0.1)
