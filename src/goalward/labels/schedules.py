"""Numbers that change over the rounds: a temperature, as a rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

from goalward.errors import BadParameter

__all__ = ["Constant", "Geometric", "Linear", "Schedule", "as_schedule"]

Schedule = Callable[[int], float]
"""Round, counted from 0 -> number."""


@dataclass(frozen=True)
class Constant:
    """The same number in every round.

    Examples
    --------
    >>> Constant(2.0)(7)
    2.0
    """

    value: float

    def __call__(self, round: int) -> float:
        """Return the number."""
        return self.value


@dataclass(frozen=True)
class _Ramp:
    """A way from `start` to `stop` over `rounds`."""

    start: float
    stop: float
    rounds: int

    def share(self, round: int) -> float:
        """Return how much of the way a round has behind it, from 0 to 1."""
        if self.rounds < 1:
            raise BadParameter(
                f"rounds={self.rounds}; at least 1 was expected. Give a longer schedule."
            )
        return min(max(round, 0), self.rounds) / self.rounds


class Linear(_Ramp):
    """From `start` to `stop` in equal steps over `rounds`, then constant.

    Examples
    --------
    >>> [Linear(4.0, 1.0, rounds=3)(r) for r in range(5)]
    [4.0, 3.0, 2.0, 1.0, 1.0]
    """

    def __call__(self, round: int) -> float:
        """Return the number of a round."""
        return self.start + (self.stop - self.start) * self.share(round)


class Geometric(_Ramp):
    """From `start` to `stop` by equal factors over `rounds`, then constant.

    Examples
    --------
    >>> [Geometric(8.0, 1.0, rounds=3)(r) for r in range(5)]
    [8.0, 4.0, 2.0, 1.0, 1.0]
    """

    def __call__(self, round: int) -> float:
        """Return the number of a round."""
        if not (self.start > 0.0 and self.stop > 0.0):
            raise BadParameter(
                f"{self!r} runs through 0 or below; positive ends were expected. Use Linear()."
            )
        if round >= self.rounds:
            return self.stop
        return float(self.start * (self.stop / self.start) ** self.share(round))


def as_schedule(value: Any) -> Schedule:
    """Return a number as a constant schedule, and a schedule as it is."""
    if callable(value):
        schedule: Schedule = value
        return schedule
    if isinstance(value, bool) or not isinstance(value, Real):
        raise BadParameter(
            f"{value!r} came where a number or a schedule over rounds was expected. Use 2.0, or "
            "Geometric(8.0, 2.0, rounds=20)."
        )
    return Constant(float(value))
