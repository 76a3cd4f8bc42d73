"""Models of resampled labels: where they disagree, and how far their answers would move the model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import like, plain_rows, to_numpy
from goalward.core.candidates import Candidates
from goalward.models import Fitted
from goalward.selection import Rule
from goalward.strategies.request import Request
from goalward.strategies.strategy import Strategy
from goalward.strategies.uncertainty import RowRule

__all__ = ["Committee", "ModelChange"]


@dataclass(frozen=True)
class Committee(Strategy):
    """Query by committee for numbers (RayChaudhuri and Hamey 1995): the variance of resampled models.

    Parameters
    ----------
    members
        How many models are fitted, each to labels drawn with replacement.

    Examples
    --------
    >>> Committee()
    Committee(seed=0, members=10)
    """

    seed: int = 0
    members: int = 10

    def bind(self, request: Request) -> Rule:
        """Return the summed variance of what the members predict for a row."""
        models = _resampled(request, self, self.members)
        return RowRule(lambda rows: _spread(models, rows).var(axis=0).sum(axis=1))


@dataclass(frozen=True)
class ModelChange(Strategy):
    """Expected model change for numbers (Cai, Zhang and Zhou 2013): the mean slope of a row's loss.

    What a row would pull with, ‖(f(x) - y) x‖, in the mean over the y that models of resampled labels
    predict.

    Examples
    --------
    >>> ModelChange()
    ModelChange(seed=0, members=10)
    """

    seed: int = 0
    members: int = 10

    def bind(self, request: Request) -> Rule:
        """Return the mean pull of a row."""
        models, fitted = _resampled(request, self, self.members), request.fitted

        def pull(rows: Candidates) -> NDArray[Any]:
            away = _spread(models, rows) - to_numpy(rows.proba)
            X = plain_rows(rows.X)
            norms = to_numpy(fitted.model.linear("ModelChange").squared_norms(X, np.ones(1)))
            return np.asarray(np.linalg.norm(away, axis=2).mean(axis=0) * np.sqrt(norms))

        return RowRule(pull)


def _resampled(request: Request, strategy: Any, members: int) -> list[Fitted]:
    """Return models of the labels drawn with replacement: by weights, so that no row is copied."""
    fitted = request.fitted
    fitted.check_kind(type(strategy).__name__, ("numbers",))
    rng = np.random.default_rng([strategy.seed, request.round])
    n = len(fitted.labelled)
    found = []
    for _ in range(members):
        counts = np.bincount(rng.integers(n, size=n), minlength=n).astype(np.float64)
        weights = like(counts, fitted.labelled.weights) * fitted.labelled.weights
        drawn = replace(fitted, labelled=replace(fitted.labelled, weights=weights))
        found.append(drawn.polished())
    return found


def _spread(models: list[Fitted], rows: Candidates) -> NDArray[Any]:
    return np.stack([to_numpy(model.proba_of(rows.X)) for model in models])
