"""Guesses at a secret, slowed down: a few at once, then one every few seconds, for each address."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from time import monotonic

__all__ = ["Attempts"]

AT_ONCE = 10
SECONDS = 6.0
REMEMBERED = 10_000
"""Addresses; the longest quiet is forgotten first."""


class Attempts:
    """How often each address was wrong, which wears off.

    Examples
    --------
    >>> attempts = Attempts()
    >>> for _ in range(11):
    ...     attempts.failed("10.0.0.7")
    >>> attempts.wait("10.0.0.7") > 0, attempts.wait("10.0.0.8")
    (True, 0.0)
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._free_at: OrderedDict[str, float] = OrderedDict()

    def wait(self, address: str) -> float:
        """Return the seconds until an address may try again."""
        return max(0.0, self._free_at.get(address, 0.0) - AT_ONCE * SECONDS - self._clock())

    def failed(self, address: str) -> None:
        """Note a wrong guess."""
        now = self._clock()
        self._free_at[address] = max(self._free_at.get(address, 0.0), now) + SECONDS
        self._free_at.move_to_end(address)
        while len(self._free_at) > REMEMBERED:
            self._free_at.popitem(last=False)
