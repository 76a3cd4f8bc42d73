"""What a round thinks of the pool: the rows to ask next, and how good the model is."""

from __future__ import annotations

import platform
import time
from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.threads import one_blas_thread
from goalward.errors import PoolExhausted
from goalward.goals import PosteriorGoal
from goalward.models import Fitted
from goalward.solvers.inverse import LARGEST
from goalward.strategies import GoalOriented, Strategy, Subsampled, recipe
from goalward.strategies.strategy import Suggestion
from goalward.studio.store import Ranked
from goalward.studio.study.judges import JUDGES
from goalward.studio.study.prices import prices
from goalward.studio.study.rounds import StudyRound

HEAD = 32
"""Rows picked with care for one another; the rest of a queue is in the order of the scores."""
LARGE = 500
"""Unknowns above which only as many rows are picked with care as are answered before the next fit."""
WORK = 3e9
"""Multiplications that a round spends on scoring rows by their curvature: about a second. A row
takes the square of the unknowns, so of a large pool a part is looked at, drawn anew each round."""


# Many small products: several BLAS threads made this 3 to 30 times slower on two busy cores.
@one_blas_thread()
def rank(now: StudyRound, size: int, at: float) -> Ranked | None:
    """Return what is thought of the pool now; None where no row is open."""
    started, state = time.perf_counter(), now.state
    # Rows of the dev set, and those that need no more answers, are left out.
    done = state.settings.is_dev(np.arange(now.pool.n_rows))
    done[state.closed] = True
    closed = np.flatnonzero(done)
    free = now.pool.n_rows - len(closed)
    if free == 0:
        return None
    strategy, head = _strategy(now)
    queue, suggestion = queued(
        strategy,
        now.fitted,
        now.pool.X,
        size=min(size, free),
        head=min(head, size, free),
        closed=closed,
        round=len(state.rounds),
        costs=prices(now.pool, state.settings.costs),
    )
    utility = suggestion.utility
    scores = np.delete(utility, closed)
    batch = queue[: state.settings.refit]
    return Ranked(
        at=at,
        based_on=state.seq,
        moves=state.moves,
        labels=len(state.training),
        dev_labels=len(state.dev),
        recipe=now.recipe,
        seed=state.settings.seed,
        features=now.pool.digest,
        versions=versions(),
        queue=tuple(queue.tolist()),
        utilities=tuple(utility[queue].tolist()),
        quantiles=tuple(np.quantile(scores[~np.isnan(scores)], np.linspace(0, 1, 41)).tolist()),
        **JUDGES[state.settings.kind].judged(now, batch),
        solver=suggestion.solver.reason if suggestion.solver else None,
        C=now.fitted.C,
        guesses=_guesses(now),
        seconds=time.perf_counter() - started,
    )


def _strategy(now: StudyRound) -> tuple[Strategy, int]:
    """Return what chooses, and how many rows it picks with care for one another."""
    state, settings, made = now.state, now.state.settings, recipe(now.recipe)
    dev, labels = (
        list(state.dev),
        state.settings.answer.targets(list(state.dev.values()), state.classes),
    )
    data: dict[str, Any] = {}
    if "dev" in made.needs:
        data["dev"] = (now.pool.take(dev), labels)
    if "pool" in made.needs:
        data["pool"] = now.pool.take(now.sample)
    # Whose turn it is follows the fits to fewer labels: ranked again, the same give the same queue.
    fits = {ranked.labels for _, ranked in state.rounds if ranked.labels < len(state.training)}
    strategy = made.build(**data, seed=settings.seed).turn(now.fitted, len(fits))
    # Of K classes one follows from the others; labels and numbers are all asked for.
    contrasts = len(state.classes) - (settings.kind == "class")
    features = int(now.pool.X.shape[1])
    # Each row picked with care for the others takes its time.
    large = min(len(state.training), features) * contrasts > LARGE
    head = min(HEAD, settings.refit) if large else HEAD
    if not isinstance(strategy, GoalOriented):
        return strategy, head
    if isinstance(strategy.goal, PosteriorGoal):
        candidates = max(2000, int(WORK / min(LARGEST, features * contrasts) ** 2))
        strategy = Subsampled(strategy, candidates=candidates, seed=settings.seed)
    return strategy, head


def queued(
    strategy: Strategy,
    fitted: Fitted,
    X: Any,
    *,
    size: int,
    head: int,
    closed: NDArray[Any],
    round: int,
    costs: NDArray[Any] | None = None,
) -> tuple[NDArray[Any], Suggestion]:
    """Return `size` open rows, best first, and what the strategy said of all.

    Parameters
    ----------
    head
        Rows picked with care for one another.
    closed
        Rows that are left out.
    costs
        What each row costs: then they come by gain per price. A strategy that only orders rows, and a
        round in which none gains anything, go without.
    """
    costs = None if strategy.zero is None else costs
    given: dict[str, Any] = {"batch": head, "exclude": closed, "round": round}
    try:
        suggestion = strategy.suggest(fitted, X, **given, costs=costs)
    except PoolExhausted:  # none is worth its price
        costs = None
        suggestion = strategy.suggest(fitted, X, **given)
    picked = suggestion.rows
    # Rows that were not looked at have no score, and no place.
    rest = np.nan_to_num(suggestion.utility, nan=-np.inf)
    if costs is not None:
        gains = rest - (strategy.zero or 0.0)
        rest = np.where(gains > 0.0, gains / costs, gains)
    rest[closed] = -np.inf
    rest[picked] = -np.inf
    most = min(size - len(picked), np.count_nonzero(rest > -np.inf))
    order = np.argsort(-rest, kind="stable")[: max(most, 0)]
    return np.concatenate([picked, order]), suggestion


def _guesses(now: StudyRound) -> dict[str, Any] | None:
    """Return how guesses proved, and whether the model uses them."""
    if now.pool.guesses is None:
        return None
    proved = now.pool.guesses.proved(now.state)
    used = now.fitted.transform is not None
    return {"right": proved.right.total(), "of": proved.of.total(), "used": used}


@cache
def versions() -> dict[str, str]:
    """Return the versions that decide the numbers."""
    names = ("goalward", "numpy", "scipy", "scikit-learn")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}
