"""BALD: rows on which draws from the posterior disagree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import softmax, to_numpy
from goalward.core.candidates import Candidates
from goalward.errors import BadParameter
from goalward.solvers import Inverse
from goalward.solvers.inverse import Coordinates
from goalward.strategies.request import Request
from goalward.strategies.strategy import Strategy
from goalward.strategies.uncertainty import RowRule
from goalward.utility.rule import Rule

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
    zero = 0.0

    def __post_init__(self) -> None:
        if self.draws < 2:
            raise BadParameter(f"draws={self.draws!r}; at least 2 were expected. Use 100.")

    def bind(self, request: Request) -> Rule:
        """Return H(mean p) - mean H(p) over the draws, which are made here."""
        fitted = request.fitted
        fitted.model.linear("Bald")
        fitted.check_kind("Bald")
        inverse = Inverse.of(fitted.hessian, Coordinates.spanned(fitted.hessian))
        coordinates = inverse.coordinates
        rng = np.random.default_rng([self.seed, request.round])
        drawn = inverse.draw(rng, self.draws)
        outside_noise = rng.standard_normal((drawn.shape[1], self.draws))
        Q = to_numpy(fitted.hessian.basis)

        def disagreement(rows: Candidates) -> NDArray[Any]:
            Z = coordinates(rows.X)
            own = to_numpy(coordinates.squared_outside(rows.X, Z))
            moved = np.tensordot(to_numpy(Z), drawn, axes=1)
            moved += np.sqrt(own / coordinates.rho)[:, None, None] * outside_noise
            f = (to_numpy(fitted.logits_of(rows.X)) @ Q)[:, :, None] + moved
            p = to_numpy(softmax(np.einsum("kc,ncs->nks", Q, f), axis=1))
            return np.asarray(_entropy(p.mean(axis=2)) - _entropy(p).mean(axis=1))

        return RowRule(disagreement)


def _entropy(p: NDArray[Any]) -> NDArray[Any]:
    found: NDArray[Any] = -np.sum(p * np.log(np.maximum(p, 1e-300)), axis=1)
    return found
