"""One session of the benchmark: a policy that spends a budget of labels, dev labels among them.

Everyone starts with the same few labels and may buy the same number. A strategy that wants dev
labels buys them first, at random; from then on they steer it. They train the deployed model too,
since they are paid for. So all curves are over labels bought, and nothing is free.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib.metadata import version
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from goalward.errors import BadParameter
from goalward.lab.datasets import Dataset, Split
from goalward.lab.efficiency.entries import Entry
from goalward.lab.loop import measure
from goalward.strategies import Strategy, recipe

__all__ = ["SESSION", "Protocol", "play"]

SESSION = frozenset(
    [
        "key",
        "dataset",
        "strategy",
        "seed",
        "batch",
        "dev",
        "dev_paid",
        "accuracy",
        "log_loss",
        "apart_accuracy",
        "apart_log_loss",
        "seconds",
    ]
)
"""What is kept of a session."""
VERSION = 1
"""Counted up when a session would give other numbers: kept ones are then played again, as they are
by another version of goalward."""


@dataclass(frozen=True)
class Protocol:
    """How a session is played.

    Parameters
    ----------
    budget
        Labels bought, dev labels included; at most two fifths of the pool.
    batch
        Labels per round; half of it where the budget is below 100.
    dev
        Share of the budget that goes to dev labels, where a strategy wants them.
    pool, test
        At most so many rows, drawn by the seed, may be asked for and measure.
    """

    budget: int = 200
    batch: int = 10
    dev: float = 0.25
    pool: int = 2000
    test: int = 2000

    def __post_init__(self) -> None:
        for name, value, least in (
            ("budget", self.budget, 1),
            ("batch", self.batch, 1),
            ("pool", self.pool, 1),
            ("test", self.test, 1),
        ):
            if value < least:
                raise BadParameter(f"{name}={value}; at least {least} was expected. Give more.")
        if not 0.0 < self.dev < 1.0:
            raise BadParameter(f"dev={self.dev}; a share between 0 and 1 was expected. Use 0.25.")

    def sizes(self, n_pool: int) -> tuple[int, int, int]:
        """Return batch, budget and dev labels for a pool, whole batches all."""
        budget = min(self.budget, int(0.4 * n_pool))
        batch = self.batch if budget >= 100 else max(1, self.batch // 2)
        rounds = budget // batch
        if rounds < 2:
            raise BadParameter(
                f"A budget of {budget} labels of a pool of {n_pool} rows came; two batches of {batch} were "
                "expected, one of which may go to dev labels. Raise the budget or lower the batch."
            )
        # One batch of dev labels at least, and one of queries.
        dev = min(max(1, round(self.dev * rounds)), rounds - 1)
        return batch, rounds * batch, dev * batch

    def split(self, dataset: Dataset, seed: int) -> Split:
        """Return the rows of a seed; its dev rows are in the order in which they are bought."""
        whole = dataset.split(seed)
        rng = np.random.default_rng([seed, 8])
        pool = np.sort(rng.permutation(whole.pool)[: self.pool])
        test = np.sort(rng.permutation(whole.test)[: self.test])
        dev = rng.permutation(pool)[: self.sizes(len(pool))[2]]
        return Split(whole.init, pool, test, dev)

    def key(self, dataset: Dataset, entry: Entry, seed: int) -> str:
        """Return what tells a session from all others."""
        made_by = [VERSION, version("goalward")]
        facts = [made_by, dataset.fingerprint, asdict(entry), seed, asdict(self)]
        return sha256(json.dumps(facts).encode()).hexdigest()[:16]


def play(dataset: Dataset, entry: Entry, seed: int, protocol: Protocol) -> dict[str, Any]:
    """Return the curves of one session, by labels bought.

    `accuracy` and `log_loss` are those of the model trained on all labels bought. For a strategy
    that is steered by dev labels `apart` has them for the model that never trains on these, by
    queries: the paper's view, in which dev labels are free.
    """
    split = protocol.split(dataset, seed)
    batch, budget, n_dev = protocol.sizes(len(split.pool))
    learner = clone(dataset.learner).set_params(classes=dataset.classes)
    X_pool = dataset.X[split.pool]
    chooser = _build(dataset, split, X_pool, entry, seed)
    bought: list[int] = []
    queries: list[int] = []
    curve: list[tuple[float, float]] = []
    apart: list[tuple[float, float]] = []
    seconds = 0.0
    while True:
        deployed = _fit(learner, dataset, split.init, bought)
        curve.append(measure(deployed, dataset, split.test))
        if len(bought) >= budget and entry.dev != "goal":
            break
        if entry.dev != "none" and len(bought) < n_dev:
            bought += split.dev[len(bought) : len(bought) + batch].tolist()
            continue
        # A dev row that trained the model would no longer be a judge of it.
        model = deployed if entry.dev != "goal" else _fit(learner, dataset, split.init, queries)
        if entry.dev == "goal":
            apart.append(measure(model, dataset, split.test))
        if len(bought) >= budget:
            break
        began = perf_counter()
        rows = chooser.suggest(
            model, X_pool, batch, bought, rows=split.pool, round=len(queries) // batch
        ).rows.tolist()
        seconds += perf_counter() - began
        queries += rows
        bought += rows
    return {
        "key": protocol.key(dataset, entry, seed),
        "dataset": dataset.name,
        "strategy": entry.name,
        "seed": seed,
        "batch": batch,
        "dev": n_dev,
        "dev_paid": 0 if entry.dev == "none" else n_dev,
        "accuracy": [round(a, 6) for a, _ in curve],
        "log_loss": [round(b, 6) for _, b in curve],
        "apart_accuracy": [round(a, 6) for a, _ in apart],
        "apart_log_loss": [round(b, 6) for _, b in apart],
        "seconds": round(seconds, 4),
    }


def _fit(learner: Any, dataset: Dataset, init: NDArray[Any], rows: list[int]) -> Any:
    known = np.concatenate([init, np.array(rows, dtype=np.int64)])
    return learner.fit(dataset.X[known], dataset.y[known])


def _build(
    dataset: Dataset, split: Split, X_pool: NDArray[Any], entry: Entry, seed: int
) -> Strategy:
    dev = (dataset.X[split.dev], dataset.y[split.dev])
    return recipe(entry.recipe).build(dev=dev, pool=X_pool, seed=seed)
