"""How far a cheap utility can be trusted here: a few candidates, really retrained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import like, to_numpy
from goalward.errors import BadParameter

if TYPE_CHECKING:
    from goalward.core.rows import Candidates
    from goalward.goals import Goal
    from goalward.labels import Resolver
    from goalward.models import Fitted
    from goalward.utility.utility import Utility


BATCH = 10
"""Rows whose regret is taken."""


@dataclass(frozen=True)
class Fidelity:
    """Agreement of a utility with retraining on a sample of (row, label) pairs.

    Parameters
    ----------
    rank, low, high
        Spearman correlation and its 95 % interval over rows: of the scores after an operator where
        one is known, else of all (row, label) pairs.
    pairs
        Spearman correlation of all (row, label) pairs.
    regret
        What the rows that the utility puts first lose against the best of those retrained, as a share
        of what the best are above the mean: 0 is the best batch, 1 one no better than the mean.
    slope
        Of retrained on predicted utilities; below 1 the utility over-estimates.
    rows
        Positions retrained.
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

    Parameters
    ----------
    resolver, ids
        An operator bound to the model, and the ids of the rows: what is compared then are the
        scores, which can disagree where the utilities agree.
    """
    from goalward.core.pool import n_rows, take_rows

    if min(rows, n_rows(X_pool)) < 3:
        raise BadParameter(
            f"rows={rows} of a pool of {n_rows(X_pool)}; at least 3 were expected. Use 20."
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
    """Return what an operator makes of the utilities of a block."""
    return lambda u: to_numpy(resolver(like(u, block.proba, dtype=block.proba.dtype), block))


def agreement(
    name: str,
    guess: NDArray[Any],
    exact: NDArray[Any],
    rows: NDArray[Any],
    views: Sequence[View] = (np.ravel,),
    drawn: int | None = None,
) -> Fidelity:
    """Return how predicted and retrained utilities agree: in the view where they agree least.

    The interval is Fisher's, with the variance that Bonett and Wright (2000) give for ranks. Only the
    first `drawn` rows are a sample of the pool and count for it; all rows count for the regret.
    """
    scores = [(view(guess), view(exact)) for view in views]
    by_row = [pair for pair in scores if len(pair[0]) == len(rows)]
    regret = max(_regret(*pair) for pair in by_row or [(guess.mean(axis=1), exact.mean(axis=1))])
    drawn = len(rows) if drawn is None else drawn
    scores = [
        (a[: drawn * len(a) // len(rows)], b[: drawn * len(b) // len(rows)]) for a, b in scores
    ]
    guess, exact = guess[:drawn], exact[:drawn]
    # Equal to rounding is equal: ranks of noise say nothing.
    level = 1e-9 * np.abs(guess).max()
    rank = min(rank_correlation(a, b, level) for a, b in scores)
    z = np.arctanh(min(rank, 1.0 - 1e-12))
    half = 1.96 * np.sqrt((1.0 + rank**2 / 2.0) / max(drawn - 3.0, 0.5))
    low, high = np.tanh([z - half, z + half])
    spread = float(np.sum((guess - guess.mean()) ** 2))
    slope = np.sum((guess - guess.mean()) * (exact - exact.mean())) / max(spread, 1e-300)
    pairs = rank_correlation(guess, exact)
    return Fidelity(name, rank, float(low), float(high), float(slope), rows, pairs, regret)


def first_rows(scores: NDArray[Any], count: int = BATCH) -> NDArray[Any]:
    """Return the positions of the highest scores, at most a third of all."""
    return np.argsort(-scores, kind="stable")[: max(1, min(count, len(scores) // 3))]


def _regret(guess: NDArray[Any], exact: NDArray[Any]) -> float:
    best = exact[first_rows(exact)].mean()
    lost = best - exact[first_rows(guess)].mean()
    return float(lost / max(best - exact.mean(), 1e-300))


def rank_correlation(a: NDArray[Any], b: NDArray[Any], level: float = 0.0) -> float:
    """Return Spearman's correlation: that of the ranks, equal values sharing theirs.

    0 where b is constant, or a to within `level`.
    """
    if np.ptp(a) <= level or np.ptp(b) == 0.0:
        return 0.0
    return float(np.corrcoef(rank_of(a.ravel()), rank_of(b.ravel()))[0, 1])


def rank_of(values: NDArray[Any]) -> NDArray[Any]:
    """Return ranks from 1 on, equal values sharing theirs."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[place]
