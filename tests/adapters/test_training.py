"""Training functions of one's own: what `Retrain` says is what calling them by hand gives."""

import copy

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.tree import DecisionTreeClassifier

import goalward as gw
from goalward.adapters import from_training
from goalward.errors import BadParameter, Unsupported
from goalward.testing import problem
from goalward.utility import FirstOrder, Retrain
from tests.conftest import need

need("torch")
import torch  # noqa: E402
from torch import nn  # noqa: E402

LABEL_FREE = ("margin", "entropy", "core-set", "random")


def boosting(X, y, sample_weight=None):
    model = HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=3, random_state=0)
    return model.fit(X, y, sample_weight)


def network(X, y, start=None, steps=20):
    """Train a small CNN on images: anew, or on from a network that is not moved itself."""
    torch.manual_seed(0)
    net = copy.deepcopy(start) or nn.Sequential(
        nn.Conv2d(1, 4, 2), nn.GELU(), nn.Flatten(), nn.Linear(4, 3)
    )
    images, labels = torch.tensor(X, dtype=torch.float32), torch.tensor(y)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(images), labels).backward()
        optimizer.step()
    net.predict_proba = lambda rows: net(torch.tensor(rows, dtype=torch.float32)).softmax(1)
    return net


def values(predict, task, X, y):
    p = (1 - 1e-6) * np.asarray(predict(X, y)) + 1e-6 / 3
    return np.log(p[np.arange(len(task.y_dev)), task.y_dev]).sum()


def test_boosting_is_retrained_as_by_hand_and_every_strategy_works():
    task = problem(n_pool=6)
    names = np.array(["a", "b", "c"])
    fitted = from_training(boosting, task.X, names[task.y])
    goal = gw.goals.DevLoss(task.X_dev, names[task.y_dev])
    got = Retrain()(fitted, goal, task.X_pool[:3])

    def value(X, y):
        return values(lambda X, y: boosting(X, y).predict_proba(task.X_dev), task, X, y)

    before = value(task.X, task.y)
    for i, x in enumerate(task.X_pool[:3]):
        for k in range(3):
            after = value(np.vstack([task.X, x]), np.append(task.y, k))
            assert got[i, k] == pytest.approx(after - before, abs=1e-9)
    strategy = gw.GoalOriented(goal, utility=Retrain(), selection=gw.selection.Sequential())
    assert len(set(strategy.suggest(fitted, task.X_pool, batch=2).rows.tolist())) == 2
    for name in LABEL_FREE:
        assert len(gw.recipe(name).build().suggest(fitted, task.X_pool, batch=3).rows) == 3


def test_a_network_is_fine_tuned_from_where_it_is_against_as_much_training_without_the_row():
    """Both sides start at `start`: more steps alone are no gain."""
    task = problem(n_features=4, n_pool=6)
    images = [X.reshape(-1, 1, 2, 2) for X in (task.X, task.X_dev, task.X_pool)]
    now = network(images[0], task.y, steps=5)
    before = copy.deepcopy(now.state_dict())
    fitted = from_training(network, images[0], task.y, start=now)
    got = Retrain()(fitted, gw.goals.DevLoss(images[1], task.y_dev), images[2][:2])

    def value(X, y):
        def predict(X, y):
            return network(X, y, start=now).predict_proba(images[1]).detach()

        return values(predict, task, X, y)

    base = value(images[0], task.y)
    for i in range(2):
        for k in range(3):
            more = np.concatenate([images[0], images[2][i : i + 1]])
            gain = value(more, np.append(task.y, k)) - base
            assert got[i, k] == pytest.approx(gain, abs=1e-5)
    assert all(torch.equal(before[name], value) for name, value in now.state_dict().items())
    for name in LABEL_FREE:
        assert len(gw.recipe(name).build().suggest(fitted, images[2], batch=3).rows) == 3
    with pytest.raises(Unsupported, match=r"Retrain"):
        FirstOrder()(fitted, gw.goals.DevLoss(images[1], task.y_dev), images[2])


def test_a_class_without_a_label_is_known_and_chance_is_refused():
    task = problem()
    some = task.y < 2
    fitted = from_training(boosting, task.X[some], task.y[some], classes=[0, 1, 2])
    assert fitted.predict_proba(task.X_pool).shape == (40, 3)
    assert Retrain()(fitted, task.goal, task.X_pool[:1])[0, 2] > 0.0
    rng = np.random.default_rng(0)

    def loose(X, y):
        return DecisionTreeClassifier(max_features=1, random_state=rng.integers(99)).fit(
            X[::2], y[::2]
        )

    with pytest.raises(Unsupported, match="chance counts as gain"):
        Retrain()(from_training(loose, task.X, task.y), task.goal, task.X_pool[:1])


def test_what_cannot_be_done_is_refused():
    task = problem()
    logits = nn.Linear(task.X.shape[1], 3).double()
    with pytest.raises(Unsupported, match="not logits"):
        from_training(lambda X, y: lambda X: logits(torch.tensor(X)), task.X, task.y)
    with pytest.raises(Unsupported, match="something with predict_proba"):
        from_training(lambda X, y: None, task.X, task.y)
    with pytest.raises(Unsupported, match="from_classifier"):
        from_training(DecisionTreeClassifier(), task.X, task.y)
    with pytest.raises(BadParameter, match="a parameter of that name"):
        from_training(boosting, task.X, task.y, start=logits)
    with pytest.raises(BadParameter, match="smoothing"):
        from_training(boosting, task.X, task.y, smoothing=0.0)
    with pytest.raises(Unsupported, match="takes no sample_weight"):
        from_training(
            lambda X, y: boosting(X, np.ravel(y)), task.X, task.y, np.full(len(task.y), 2.0)
        )
