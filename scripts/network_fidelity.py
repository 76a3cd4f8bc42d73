"""How well utilities rank what fine-tuning does to a small network: `python scripts/network_fidelity.py`.

A CNN on digits (8 x 8), 100 labels, 300 steps of Adam. The truth: 50 more steps with each of 30
rows under each of 10 labels, less 50 more without. Rank correlation over the 300 pairs, seed by seed;
seven minutes on a quiet core, most of them fine-tuning and polishing.
"""

import copy
import logging
import warnings
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr
from sklearn.datasets import load_digits
from torch import nn

import goalward as gw
from goalward.errors import LooseFit
from goalward.utility import FirstOrder, ImplicitStep, NetworkStep, Retrain

DECAY, LABELS, DEV, POOL, SEEDS = 1e-3, 100, 300, 30, 5

EK_FAC = {"layers": "all", "curvature": "ek-fac"}
WAYS: dict[str, tuple[Any, dict[str, Any]]] = {
    "head, first order": (FirstOrder(), {"polish": True}),
    "head, implicit step": (ImplicitStep(), {"polish": True}),
    "head, three corrections": (ImplicitStep(corrections=3), {"polish": True}),
    "all, Gauss-Newton, first order": (FirstOrder(), {"layers": "all", "polish": True}),
    "all, EK-FAC, first order": (FirstOrder(), EK_FAC),
    "all, EK-FAC, network step": (NetworkStep(), EK_FAC),
}


def fine_tuned(X: Any, y: Any, start: nn.Module, steps: int = 50) -> Any:
    """Return the network after more steps of Adam on all rows at once; `start` stays."""
    net: Any = copy.deepcopy(start)
    images, labels = torch.tensor(X, dtype=torch.float32), torch.tensor(y)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3, weight_decay=DECAY)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(images), labels).backward()
        optimizer.step()

    def predict_proba(rows: Any) -> torch.Tensor:
        with torch.no_grad():
            return net(torch.tensor(rows, dtype=torch.float32)).softmax(1)

    net.predict_proba = predict_proba
    return net


def untrained(seed: int) -> nn.Module:
    """Return two convolutions and a head: 1,898 parameters."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.GELU(),
        nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.GELU(),
        nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip


def main() -> None:
    """Print the rank correlation of every way, seed by seed, and its mean."""
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore", LooseFit)
    X, y = load_digits(return_X_y=True)
    X = (X / 16).reshape(-1, 1, 8, 8)
    ranks: dict[str, list[float]] = {name: [] for name in WAYS}
    for seed in range(SEEDS):
        order = np.random.default_rng(seed).permutation(len(y))
        known, dev, pool = np.split(order, np.cumsum([LABELS, DEV, POOL]))[:3]
        net = fine_tuned(X[known], y[known], untrained(seed), steps=300)
        goal = gw.goals.DevLoss(X[dev], y[dev])
        tuned = gw.adapters.from_training(fine_tuned, X[known], y[known], start=net)
        truth = np.ravel(Retrain()(tuned, goal, X[pool]))
        for name, (utility, options) in WAYS.items():
            fitted = gw.adapters.from_torch(net, X[known], y[known], weight_decay=DECAY, **options)
            guess = np.ravel(utility(fitted, goal, X[pool]))
            ranks[name].append(float(spearmanr(guess, truth).statistic))
            print(f"{name:32s} {' '.join(f'{rank:.2f}' for rank in ranks[name])}", flush=True)
    for name, found in ranks.items():
        print(f"{name:32s} mean {np.mean(found):.2f}, {min(found):.2f} to {max(found):.2f}")


if __name__ == "__main__":
    main()
