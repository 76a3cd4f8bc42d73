"""What all speed measurements share: ratios, races in turns, and made-up problems."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from time import perf_counter, sleep
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

Seconds = tuple[float, ...]
REST = 0.25


@dataclass(frozen=True)
class Ratio:
    """Ours against another way to get the same numbers, or against a limit.

    Parameters
    ----------
    what, peer
        The work, and what it is compared with.
    ours, theirs
        Seconds of each repeat, for the same amount of work; ours is NaN if not measured.
    target
        "<= 0.5": ours over theirs; ">= 20": theirs over ours; "<= 15 s": our seconds.
    error
        The largest difference of the results, relative to their scale; NaN if not compared.
    note
        What must be known to read the number.
    """

    what: str
    peer: str
    ours: Seconds
    theirs: Seconds = ()
    target: str = ""
    error: float = math.nan
    note: str = ""

    @property
    def faster(self) -> bool:
        """Whether the number says how many times faster ours is."""
        return self.target.startswith(">=")

    @property
    def values(self) -> Seconds:
        """The number of every repeat: paired, so that the machine's moods cancel."""
        if not self.theirs:
            return self.ours
        pairs = zip(self.ours, self.theirs, strict=True)
        return tuple(b / a if self.faster else a / b for a, b in pairs)

    @property
    def value(self) -> float:
        """The median over the repeats."""
        return median(self.values)

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without one."""
        if not self.target or math.isnan(self.value):
            return None
        limit = float(self.target.split()[1].replace(",", ""))
        return self.value >= limit if self.faster else self.value <= limit

    def as_dict(self) -> dict[str, Any]:
        """Return everything, for a file."""
        return {
            "what": self.what,
            "against": self.peer,
            "ours_s": median(self.ours),
            "theirs_s": median(self.theirs) if self.theirs else None,
            "value": self.value,
            "least": min(self.values),
            "most": max(self.values),
            "target": self.target,
            "met": self.met,
            "difference": self.error,
            "note": self.note,
        }


def race(
    ours: Callable[[], Any],
    theirs: Callable[[], Any],
    repeats: int,
    *,
    threads: int | None = 1,
    rest: float | None = None,
) -> tuple[tuple[Seconds, Seconds], tuple[Any, Any]]:
    """Return the seconds of each, run in turns on some BLAS threads (None: all), and their results.

    Several repeats are warmed up first. Seconds of rest before every call are a quarter where there are several threads, since those of
    BLAS spin for a while after a product, on cores that the next call would use; else none.
    """
    pause = rest if rest is not None else 0.0 if threads == 1 else REST

    def rested(call: Callable[[], Any]) -> tuple[float, Any]:
        sleep(pause)
        return timed(call)

    with threadpool_limits(limits=threads):
        if repeats > 1:
            ours()
            theirs()
        turns = [(rested(ours), rested(theirs)) for _ in range(repeats)]
    (mine, a), (others, b) = (zip(*runs, strict=True) for runs in zip(*turns, strict=True))
    return (mine, others), (a[-1], b[-1])


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds of a call, and its result."""
    began = perf_counter()
    result = call()
    return perf_counter() - began, result


class Workload(NamedTuple):
    """A problem of the size of the paper's data: labelled rows, dev rows, a pool, scikit-learn's C."""

    name: str
    X: NDArray[Any]
    y: NDArray[Any]
    X_dev: NDArray[Any]
    y_dev: NDArray[Any]
    pool: NDArray[Any]
    C: float

    @property
    def our_C(self) -> float:
        """Our C: scikit-learn's binary model has one vector for our two."""
        return self.C / 2 if self.y.max() == 1 else self.C


def rt(n: int, n_pool: int = 9_586, seed: int = 0) -> Workload:
    """Return sentence vectors as of rt-polarity: 768 features, decaying spectrum, norm 14, K = 2."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + 500 + n_pool, 768)) / np.sqrt(1.0 + np.arange(768))
    X *= 14.0 / np.linalg.norm(X, axis=1).mean()
    y = (X @ rng.normal(size=768) + rng.logistic(size=len(X)) > 0).astype(int)
    return _cut(f"rt, {n} labels", X, y, n, 0.1)


def letter(n: int, n_pool: int = 14_948, seed: int = 0, n_classes: int = 26) -> Workload:
    """Return rows as of letter: 16 features in [-1, 1], 26 classes."""
    rng = np.random.default_rng(seed)
    centres = 0.5 * rng.normal(size=(n_classes, 16))
    y = np.arange(n + 500 + n_pool) % n_classes
    X = np.clip(centres[y] + 0.4 * rng.normal(size=(len(y), 16)), -1.0, 1.0)
    return _cut(f"letter, {n} labels", X, y, n, 1.0)


def _cut(name: str, X: NDArray[Any], y: NDArray[Any], n: int, C: float) -> Workload:
    return Workload(name, X[:n], y[:n], X[n : n + 500], y[n : n + 500], X[n + 500 :], C)
