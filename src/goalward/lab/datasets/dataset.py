"""A classification task with its paired splits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.errors import BadParameter
from goalward.models.logistic import Logistic


@dataclass(frozen=True)
class Split:
    """The rows of each part, as positions in the dataset; `dev` is a part of the pool."""

    init: NDArray[Any]
    pool: NDArray[Any]
    test: NDArray[Any]
    dev: NDArray[Any]


Splits = Callable[[int], Split]  # by seed, the same for every strategy


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows with labels, the model they are learned with, and a split for every seed.

    `groups` names natural groups of rows (synth2's clusters); `noise` is as in `under`.

    Examples
    --------
    >>> from goalward.lab import datasets
    >>> harder = datasets.wine().under(from_nothing=True, noise=0.1)
    >>> len(harder.split(0).init)
    0
    """

    name: str
    X: NDArray[Any] = field(repr=False)
    y: NDArray[Any] = field(repr=False)
    split: Splits = field(repr=False)
    learner: Any
    source: str = ""
    groups: NDArray[Any] | None = field(default=None, repr=False)
    noise: float = 0.0

    @property
    def classes(self) -> list[Any]:
        return list(np.unique(self.y).tolist())

    @cached_property
    def fingerprint(self) -> str:
        """A digest of the rows, the labels and the learner: the same data, the same runs."""
        digest = sha256(np.ascontiguousarray(self.X).data)
        digest.update("\0".join(map(str, self.y.tolist())).encode())
        digest.update(f"{self.learner!r} {self.split!r}".encode())
        if self.noise:
            digest.update(f"{self.noise}".encode())
        return digest.hexdigest()[:16]

    def under(
        self, *, from_nothing: bool = False, noise: float = 0.0, learner: Any = None
    ) -> Dataset:
        """Return the same task under other conditions.

        With `from_nothing` the initial rows are in the pool. `noise` is the share of wrong answers; test
        labels stay true.
        """
        if not 0.0 <= noise < 1.0:
            raise BadParameter(f"noise must be at least 0 and below 1, got {noise}. Use 0.1, say.")
        split = FromNothing(self.split) if from_nothing else self.split
        return replace(self, split=split, learner=learner or self.learner, noise=noise)

    def answers(self, seed: int) -> NDArray[Any]:
        return flipped(self.y, self.noise, seed)


def flipped(y: NDArray[Any], noise: float, seed: int) -> NDArray[Any]:
    """Return labels of which each is, with probability `noise`, one of the other classes."""
    if not noise:
        return y
    rng = np.random.default_rng([seed, 21])
    classes, codes = np.unique(y, return_inverse=True)
    other = (codes + rng.integers(1, len(classes), size=len(y))) % len(classes)
    return np.where(rng.random(len(y)) < noise, classes[other], y)


def with_dev(
    init: NDArray[Any], pool: NDArray[Any], test: NDArray[Any], rng: np.random.Generator
) -> Split:
    """Return a split, pool and test in order, whose dev rows are a random tenth of the pool."""
    pool = np.sort(pool)
    dev = rng.permutation(pool)[: max(1, round(0.1 * len(pool)))]
    return Split(init, pool, np.sort(test), np.sort(dev))


@dataclass(frozen=True)
class Stratified:
    """Random splits with `per_class` initial labels; `test` is a share, or a number of rows at the end."""

    y: NDArray[Any] = field(repr=False)
    per_class: int
    test: float | int

    def __call__(self, seed: int) -> Split:
        rng = np.random.default_rng([seed, 1])
        if isinstance(self.test, int):
            rest, test = np.split(np.arange(len(self.y)), [len(self.y) - self.test])
            rest = rng.permutation(rest)
        else:
            order = rng.permutation(len(self.y))
            test = np.concatenate(
                [rows[: round(self.test * len(rows))] for rows in self._by_class(order)]
            )
            rest = order[~np.isin(order, test)]
        init = np.concatenate([rows[: self.per_class] for rows in self._by_class(rest)])
        return with_dev(init, rest[~np.isin(rest, init)], test, rng)

    def _by_class(self, rows: NDArray[Any]) -> list[NDArray[Any]]:
        return [rows[self.y[rows] == label] for label in np.unique(self.y)]


def stratified(
    name: str, X: Any, y: NDArray[Any], source: str, *, C: float = 1.0, per_class: int = 2
) -> Dataset:
    """Return a task of which a random quarter is held out, class by class."""
    split = Stratified(y, per_class=per_class, test=0.25)
    return Dataset(name, X, y, split, Logistic(C=C), source)


@dataclass(frozen=True)
class Thinned:
    """Splits with a share of the pool and of the test rows (the same by default)."""

    split: Splits
    share: float
    test: float | None = None

    def __call__(self, seed: int) -> Split:
        whole = self.split(seed)
        rng = np.random.default_rng([seed, 5])
        pool, test = (
            rng.permutation(part)[: max(20, round(share * len(part)))]
            for part, share in ((whole.pool, self.share), (whole.test, self.test or self.share))
        )
        return with_dev(whole.init, pool, test, rng)


@dataclass(frozen=True)
class FromNothing:
    """Splits without initial labels: those rows are in the pool."""

    split: Splits

    def __call__(self, seed: int) -> Split:
        whole = self.split(seed)
        pool = np.sort(np.concatenate([whole.init, whole.pool]))
        return replace(whole, init=whole.init[:0], pool=pool)
