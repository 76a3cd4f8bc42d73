"""Agreement of a utility with retraining, on a sample of candidates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from goalward.core.arrays import like, to_numpy
from goalward.errors import BadParameter

if TYPE_CHECKING:
    from goalward.core.rows import Candidates
    from goalward.goals import Goal
    from goalward.labels import Resolver
    from goalward.models import Fitted
    from goalward.utility.utility import Utility


@dataclass(frozen=True)
class Fidelity:
    """Agreement of a utility with retraining on a sample of (row, label) pairs.

    Parameters
    ----------
    rank, low, high
        Spearman correlation of scores (of pairs without an operator), with its 95 % interval.
    pairs
        Spearman correlation of all (row, label) pairs.
    regret
        Loss of the utility's first rows against the best, relative to best minus mean.
    slope
        Of retrained on predicted utilities; below 1 the utility over-estimates.
    """

    utility: str
    rank: float
    low: float
    high: float
    slope: float
    rows: NDArray[Any]
    pairs: float
    regret: float

    def __str__(self) -> str:
        return (
            f"{self.utility}: rank correlation with retraining {self.rank:.2f} "
            f"[{self.low:.2f}, {self.high:.2f}], slope {self.slope:.2f}, regret of the first rows "
            f"{self.regret:.2f}, on {len(self.rows)} rows"
        )


def stratified(scores: NDArray[Any], count: int, rng: np.random.Generator) -> NDArray[Any]:
    """Return `count` positions, one at random from each stretch of the sorted scores."""
    order = np.argsort(scores, kind="stable")
    parts = np.array_split(order, min(count, len(order)))
    return np.sort([rng.choice(part) for part in parts])


def fidelity(
    utility: Utility,
    fitted: Fitted,
    goal: Goal,
    X_pool: Any,
    *,
    rows: int = 20,
    seed: int = 0,
    resolver: Resolver | None = None,
    ids: NDArray[Any] | None = None,
) -> Fidelity:
    """Return the agreement of `utility` with retraining on a stratified sample of the pool.

    With `resolver`, an operator bound to the model, and `ids` of the rows, scores are compared.
    """
    from goalward.core.pool import n_rows, take_rows

    if min(rows, n_rows(X_pool)) < 3:
        raise BadParameter(
            f"rows must be at least 3, got {rows} of a pool of {n_rows(X_pool)}. Use 20."
        )
    predicted = to_numpy(utility(fitted, goal, X_pool))
    sample = stratified(predicted.mean(axis=1), rows, np.random.default_rng(seed))
    some = take_rows(X_pool, sample)
    names = sample if ids is None else ids[sample]
    exact = to_numpy(utility.truth(fitted, goal, some))
    views: Sequence[View] = (np.ravel,)
    if resolver is not None:
        views = (resolved(resolver, fitted.candidates(some, names)),)
    return agreement(repr(utility), predicted[sample], exact, sample, views)


View = Callable[[NDArray[Any]], NDArray[Any]]
"""(n, K) utilities -> one score for each row."""


def resolved(resolver: Resolver, block: Candidates) -> View:
    """Return the map from the utilities of a block to an operator's scores."""
    return lambda u: to_numpy(resolver(like(u, block.proba, dtype=block.proba.dtype), block))


def agreement(
    name: str,
    guess: NDArray[Any],
    exact: NDArray[Any],
    rows: NDArray[Any],
    views: Sequence[View] = (np.ravel,),
    drawn: int | None = None,
) -> Fidelity:
    """Return the agreement of predicted and retrained utilities in the worst of the views.

    The interval (Bonett and Wright 2000) is of the first `drawn` rows; others are for the regret.
    """
    scores = [(view(guess), view(exact)) for view in views]
    by_row = [pair for pair in scores if len(pair[0]) == len(rows)]
    regret = max(_regret(*pair) for pair in by_row or [(guess.mean(axis=1), exact.mean(axis=1))])
    drawn = len(rows) if drawn is None else drawn
    scores = [
        (a[: drawn * len(a) // len(rows)], b[: drawn * len(b) // len(rows)]) for a, b in scores
    ]
    guess, exact = guess[:drawn], exact[:drawn]
    # Values equal to rounding are tied: ranks of noise are meaningless.
    level = 1e-9 * np.abs(guess).max()
    rank = min(rank_correlation(a, b, level) for a, b in scores)
    z = np.arctanh(min(rank, 1.0 - 1e-12))
    half = 1.96 * np.sqrt((1.0 + rank**2 / 2.0) / max(drawn - 3.0, 0.5))
    low, high = np.tanh([z - half, z + half])
    spread = float(np.sum((guess - guess.mean()) ** 2))
    slope = np.sum((guess - guess.mean()) * (exact - exact.mean())) / max(spread, 1e-300)
    pairs = rank_correlation(guess, exact)
    return Fidelity(name, rank, float(low), float(high), float(slope), rows, pairs, regret)


def first_rows(scores: NDArray[Any]) -> NDArray[Any]:
    """Return the positions of the highest scores: ten, or a third of all."""
    return np.argsort(-scores, kind="stable")[: max(1, min(10, len(scores) // 3))]


def _regret(guess: NDArray[Any], exact: NDArray[Any]) -> float:
    best = exact[first_rows(exact)].mean()
    lost = best - exact[first_rows(guess)].mean()
    return float(lost / max(best - exact.mean(), 1e-300))


def rank_correlation(a: NDArray[Any], b: NDArray[Any], level: float = 0.0) -> float:
    """Return Spearman's correlation; 0 where b is constant, or a to within `level`."""
    if np.ptp(a) <= level or np.ptp(b) == 0.0:
        return 0.0
    return float(np.corrcoef(rankdata(a), rankdata(b))[0, 1])
