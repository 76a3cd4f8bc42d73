"""A goal of your own: the group that is served worst."""

import numpy as np
from scipy.special import log_softmax, logsumexp

import goalward as gw
from goalward.lab.plots import curve_panel, figure

rng = np.random.default_rng(0)


def people(n):
    """Return rows, labels and groups; in the small group another feature decides."""
    group = (rng.random(n) < 0.1).astype(int)
    X = rng.normal(size=(n, 4))
    X[:, 3] = group
    y = np.where(group == 1, X[:, 1] - X[:, 0] > 0, X[:, 0] + 0.3 * X[:, 1] > 0).astype(int)
    return np.column_stack([X, X[:, :2] * group[:, None]]), y, group


X, y, group = people(1500)
X_dev, y_dev, group_dev = people(400)
X_test, y_test, group_test = people(4000)


def worst(logits):
    """Return a smooth minimum of the groups' mean log-likelihoods."""
    right = log_softmax(logits, axis=1)[np.arange(len(y_dev)), y_dev]
    means = np.array([right[group_dev == g].mean() for g in (0, 1)])
    return -logsumexp(-10 * means) / 10


goals = {
    "everybody": gw.goals.DevLoss(X_dev, y_dev),
    "worst group": gw.goals.Custom(X_dev, worst, derivatives="differences"),
}
curves = {name: [] for name in [*goals, "random"]}
for name, runs in curves.items():
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(y))
        known, line = list(order[:20]), []
        for _ in range(9):
            fitted = gw.Logistic(C=1.0).fit(X[known], y[known])
            hit = fitted.predict(X_test) == y_test
            line.append(min(hit[group_test == g].mean() for g in (0, 1)))
            strategy = (
                gw.GoalOriented(goals[name], operator=gw.labels.Spread())
                if name in goals
                else gw.strategies.Random(seed)
            )
            known += list(strategy.suggest(fitted, X, batch=5, exclude=known).rows)
        runs.append(line)

fig = figure(7.2, 4.2)
labels = np.arange(20, 61, 5)
curve_panel(
    fig.subplots(),
    {name: (labels, np.array(runs)) for name, runs in curves.items()},
    xlabel="labels",
    ylabel="accuracy in the worst group",
)
fig.savefig("worst_group.png")
