"""The top b of perturbed ranks: cheap diversity for huge pools."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.errors import BadParameter
from goalward.selection.score import Score
from goalward.selection.top import best

__all__ = ["Stochastic"]


@dataclass(frozen=True)
class Stochastic:
    """The top b of -log rank plus Gumbel noise (Kirsch et al. 2023, arXiv 2106.12059).

    Rows are drawn without replacement with probability proportional to rank^-β: a scan and
    a sort, no second look. The scale of the scores does not matter.

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

    def __post_init__(self) -> None:
        if not self.beta >= 0.0:
            raise BadParameter(f"beta={self.beta!r}; 0 or more was expected. Use 1.")

    def __call__(self, score: Score, batch: int, rng: np.random.Generator) -> NDArray[Any]:
        """Return the positions drawn, best first."""
        values = score.values()
        free = np.isfinite(values)
        order = best(values, len(values), rng)
        ranks = np.empty(len(values))
        ranks[order] = np.arange(1, len(values) + 1)
        noisy = -self.beta * np.log(ranks) + rng.gumbel(size=len(values))
        return best(np.where(free, noisy, -np.inf), batch, rng)
