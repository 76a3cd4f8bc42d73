"""Two ways to the same numbers, timed in turns."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter
from typing import Any

from threadpoolctl import threadpool_limits

__all__ = ["Ratio", "race"]


@dataclass(frozen=True)
class Ratio:
    """Ours against another way to get the same numbers, or against a limit.

    Parameters
    ----------
    what, peer
        The work, and what it is compared with.
    ours, theirs
        Seconds of each repeat, for the same amount of work.
    target
        "<= 0.5": ours over theirs; ">= 20": theirs over ours; "<= 15 s": our seconds.
    error
        The largest difference of the results, relative to their scale; NaN if not compared.
    note
        What must be known to read the number.
    """

    what: str
    peer: str
    ours: tuple[float, ...]
    theirs: tuple[float, ...] = ()
    target: str = ""
    error: float = math.nan
    note: str = field(default="", compare=False)

    @classmethod
    def of(
        cls,
        what: str,
        peer: str,
        calls: tuple[Callable[[], Any], Callable[[], Any]],
        repeats: int,
        target: str = "",
        note: str = "",
    ) -> Ratio:
        """Return ours against theirs, run in turns on one BLAS thread."""
        with threadpool_limits(limits=1):
            ours, _, theirs, _ = race(*calls, repeats)
        return cls(what, peer, ours, theirs, target, note=note)

    @classmethod
    def missing(cls, what: str, peer: str, note: str) -> Ratio:
        """Return what could not be measured, and why."""
        return cls(what, peer, (math.nan,), note=note)

    @property
    def faster(self) -> bool:
        """Whether the number says how many times faster ours is."""
        return self.target.startswith(">=")

    @property
    def values(self) -> tuple[float, ...]:
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
            "ours_s": _number(median(self.ours)),
            "theirs_s": median(self.theirs) if self.theirs else None,
            "value": _number(self.value),
            "least": _number(min(self.values)),
            "most": _number(max(self.values)),
            "target": self.target,
            "met": self.met,
            "difference": _number(self.error),
            "note": self.note,
        }


def _number(value: float) -> float | None:
    """Return None for what was not measured: JSON has no NaN."""
    return None if math.isnan(value) else value


def race(
    ours: Callable[[], Any], theirs: Callable[[], Any], repeats: int, *, warm: bool = True
) -> tuple[tuple[float, ...], Any, tuple[float, ...], Any]:
    """Return the seconds and the result of each, run in turns so that noise hits both."""
    if warm:
        ours()
        theirs()
    times: tuple[list[float], list[float]] = ([], [])
    results: list[Any] = [None, None]
    for _ in range(repeats):
        for i, call in enumerate((ours, theirs)):
            began = perf_counter()
            results[i] = call()
            times[i].append(perf_counter() - began)
    return tuple(times[0]), results[0], tuple(times[1]), results[1]
