"""A classification task with its paired splits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.learners import Logistic

__all__ = ["Dataset", "Split", "stratified"]


@dataclass(frozen=True)
class Split:
    """Who plays which part, as positions in the dataset.

    Parameters
    ----------
    init
        Labelled at the start.
    pool
        May be asked for.
    test
        Held out, to measure.
    dev
        Rows whose labels the dev goal knows. They stay in the pool: labelling one is a
        query like any other.
    """

    init: NDArray[Any]
    pool: NDArray[Any]
    test: NDArray[Any]
    dev: NDArray[Any]


@dataclass(frozen=True)
class Dataset:
    """Rows with labels, the model they are learned with, and a split for every seed.

    Parameters
    ----------
    split
        Seed -> Split; the same for every strategy, so that comparisons are paired.
    learner
        The model, with the paper's C where it states one.
    groups
        A name for each row, where the data has natural groups (synth2's clusters).
    source
        Where the rows came from, for the report.
    """

    name: str
    X: NDArray[Any] = field(repr=False)
    y: NDArray[Any] = field(repr=False)
    split: Callable[[int], Split] = field(repr=False)
    learner: Logistic
    source: str = ""
    groups: NDArray[Any] | None = field(default=None, repr=False)

    @property
    def classes(self) -> list[Any]:
        """All labels, sorted."""
        found: list[Any] = np.unique(self.y).tolist()
        return found


def stratified(
    y: NDArray[Any], *, per_class: int, test: float, dev: float = 0.1
) -> Callable[[int], Split]:
    """Return random splits with `per_class` initial labels of each class.

    Parameters
    ----------
    test
        Share of all rows that is held out.
    dev
        Share of the pool whose labels the dev goal knows.
    """

    def split(seed: int) -> Split:
        rng = np.random.default_rng([seed, 1])
        order = rng.permutation(len(y))
        held_out, rest = np.split(order, [round(test * len(y))])
        first = np.concatenate([rest[y[rest] == c][:per_class] for c in np.unique(y)])
        pool = rest[~np.isin(rest, first)]
        return Split(first, pool, held_out, pool[: round(dev * len(pool))])

    return split
