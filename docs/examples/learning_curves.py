"""Strategies compared on the same splits."""

from goalward.lab import simulate
from goalward.lab.plots import curve_panel, figure

curves = simulate(
    "digits",
    ["random", "margin", "dev/average", "dev/spread/first-order/sequential-curvature"],
    budget=100,
    batch=10,
    seeds=4,
    n_jobs=1,  # None: all cores
    progress=False,
)
print(curves.summary(levels=(0.85,)))
print(curves.differences("random"))  # paired, with intervals

fig = figure(10.0, 4.0)
left, right = fig.subplots(1, 2)
curve_panel(left, {name: curves.curve(name) for name in curves.strategies})
losses = {name: curves.curve(name, "log_loss") for name in curves.strategies}
curve_panel(right, losses, ylabel="test log-loss")
right.get_legend().remove()
fig.savefig("learning_curves.png")
