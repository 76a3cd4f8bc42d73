"""BALD: rows on which draws from the posterior disagree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import softmax, to_numpy
from goalward.errors import BadParameter
from goalward.models import Fitted
from goalward.pool import n_rows
from goalward.solvers.cholesky import dense_curvature
from goalward.strategies.strategy import Scores, Strategy, candidate_blocks
from goalward.utility.family import base_of
from goalward.utility.span import Span

__all__ = ["Bald"]


@dataclass(frozen=True)
class Bald(Strategy):
    """Mutual information of label and parameters (Houlsby et al. 2011), by Laplace's posterior.

    Parameters are drawn from a Gaussian with the inverse Hessian for covariance, in the
    coordinates of the labelled rows; outside their span the prior is drawn row by row.

    Parameters
    ----------
    draws
        Parameters drawn; the error of the score falls like 1/√draws.

    Examples
    --------
    >>> Bald(draws=50)
    Bald(draws=50, seed=0)
    """

    draws: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        if self.draws < 2:
            raise BadParameter(f"draws={self.draws!r}; at least 2 were expected. Use 100.")

    def score(self, fitted: Fitted, X_pool: Any, rows: NDArray[Any], round: int) -> Scores:
        """Return H(mean p) - mean H(p) over the draws."""
        fitted.linear("Bald")
        span = Span.of(fitted)
        base = base_of(fitted, span)
        q, c = base.start.shape
        H = dense_curvature(base.B, fitted.hessian.blocks(), base.ridge)
        rng = np.random.default_rng([self.seed, round])
        normal = rng.standard_normal((q * c, self.draws))
        factor = np.linalg.cholesky(to_numpy(H))
        drawn = np.linalg.solve(factor.T, normal).reshape(q, c * self.draws)
        outside_noise = rng.standard_normal((c, self.draws))
        start, Q = to_numpy(base.start), to_numpy(base.Q)
        scores = np.empty(n_rows(X_pool))
        for part, candidates in candidate_blocks(fitted, X_pool, rows):
            Z = to_numpy(span.coordinates(candidates.X))
            own = to_numpy(span.squared_outside(candidates.X, span.coordinates(candidates.X)))
            moved = (Z @ drawn).reshape(len(Z), c, self.draws)
            moved += np.sqrt(own / base.rho)[:, None, None] * outside_noise
            f = (Z @ start)[:, :, None] + moved
            p = to_numpy(softmax(np.einsum("kc,ncs->nks", Q, f), axis=1))
            mean = p.mean(axis=2)
            scores[part] = _entropy(mean) - _entropy(p).mean(axis=1)
        return Scores(scores)


def _entropy(p: NDArray[Any]) -> NDArray[Any]:
    found: NDArray[Any] = -np.sum(p * np.log(np.maximum(p, 1e-300)), axis=1)
    return found
