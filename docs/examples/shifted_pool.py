"""The pool is not where the model will be used."""

import numpy as np
from sklearn.datasets import load_digits

import goalward as gw
from goalward.lab.plots import curve_panel, figure

X, y = load_digits(return_X_y=True)
X, odd = X / 16, y % 2
served = np.isin(y, [3, 8])  # odd or even? the model will only ever see threes and eights
ROUNDS, BATCH, SEEDS = 12, 5, 8


def play(recipe, seed, *, train_on_dev=False):
    """Return the accuracy on served rows after every round."""
    rng = np.random.default_rng(seed)
    target, rest = rng.permutation(np.flatnonzero(served)), np.flatnonzero(~served)
    dev, held_out = target[:30], target[30:180]
    pool = rng.permutation(np.concatenate([target[180:], rest]))
    strategy = gw.recipe(recipe).build(seed=seed, dev=(X[dev], odd[dev]), pool=X[pool])
    known, accuracy = list(range(20)), []
    for round in range(ROUNDS + 1):
        rows = pool[known]
        if train_on_dev:
            rows = np.concatenate([rows, dev])
        fitted = gw.Logistic(C=1.0).fit(X[rows], odd[rows])
        accuracy.append(np.mean(fitted.predict(X[held_out]) == odd[held_out]))
        asked = strategy.suggest(fitted, X[pool], batch=BATCH, exclude=known, round=round)
        known += asked.rows.tolist()
    return accuracy


goal = "dev/spread/first-order/sequential-curvature"
curves = {
    "random": [play("random", seed) for seed in range(SEEDS)],
    "margin": [play("margin", seed) for seed in range(SEEDS)],
    "dev/spread": [play(goal, seed) for seed in range(SEEDS)],
    "random, and dev rows train": [
        play("random", seed, train_on_dev=True) for seed in range(SEEDS)
    ],
}
bought = BATCH * np.arange(ROUNDS + 1)
fig = figure(7.4, 4.4)
curve_panel(
    fig.subplots(),
    {name: (bought, np.array(runs)) for name, runs in curves.items()},
    ylabel="accuracy on threes and eights",
    xlabel="labels bought, after 20 (and 30 dev labels)",
)
fig.savefig("shifted_pool.png")
