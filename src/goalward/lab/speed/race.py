"""Two ways to the same numbers, timed in turns."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from time import perf_counter, sleep
from typing import Any

from threadpoolctl import threadpool_limits

__all__ = ["Ratio", "race", "timed"]

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
    warm: bool = True,
    threads: int | None = 1,
    rest: float | None = None,
) -> tuple[tuple[Seconds, Seconds], tuple[Any, Any]]:
    """Return the seconds of each, run in turns on some BLAS threads (None: all), and their results.

    Seconds of rest before every call are a quarter where there are several threads, since those of
    BLAS spin for a while after a product, on cores that the next call would use; else none.
    """
    pause = rest if rest is not None else 0.0 if threads == 1 else REST

    def rested(call: Callable[[], Any]) -> tuple[float, Any]:
        sleep(pause)
        return timed(call)

    with threadpool_limits(limits=threads):
        if warm:
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
