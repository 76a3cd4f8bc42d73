"""The b rows of highest utility, as they are or by perturbed ranks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.errors import BadParameter
from goalward.selection.best import best
from goalward.selection.rule import Shortlist

__all__ = ["Stochastic", "Top"]


@dataclass(frozen=True)
class Top:
    """The `batch` rows of highest utility, in order of preference.

    To first order, and for operators that add up over rows, no batch is better (Remark 2).
    Equal rows are ordered at random, by the seed.

    Examples
    --------
    >>> Top()
    Top()
    """

    pays = True

    def keep(self, batch: int) -> int:
        """Return the batch: no other row is looked at."""
        return batch

    def __call__(self, shortlist: Shortlist, batch: int, rng: np.random.Generator) -> NDArray[Any]:
        """Return the positions of the best rows."""
        first = shortlist.first(lambda worth: np.argsort(-worth, kind="stable"), batch)
        return np.asarray(shortlist.positions[first])


@dataclass(frozen=True)
class Stochastic:
    """The top b of -log rank plus Gumbel noise (Kirsch et al. 2023, arXiv 2106.12059).

    Rows are drawn without replacement with probability proportional to rank^-β: a scan and
    a sort, no second look; cheap diversity for huge pools. The scale of the scores does not matter.

    Parameters
    ----------
    beta
        0 is random, 1 the published default, large values the plain top b.

    Examples
    --------
    >>> Stochastic()
    Stochastic(beta=1.0)
    """

    beta: float = field(default=1.0, kw_only=True)
    pays = True

    def __post_init__(self) -> None:
        if not self.beta >= 0.0:
            raise BadParameter(f"beta={self.beta!r}; 0 or more was expected. Use 1.")

    def keep(self, batch: int) -> None:
        """Return None: every row has a chance."""

    def __call__(self, shortlist: Shortlist, batch: int, rng: np.random.Generator) -> NDArray[Any]:
        """Return the positions drawn, best first."""
        size = len(shortlist.values)

        def drawn(worth: NDArray[Any]) -> NDArray[Any]:
            ranks = np.empty(size)
            ranks[best(worth, size, rng, shortlist.positions)] = np.arange(1, size + 1)
            noisy = -self.beta * np.log(ranks) + rng.gumbel(size=size)
            free = np.where(np.isfinite(worth), noisy, -np.inf)
            return best(free, batch if shortlist.prices is None else size, rng, shortlist.positions)

        return np.asarray(shortlist.positions[shortlist.first(drawn, batch)])
