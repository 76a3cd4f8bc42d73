"""BADGE: diverse rows with large gradients."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import is_sparse, plain_rows, rows_at, to_numpy
from goalward.core.candidates import Candidates
from goalward.models import Fitted
from goalward.strategies.request import Request
from goalward.strategies.strategy import Strategy
from goalward.utility.rule import FollowingRule, Rule, Shortlist

__all__ = ["Badge"]


@dataclass(frozen=True)
class Badge(Strategy):
    """k-means++ on gradients of the likeliest label (Ash et al. 2020, arXiv 1906.03671).

    The gradient of a row is x (p - e_ŷ)ᵀ. Its inner products are products of two small ones,
    so the N x d x K table of gradients is never made. A row is never drawn twice.

    Examples
    --------
    >>> Badge(seed=1)
    Badge(seed=1)
    """

    seed: int = 0

    def bind(self, request: Request) -> Rule:
        """Return the length of each row's gradient."""
        request.fitted.check_kind("Badge")
        return GradientRule(request.fitted)

    @property
    def selection(self) -> Any:  # type: ignore[override]
        """k-means++: the longest first, then at random by squared distance."""
        return PlusPlus()


@dataclass(frozen=True)
class PlusPlus:
    """k-means++ (Arthur and Vassilvitskii 2007) over what a rule says after each pick."""

    def keep(self, batch: int) -> None:
        """Return None: every row has a chance."""

    def __call__(self, shortlist: Shortlist, batch: int, rng: np.random.Generator) -> NDArray[Any]:
        """Return the positions drawn."""
        play = shortlist.ordered()
        rule, values = play.rule, play.values
        picked = [int(rng.choice(np.flatnonzero(values == values.max())))]
        while len(picked) < batch:
            rule = rule.after(play.candidates, picked[-1], "")
            weights = np.array(rule(play.candidates))
            weights[picked] = 0.0
            total = weights.sum()
            free = np.ones(len(weights))
            free[picked] = 0.0
            # All gradients equal to one that is taken: any free row is as good.
            chances = weights / total if total > 0.0 else free / free.sum()
            picked.append(int(rng.choice(len(weights), p=chances)))
        return play.positions[picked]


@dataclass(frozen=True, eq=False)
class GradientRule(FollowingRule):
    """The length of a row's gradient; once rows are taken, its squared distance to the nearest."""

    fitted: Fitted
    play: tuple[NDArray[Any], NDArray[Any]] | None = None

    def fresh(self, rows: Candidates) -> NDArray[Any]:
        """Return the lengths."""
        return np.asarray(np.sqrt(self._gradients(rows)[1]))

    def _gradients(self, rows: Candidates) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return p - e_ŷ of rows, and the squared lengths of their gradients."""
        slopes = _slopes(to_numpy(rows.proba))
        norms = to_numpy(self.fitted.model.squared_norms(rows.X, self.fitted.params))
        return slopes, norms * np.sum(slopes * slopes, axis=1)

    def after(self, rows: Candidates, position: int, update: str) -> Rule:
        """Return the rule with one more gradient taken."""
        X, play = plain_rows(rows.X), self.play or self._gradients(rows)
        slopes, squares = play
        constant = float(self.fitted.model.linear("Badge").intercept)
        product = X @ rows_at(X, np.array([position])).T
        product = product.toarray() if is_sparse(product) else product
        inner = (product[:, 0] + constant) * (slopes @ slopes[position])
        gap = np.maximum(squares + squares[position] - 2.0 * inner, 0.0)
        nearest = gap if self.taken is None else np.minimum(self.taken[1], gap)
        return replace(self, play=play, taken=(rows, nearest))


def _slopes(proba: NDArray[Any]) -> NDArray[Any]:
    slopes: NDArray[Any] = proba.copy()
    slopes[np.arange(len(proba)), proba.argmax(axis=1)] -= 1.0
    return slopes
