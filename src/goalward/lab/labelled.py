"""The labelled rows of a study as a task, and the order they were labelled in."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import is_sparse, to_numpy
from goalward.errors import BadInput
from goalward.lab.datasets import Dataset, Split
from goalward.lab.datasets.dataset import with_dev
from goalward.models import Fitted
from goalward.pool import take_rows
from goalward.strategies import Strategy
from goalward.strategies.strategy import Scores

if TYPE_CHECKING:
    from goalward.study import Study

__all__ = ["AsLabelled", "Labelled", "study_dataset"]

LEAST = 20
"""Labelled rows below which a replay says nothing."""
MOST = 2**31
"""Bytes of labelled rows that are held as one dense array."""


@dataclass(frozen=True)
class AsLabelled(Strategy):
    """Rows in the order in which a study got their labels.

    Parameters
    ----------
    order
        Ids of the rows, first labelled first.

    Examples
    --------
    >>> AsLabelled((4, 2, 7))
    AsLabelled()
    """

    order: tuple[int, ...] = field(repr=False)
    seed: int = field(default=0, repr=False)

    def score(self, fitted: Fitted, X_pool: Any, rows: NDArray[Any], round: int) -> Scores:
        """Return minus the place of every row in the stored order."""
        place = {row: i for i, row in enumerate(self.order)}
        return Scores(np.array([-float(place[row]) for row in rows.tolist()]))


@dataclass(frozen=True)
class Labelled:
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
        training = rng.permutation(np.setdiff1d(np.arange(len(self.y)), self.dev))
        if len(self.dev):
            half = rng.permutation(self.dev)
            cut = len(half) // 2
            init, pool = self._start(training)
            return Split(init, pool, np.sort(half[:cut]), np.sort(half[cut:]))
        parts = [training[self.y[training] == c] for c in np.unique(self.y[training])]
        held = np.concatenate([part[: len(part) // 4] for part in parts])
        init, pool = self._start(training[~np.isin(training, held)])
        return with_dev(init, pool, np.sort(held), rng)

    def _start(self, rows: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        labels = self.y[rows]
        init = np.array([rows[labels == c][0] for c in np.unique(labels)])
        return init, np.sort(rows[~np.isin(rows, init)])


def study_dataset(study: Study) -> tuple[Dataset, AsLabelled]:
    """Return the labelled rows of a study as a dataset, and the order they were labelled in.

    Labels are numbered in the order of the study's classes.
    """
    from goalward.study.rounds import DEV_MINIMUM

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
        if X.shape[0] * X.shape[1] * 8 > MOST:
            raise BadInput(
                f"The labelled rows have the shape {X.shape}, {X.shape[0] * X.shape[1] * 8 / 1e9:.0f} "
                "GB as a dense array; 2 GB at most were expected. Reduce the features first."
            )
        X = X.toarray()
    codes = {label: k for k, label in enumerate(state.classes)}
    y = np.array([codes[labels[row]] for row in rows])
    place = {row: i for i, row in enumerate(rows)}
    told = sorted(state.training, key=lambda row: min(s.seq for s in _said(state, row)))
    dev = np.array([place[row] for row in state.dev] if enough else [], dtype=np.int64)
    name = Path(study.url).name
    learner = state.settings.fitter(sorted(set(y.tolist())), unseen=_unseen(y, dev))
    dataset = Dataset(
        f"replay of {name}", to_numpy(X), y, Labelled(y, dev), learner, f"labelled rows of {name}"
    )
    return dataset, AsLabelled(tuple(place[row] for row in told))


def _said(state: Any, row: int) -> list[Any]:
    return [s for s in state.standings[row].values() if s.label is not None]


def _unseen(y: NDArray[Any], dev: NDArray[Any]) -> bool:
    """Return whether a class has dev rows only, which no model is fitted on."""
    trained = np.delete(y, dev)
    return bool(set(y.tolist()) - set(trained.tolist()))
