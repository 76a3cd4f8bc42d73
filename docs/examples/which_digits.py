"""Which digits are worth a label."""

import numpy as np
from sklearn.datasets import load_digits

import goalward as gw
from goalward.lab.plots import figure

X, y = load_digits(return_X_y=True)
X = X / 16
order = np.random.default_rng(0).permutation(len(y))
known, dev, pool = order[:60], order[60:210], order[210:]

fitted = gw.Logistic(C=1.0).fit(X[known], y[known])
goal = gw.goals.DevLoss(X[dev], y[dev])
strategy = gw.GoalOriented(
    goal,
    operator=gw.labels.Spread(),
    selection=gw.selection.Sequential(update="curvature"),
)
suggestion = strategy.suggest(fitted, X[pool], batch=10)
lines = {
    "the goal asks for": suggestion.rows,
    "margin asks for": gw.strategies.Margin().suggest(fitted, X[pool], batch=10).rows,
    "would change nothing": np.argsort(suggestion.utility)[:10],
}

fig = figure(9.0, 3.9)
guess = fitted.predict(X[pool])
for line, (title, rows) in zip(fig.subplots(3, 10), lines.items(), strict=True):
    for axes, row in zip(line, rows, strict=True):
        axes.imshow(X[pool][row].reshape(8, 8), cmap="gray_r")
        right = guess[row] == y[pool][row]
        axes.set_title(f"{guess[row]}", fontsize=10, color="black" if right else "#c2571a")
        axes.set(xticks=[], yticks=[])
    line[0].set_ylabel(title.replace(" ", "\n", 1), fontsize=9, rotation=0, ha="right", va="center")
fig.savefig("which_digits.png")
