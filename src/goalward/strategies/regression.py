"""Models of resampled labels: where they disagree, and how far their answers would move the model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import like, plain_rows, rows_at, stack_rows, to_numpy
from goalward.core.rows import Candidates
from goalward.models.fitted import Fitted
from goalward.strategies.batches import squared_distances
from goalward.strategies.selectors import Sequential
from goalward.strategies.strategy import Request, Strategy
from goalward.strategies.uncertainty import RowRule
from goalward.utility.utility import FollowingRule, Rule, SequentialRule


@dataclass(frozen=True)
class Committee(Strategy, word="committee"):
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
class ModelChange(Strategy, word="model-change"):
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


# Greedy sampling for numbers: rows far from those that are known, in features and in what is said.


@dataclass(frozen=True)
class GreedySampling(Strategy, word="greedy"):
    """iGS (Wu, Lin and Huang 2019): the row whose distance to all known ones, in x times y, is largest.

    The score is min over known rows m of ‖x - x_m‖ ‖f(x) - y_m‖, in the model's features, with each
    number in units of its deviation among the labels. A row taken into a batch counts as known, with
    what is predicted for it.

    Examples
    --------
    >>> GreedySampling()
    GreedySampling(seed=0)
    """

    seed: int = 0
    selection = Sequential(shortlist=None, radius=None)

    def bind(self, request: Request) -> Rule:
        """Return each row's distance to the nearest known row."""
        fitted = request.fitted
        fitted.check_kind("GreedySampling", ("numbers",))
        y = to_numpy(fitted.labelled.targets)
        scale = np.maximum(y.std(axis=0), 1e-12)
        return _GreedyRule(plain_rows(fitted.labelled.X), y / scale, scale)


@dataclass(frozen=True, eq=False)
class _GreedyRule(FollowingRule):
    known: Any
    y: NDArray[Any]
    scale: NDArray[Any]

    def fresh(self, rows: Candidates) -> NDArray[Any]:
        """Return the score of every row."""
        return np.asarray(self._apart(rows, self.known, self.y).min(axis=1))

    def following(self, rows: Candidates, values: NDArray[Any]) -> Rule:
        """Return the rule with the scores that the pool was scanned for."""
        return replace(self, taken=(rows, values))

    def after(self, rows: Candidates, position: int, update: str) -> SequentialRule:
        """Return the rule with one more row known, as it is predicted."""
        newest = rows_at(plain_rows(rows.X), np.array([position]))
        said = to_numpy(rows.proba)[[position]] / self.scale
        nearer = np.minimum(self(rows), self._apart(rows, newest, said)[:, 0])
        known, y = stack_rows(self.known, newest), np.vstack([self.y, said])
        return _GreedyRule(known, y, self.scale, taken=(rows, nearer))

    def _apart(self, rows: Candidates, known: Any, y: NDArray[Any]) -> NDArray[Any]:
        said = to_numpy(rows.proba) / self.scale
        apart = squared_distances(plain_rows(rows.X), known) * squared_distances(said, y)
        return np.asarray(np.sqrt(apart))
