"""How far to trust a score: three utilities and the truth."""

from scipy.stats import spearmanr
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

import goalward as gw
from goalward.lab.plots import approximation_panel, figure

X, y = load_breast_cancer(return_X_y=True)
X = scale(X)
known, dev, pool = slice(0, 30), slice(30, 130), slice(130, 330)
fitted = gw.Logistic(C=0.5).fit(X[known], y[known])
goal = gw.goals.DevLoss(X[dev], y[dev])

operator = gw.labels.Spread()
truth = operator(gw.utility.Retrain()(fitted, goal, X[pool]), fitted, X[pool])
utilities = {
    "first order": gw.utility.FirstOrder(),
    "implicit step": gw.utility.ImplicitStep(),
    "goal evaluated": gw.utility.ImplicitStep(exact_goal=True),
}
fig = figure(10.4, 3.8)
for axes, (name, utility) in zip(fig.subplots(1, 3), utilities.items(), strict=True):
    score = operator(utility(fitted, goal, X[pool]), fitted, X[pool])
    rank = spearmanr(score, truth).statistic
    approximation_panel(axes, truth, score, title=f"{name}: rank {rank:.2f}")
    axes.set(xlabel="predicted score", ylabel="score from retraining")
    print(utility.fidelity(fitted, goal, X[pool], rows=20))
fig.savefig("how_true.png")
