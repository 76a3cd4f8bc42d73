"""What another strategy would have asked: stored labels played again.

Only rows with labels can be answered. Those of a simulation are all of them; those of a study are
the ones its own strategy chose, a biased pool, and comparisons on it say so.
"""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import polars as pl
from numpy.typing import NDArray

from goalward.core.arrays import is_sparse, to_numpy
from goalward.core.pool import take_rows
from goalward.errors import BadInput, BadParameter
from goalward.lab.curves import Curves
from goalward.lab.datasets import Dataset, Split, load, with_dev
from goalward.lab.parallel import Running, Workers
from goalward.lab.simulate import Comparison, Plans, as_plans
from goalward.strategies import Strategy
from goalward.strategies.request import Request
from goalward.strategies.uncertainty import RowRule
from goalward.utility.rule import Rule

if TYPE_CHECKING:
    from goalward.studio.study import Study

__all__ = ["AsLabelled", "LabelledSplits", "replay", "replay_simulation", "study_dataset"]

LEAST = 20
"""Labelled rows below which a replay says nothing."""
MOST = 2**31
"""Bytes of labelled rows that are held as one dense array."""


@dataclass(frozen=True)
class AsLabelled(Strategy):
    """Rows in the order in which a study got their labels, the first of them first."""

    order: tuple[int, ...] = field(repr=False)
    seed: int = field(default=0, repr=False)

    def bind(self, request: Request) -> Rule:
        """Return minus the place of every row in the stored order."""
        place = {row: -float(i) for i, row in enumerate(self.order)}
        return RowRule(lambda rows: np.array([place[row] for row in rows.rows.tolist()]))


@dataclass(frozen=True)
class LabelledSplits:
    """Splits of the labelled rows of a study: a random start for every seed.

    With dev labels, a random half of them measures and the other half is what dev goals see, so
    that no strategy is measured on the labels that steered it. Without, a quarter of the rows is
    held out, class by class.

    Parameters
    ----------
    y
        Labels of all rows.
    dev
        Positions of the dev rows; may be empty.
    """

    y: NDArray[Any] = field(repr=False)
    dev: NDArray[Any] = field(repr=False)

    def __call__(self, seed: int) -> Split:
        """Return the split of a seed: one row of each class to start with."""
        rng = np.random.default_rng([seed, 17])
        rows = rng.permutation(np.setdiff1d(np.arange(len(self.y)), self.dev))
        if len(self.dev):
            test, dev = np.split(rng.permutation(self.dev), [len(self.dev) // 2])
        else:
            parts = [rows[self.y[rows] == c] for c in np.unique(self.y[rows])]
            test = np.concatenate([part[: len(part) // 4] for part in parts])
            rows = rows[~np.isin(rows, test)]
        init = rows[np.unique(self.y[rows], return_index=True)[1]]
        rest = rows[~np.isin(rows, init)]
        if len(self.dev):
            return Split(init, np.sort(rest), np.sort(test), np.sort(dev))
        return with_dev(init, rest, test, rng)


def study_dataset(study: Study) -> tuple[Dataset, AsLabelled]:
    """Return the labelled rows of a study as a dataset, and the order they were labelled in.

    Labels are numbered in the order of the study's classes.
    """
    from goalward.studio.study.rounds import DEV_MINIMUM

    state = study.state
    enough = len(state.dev) >= DEV_MINIMUM and len(set(state.dev.values())) >= 2
    # Too few dev labels measure nothing, and are not trained on either.
    labels = {**state.training, **(state.dev if enough else {})}
    rows = sorted(labels)
    trained = set(state.training.values())
    if len(state.training) < LEAST or len(trained) < 2:
        raise BadInput(
            f"The study has {len(state.training)} training labels of {len(trained)} classes; "
            f"{LEAST} or more of two classes were expected. Label on, and replay then."
        )
    X = take_rows(study.pool.X, np.array(rows))
    if is_sparse(X):
        size = X.shape[0] * X.shape[1] * 8
        if size > MOST:
            raise BadInput(
                f"The labelled rows have the shape {X.shape}, {size / 1e9:.0f} GB as a dense array; "
                "2 GB at most were expected. Reduce the features first."
            )
        X = X.toarray()
    codes = {label: k for k, label in enumerate(state.classes)}
    y = np.array([codes[labels[row]] for row in rows])
    place = {row: i for i, row in enumerate(rows)}
    dev = np.array([place[row] for row in state.dev] if enough else [], dtype=np.int64)
    learner = state.settings.fitter(sorted(set(y.tolist())))
    name, splits = Path(study.url).name, LabelledSplits(y, dev)
    source = f"labelled rows of {name}"
    dataset = Dataset(f"replay of {name}", to_numpy(X), y, splits, learner, source)
    said = {
        row: min(s.seq for s in state.standings[row].values() if s.label is not None)
        for row in state.training
    }
    return dataset, AsLabelled(tuple(place[row] for row in sorted(said, key=said.__getitem__)))


def replay(
    study: Study | str | Path,
    strategies: Plans,
    *,
    batch: int | None = None,
    budget: int | None = None,
    seeds: int = 10,
    **running: Unpack[Running],
) -> Curves:
    """Return learning curves of strategies on the labelled rows of a study.

    The pool is what the study's own strategy chose to ask, so it lacks the rows that another
    would have preferred: a strategy that wins here may win by more elsewhere, or not at all. The
    stored order takes part as "as labelled", from the same random start as the others.

    Parameters
    ----------
    study
        A study, or where it is.
    batch
        Labels per round; the study's `refit` by default.
    budget
        Labels bought; all of the pool by default.
    strategies, seeds, running
        As in `simulate`.
    """
    from goalward.studio.study import Study

    stored = Study.open(study) if isinstance(study, (str, Path)) else nullcontext(study)
    with stored as opened:
        dataset, order = study_dataset(opened)
        refit = opened.state.settings.refit
    plans = {"as labelled": order, **as_plans(strategies)}
    size = len(dataset.split(0).pool) if budget is None else budget
    play = Comparison(dataset, batch or refit, size, seeds)
    return play(plans, **running)


def replay_simulation(
    folder: Path | str,
    strategies: Plans,
    *,
    dataset: Dataset | None = None,
    **workers: Unpack[Workers],
) -> Curves:
    """Return the curves of a simulation with other strategies added, on the same splits and seeds.

    Parameters
    ----------
    folder
        What `simulate` was given as `out`; the curves there are extended. A run that was killed
        goes on from there.
    dataset
        The data, where its name does not lead to it: that of a file, or of other conditions, say.
    workers
        `n_jobs` and `progress`, as in `simulate`.
    """
    folder = Path(folder)
    for name in ("curves.parquet", "simulation.json"):
        if not (folder / name).is_file():
            raise BadParameter(
                f"{folder} has no {name}; the folder that a simulation was written to was "
                "expected. Name the one given to `goalward simulate --out`."
            )
    table = pl.read_parquet(folder / "curves.parquet")
    run = json.loads((folder / "simulation.json").read_text())
    dataset = dataset or load(str(table["dataset"][0]))
    play = Comparison(dataset, run["batch"], max(table["queries"]), table["seed"].n_unique())
    # The folder of the rounds names the data: other rows or labels would be another comparison.
    if play.place != run["rounds"]:
        raise BadInput(
            f"{folder} holds rounds of other data than {dataset.name!r} as it is now; the same "
            "rows, labels and learner were expected. Pass the dataset it was run on."
        )
    plans = as_plans(strategies)
    kept = table.filter(~pl.col("strategy").is_in(list(plans)))
    return play(plans, out=folder, kept=kept, **workers)
