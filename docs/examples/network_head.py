"""The last layer of a torch network."""

import numpy as np
import torch
from sklearn.datasets import make_moons
from torch import nn

import goalward as gw
from goalward.lab.plots import figure

X, y = make_moons(600, noise=0.2, random_state=0)
known, dev, pool = slice(0, 25), slice(25, 125), slice(125, None)

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 16), nn.Tanh(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=1e-3)
inputs, labels = torch.tensor(X[known], dtype=torch.float32), torch.tensor(y[known])
for _ in range(400):
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(inputs), labels).backward()
    optimizer.step()

head = gw.adapters.from_torch(net, X[known], y[known], optimizer=optimizer, polish=True)
strategy = gw.GoalOriented(
    gw.goals.DevLoss(X[dev], y[dev]),
    operator=gw.labels.Spread(),
    utility=gw.utility.ImplicitStep(),
    selection=gw.selection.Sequential(update="curvature"),
)
asked = strategy.suggest(head, X[pool], batch=8).rows

shown = np.stack(np.meshgrid(np.linspace(-1.8, 2.8, 160), np.linspace(-1.3, 1.8, 120)), axis=-1)
grid = shown.reshape(-1, 2)
score = strategy.suggest(head, grid, batch=1).utility.reshape(shown.shape[:2])
proba = head.predict_proba(grid)[:, 1].reshape(shown.shape[:2])
fig = figure(8.2, 4.6)
axes = fig.subplots()
mesh = axes.pcolormesh(
    *shown.transpose(2, 0, 1), score, cmap="GnBu", shading="auto", rasterized=True
)
axes.contour(*shown.transpose(2, 0, 1), proba, levels=[0.5], colors="black", linewidths=1.4)
axes.scatter(*X[pool].T, s=6, color="0.45", linewidths=0, label="unlabelled")
colours = np.array(["#c2571a", "#2b6ca3"])
axes.scatter(*X[known].T, s=42, c=colours[y[known]], edgecolors="white", label="labelled")
axes.scatter(*X[pool][asked].T, s=95, facecolors="none", edgecolors="black", lw=1.6, label="asked")
axes.set(xticks=[], yticks=[])
axes.legend(loc="lower left", fontsize=9)
fig.colorbar(mesh, label="how much the label matters to the goal")
fig.savefig("network_head.png")
