"""Guesses at a secret, slowed down: a few at once, then one every few seconds, for each address."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from time import monotonic

__all__ = ["Attempts"]

AT_ONCE = 10
SECONDS = 6.0
REMEMBERED = 10_000
"""Addresses; the longest quiet is forgotten first."""


class Attempts:
    """How often each address was wrong, which wears off.

    The same guess again is none: a program with an old token does not keep out others beside it.

    Examples
    --------
    >>> attempts = Attempts()
    >>> for guess in range(11):
    ...     attempts.failed("10.0.0.7", guess)
    >>> attempts.wait("10.0.0.7") > 0, attempts.wait("10.0.0.8")
    (True, 0.0)
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._free_at: OrderedDict[str, tuple[float, Hashable]] = OrderedDict()

    def wait(self, address: str) -> float:
        """Return the seconds until an address may try again."""
        free_at, _ = self._free_at.get(address, (0.0, None))
        return max(0.0, free_at - AT_ONCE * SECONDS - self._clock())

    def failed(self, address: str, guess: Hashable) -> None:
        """Note a wrong guess."""
        free_at, last = self._free_at.get(address, (0.0, None))
        if guess == last:
            return
        self._free_at[address] = max(free_at, self._clock()) + SECONDS, guess
        self._free_at.move_to_end(address)
        while len(self._free_at) > REMEMBERED:
            self._free_at.popitem(last=False)
