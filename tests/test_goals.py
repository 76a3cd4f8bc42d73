import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

import goalward as gw
from goalward.core.arrays import to_numpy
from goalward.errors import BadInput, BadParameter, NotFinite, Unsupported
from goalward.goals import (
    CalibratedDevLoss,
    Coupled,
    Custom,
    DevLoss,
    Entropy,
    ExpectedAccuracy,
    Fisher,
    SmoothAccuracy,
    SmoothF1,
    SoftPool,
    TargetSet,
    WorstGroup,
)
from goalward.goals.custom import Autograd, Differences
from goalward.goals.dev_loss import CalibratedLikelihood
from goalward.goals.kernels import (
    EachLabel,
    LikeliestClass,
    LogLikelihood,
    MinusLoss,
    NegativeEntropy,
    NegativeTrace,
    SoftPoints,
    in_pairs,
    per_label,
)
from goalward.goals.smooth import SoftF1, SoftMinimum
from goalward.models import Sigmoid, Softmax, Squared
from goalward.testing import check_goal, problem
from tests.conftest import need

SOFT = np.random.default_rng(3).dirichlet(np.ones(3), 5)
WEIGHTS = np.arange(1.0, 6.0)
GROUPS = np.array([[1.0, 0.0], [0.0, 0.25], [0.0, 0.25], [0.0, 0.25], [0.0, 0.25]])
KERNELS = {
    "hard dev": LogLikelihood(np.eye(3)[[0, 1, 2, 1, 1]]),
    "soft dev": LogLikelihood(np.random.default_rng(3).dirichlet(np.ones(3), 5)),
    "weighted dev": LogLikelihood(np.arange(5.0)[:, None] * np.eye(3)[[0, 1, 2, 1, 1]]),
    "entropy": NegativeEntropy(),
    "likeliest": LikeliestClass(),
    "fisher": NegativeTrace(np.arange(1.0, 6.0)),
    # At the logits of the tests the first has its best temperature inside, the others at a bound.
    "calibrated": CalibratedLikelihood(np.eye(3)[[0, 1, 0, 1, 1]]),
    "weighted calibrated": CalibratedLikelihood(WEIGHTS[:, None] * SOFT, 0.4, 3.0),
    "calibrated, cold": CalibratedLikelihood(np.eye(3)[[0, 1, 0, 1, 1]], 0.05, 0.3),
    "calibrated, hot": CalibratedLikelihood(np.eye(3)[[2, 2, 2, 2, 0]]),
    "worst group": SoftMinimum(
        MinusLoss(Softmax(), np.eye(3)[[0, 1, 2, 1, 1]], np.ones(5)), GROUPS, 0.5
    ),
    "soft worst group": SoftMinimum(MinusLoss(Softmax(), SOFT, WEIGHTS), GROUPS, 2.0),
    "accuracy": SoftPoints(np.eye(3)[[0, 1, 2, 1, 1]] / 5, 0.7),
    "f1": SoftF1(np.eye(3)[[0, 1, 2, 1, 1]], np.ones(5), np.array([0.0, 1.0, 0.0]), 0.7),
    "macro f1": SoftF1(SOFT, WEIGHTS, np.full(3, 1 / 3), 1.0),
}


PARTLY = np.where(SOFT > 0.6, np.nan, SOFT > 0.3)
OTHERS = {
    "labels": MinusLoss(Sigmoid(), PARTLY, WEIGHTS),
    "numbers": MinusLoss(Squared((1.0,)), SOFT, WEIGHTS),
    "entropy of labels": EachLabel(NegativeEntropy()),
    "one label": EachLabel(LikeliestClass(), 1),
    "micro f1": per_label(SoftF1(*in_pairs(PARTLY, WEIGHTS), np.array([0.0, 1.0]), 0.7), Sigmoid()),
    "worst group of numbers": SoftMinimum(MinusLoss(Squared((1.0,)), SOFT, WEIGHTS), GROUPS, 0.5),
}
"""Of losses under which every logit counts by itself: their rows need not sum to zero."""


def onto(kernel, to_xp):
    def moved(value):
        if isinstance(value, np.ndarray):
            return to_xp(value)
        return onto(value, to_xp) if hasattr(value, "cotangent") else value

    return type(kernel)(*map(moved, vars(kernel).values()))


def goals(task):
    soft = np.random.default_rng(0).dirichlet(np.ones(3), len(task.X_dev))
    return [
        task.goal,
        DevLoss(task.X_dev, soft),
        DevLoss(task.X_dev, task.y_dev, weights=np.linspace(0, 2, len(task.X_dev))),
        Entropy(task.X_pool),
        ExpectedAccuracy(task.X_pool),
        Fisher(task.X_pool),
        task.goal + 0.3 * Entropy(task.X_pool) - Fisher(task.X_pool),
        SoftPool(task.X_pool, gw.labels.LabelModel(GaussianNB())),
        CalibratedDevLoss(task.X_dev, task.y_dev),
        TargetSet(task.X_dev, task.y_dev, np.vstack([task.X_pool, task.X_dev]) + 0.2),
        WorstGroup(task.X_dev, task.y_dev, np.arange(len(task.y_dev)) % 3),
        SmoothAccuracy(task.X_dev, soft, temperature=0.5),
        SmoothF1(task.X_dev, task.y_dev, positive=2),
        SmoothF1(task.X_dev, task.y_dev) - 0.1 * CalibratedDevLoss(task.X_dev, soft),
    ]


@pytest.mark.parametrize("name", KERNELS | OTHERS)
def test_cotangent_is_the_slope_of_the_value(name, rng, to_xp):
    kernel = onto((KERNELS | OTHERS)[name], to_xp)
    f, s = rng.normal(size=(2, 5, 3))
    h = 1e-6
    slope = (float(kernel.value(to_xp(f + h * s))) - float(kernel.value(to_xp(f - h * s)))) / (
        2 * h
    )
    u = to_numpy(kernel.cotangent(to_xp(f)))
    assert np.sum(u * s) == pytest.approx(slope, rel=1e-7)


@pytest.mark.parametrize("name", KERNELS | OTHERS)
def test_curvature_is_the_slope_of_the_cotangent(name, rng, to_xp):
    kernel = onto((KERNELS | OTHERS)[name], to_xp)
    f, s = rng.normal(size=(2, 5, 3))
    h = 1e-6
    above, below = (to_numpy(kernel.cotangent(to_xp(f + e * s))) for e in (h, -h))
    bent = to_numpy(kernel.curvature(to_xp(f), to_xp(s)))
    np.testing.assert_allclose(bent, (above - below) / (2 * h), atol=1e-8)


@pytest.mark.parametrize("name", [n for n, k in KERNELS.items() if isinstance(k, Coupled)])
def test_a_coupled_curvature_is_its_rows_and_what_they_share(name, rng, to_xp):
    """The rows' own part leaves other rows alone, and rows of what they share sum to zero."""
    kernel = onto(KERNELS[name], to_xp)
    f, s = rng.normal(size=(2, 5, 3))
    alone = np.zeros_like(s)
    alone[2] = s[2]
    own = to_numpy(kernel.own(to_xp(f), to_xp(s)))
    one = to_numpy(kernel.own(to_xp(f), to_xp(alone)))
    np.testing.assert_allclose(one[2], own[2], atol=1e-14)
    assert np.abs(np.delete(one, 2, axis=0)).max() == 0.0
    vectors, middle = (to_numpy(part) for part in kernel.coupling(to_xp(f)))
    np.testing.assert_allclose(vectors.sum(axis=2), 0.0, atol=1e-12)
    np.testing.assert_allclose(middle, middle.T, atol=1e-14)
    assert (middle == 0).all() == (name in {"calibrated, cold", "calibrated, hot"})


@pytest.mark.parametrize("index", range(len(goals(problem()))))
@pytest.mark.parametrize("intercept", [True, False])
def test_goals_conform(index, intercept):
    task = problem(fit_intercept=intercept)
    check_goal(goals(task)[index], task.fitted)


def test_entropy_is_the_closed_form_of_the_appendix(rng):
    """∇τ_ent = Σ x (p∘(log p + h))ᵀ: the paper's §8 for softmax regression."""
    task = problem(fit_intercept=False)
    p = task.fitted.predict_proba(task.X_pool)
    h = -np.sum(p * np.log(p), axis=1, keepdims=True)
    goal = Entropy(task.X_pool)
    assert goal.value(task.fitted) == pytest.approx(-h.sum(), rel=1e-12)
    closed = task.X_pool.T @ (p * (np.log(p) + h))
    np.testing.assert_allclose(goal.gradient(task.fitted), closed, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("intercept", [True, False])
def test_fisher_is_minus_the_trace_of_the_mean_information(intercept):
    """tr E[∇ℓ ∇ℓᵀ] = (1 - ‖p‖²)‖x‖², with the constant column where there is one."""
    task = problem(fit_intercept=intercept)
    X, p = task.X_pool, task.fitted.predict_proba(task.X_pool)
    if intercept:
        X = np.column_stack([X, np.ones(len(X))])
    total = 0.0
    for x, q in zip(X, p, strict=True):
        for k in range(3):
            slope = np.outer(x, q - np.eye(3)[k])
            total += q[k] * np.sum(slope**2)
    assert Fisher(task.X_pool).value(task.fitted) == pytest.approx(-total / len(X), rel=1e-12)


def test_goals_add_up(rng):
    task = problem()
    a, b = task.goal, Entropy(task.X_pool)
    both = 2 * a + b * 0.5 - (-b)
    expected = 2 * a.value(task.fitted) + 1.5 * b.value(task.fitted)
    assert both.value(task.fitted) == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(
        both.gradient(task.fitted),
        2 * a.gradient(task.fitted) + 1.5 * b.gradient(task.fitted),
        atol=1e-12,
    )


def test_hard_labels_are_one_hot_soft_labels():
    task = problem()
    soft = DevLoss(task.X_dev, np.eye(3)[task.y_dev])
    assert soft.value(task.fitted) == task.goal.value(task.fitted)


def log_softmax(f):
    top = f.max(axis=1, keepdims=True)
    return f - top - np.log(np.exp(f - top).sum(axis=1, keepdims=True))


def test_custom_by_differences_equals_the_built_in_goal():
    task = problem()
    index = np.arange(len(task.y_dev)), task.y_dev
    custom = Custom(task.X_dev, lambda f: log_softmax(f)[index].sum(), derivatives="differences")
    check_goal(custom, task.fitted, rtol=1e-5)
    assert custom.value(task.fitted) == pytest.approx(task.goal.value(task.fitted), rel=1e-12)
    np.testing.assert_allclose(
        custom.gradient(task.fitted), task.goal.gradient(task.fitted), atol=1e-7
    )
    np.testing.assert_allclose(
        gw.utility.FirstOrder()(task.fitted, custom, task.X_pool),
        gw.utility.FirstOrder()(task.fitted, task.goal, task.X_pool),
        atol=1e-6,
    )


@pytest.mark.heavy
def test_custom_by_torch_equals_the_built_in_goal():
    need("torch")
    import torch

    task = problem()
    y = torch.as_tensor(task.y_dev)
    custom = Custom(task.X_dev, lambda f: -torch.nn.functional.cross_entropy(f, y, reduction="sum"))
    assert isinstance(custom.terms(task.fitted)[0].kernel, Autograd)
    check_goal(custom, task.fitted)
    np.testing.assert_allclose(
        custom.gradient(task.fitted), task.goal.gradient(task.fitted), atol=1e-12
    )


def test_custom_takes_differences_where_torch_does_not_run():
    task = problem()
    custom = Custom(
        task.X_dev, lambda f: float(np.tanh(np.asarray(f)[:, 0] - np.asarray(f)[:, 1]).sum())
    )
    assert isinstance(custom.terms(task.fitted)[0].kernel, Differences)


def test_custom_that_sees_the_gauge_is_refused():
    task = problem()
    with pytest.raises(BadInput, match="constant is added to all logits"):
        Custom(task.X_dev, lambda f: f[:, 0].sum()).value(task.fitted)
    with pytest.raises(NotFinite, match="must be finite"):
        Custom(task.X_dev, lambda f: float("nan")).value(task.fitted)
    with pytest.raises(BadParameter, match="derivatives='magic'"):
        Custom(task.X_dev, lambda f: 0.0, derivatives="magic")


def test_a_goal_names_its_utility_and_its_parts():
    task = problem()
    free, dev = gw.goals.DecisionRisk(task.X_pool), task.goal
    assert (dev.utility, free.utility) == ("first-order", "information")
    assert (2.0 * free + gw.goals.Epig(task.X_pool)).utility == "information"
    assert dev.parts == ((1.0, dev),)
    nested = gw.goals.Weighted(((3.0, 2.0 * dev + free),))
    assert nested.parts == ((6.0, dev), (3.0, free))
    with pytest.raises(Unsupported, match=r"DevLoss and DecisionRisk.*cannot be added up"):
        _ = nested.utility
