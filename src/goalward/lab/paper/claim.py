"""A statement of the paper with its rule, its measurement and its verdict."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from goalward.lab.statistics import bootstrap

__all__ = ["Claim", "interval", "verdict"]

YES, PARTLY, NO = "reproduced", "partly", "not reproduced"


@dataclass(frozen=True)
class Claim:
    """One statement of the paper, in our words, and what was found.

    Parameters
    ----------
    rule
        How the verdict follows from the numbers.
    measured
        The numbers in a sentence, with 95 % intervals where there are several seeds.
    """

    name: str
    says: str
    rule: str
    measured: str
    verdict: str
    figure: str
    numbers: dict[str, Any] = field(repr=False)

    @property
    def command(self) -> str:
        """What reproduces it."""
        return f"goalward reproduce {self.figure}"


def verdict(full: bool, part: bool) -> str:
    """Return the verdict of a rule with a full and a partial condition."""
    return YES if full else PARTLY if part else NO


def interval(values: Any, digits: int = 2) -> str:
    """Return a mean with its 95 % bootstrap interval over seeds."""
    mean, low, high = bootstrap(np.asarray(values, dtype=float))
    if len(values) < 2:
        return f"{mean:.{digits}f}"
    return f"{mean:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
