"""Ranking the pool: the rows to ask next, and how good the model is."""

from __future__ import annotations

import platform
import time
from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import to_numpy
from goalward.core.cores import one_blas_thread
from goalward.errors import PoolExhausted
from goalward.models import Fitted
from goalward.solvers.inverse import LARGEST
from goalward.strategies import Among, Random, Strategy, recipe
from goalward.strategies.strategy import Suggestion
from goalward.studio.store import Ranked
from goalward.studio.study.agreement import reliabilities
from goalward.studio.study.guesses import Guesses
from goalward.studio.study.pools import prices
from goalward.studio.study.rounds import StudyRound

MANY, LIKELY = 12, 5
"""Classes above which a page shows the likely ones of a row first, and how many those are."""
SURE, SUREST = 0.95, 1000
"""Probability above which a row is offered to be accepted as predicted, and how many are at most."""
MISTAKES = 2000
"""Answers that are looked at for likely mistakes, the most doubtful ones."""
HEAD = 32
"""Rows picked as a batch; the rest of a queue is in the order of the scores."""
LARGE = 500
"""Unknowns above which only the rows answered before the next fit are picked as a batch."""
WORK = 3e9
"""Multiplications for scoring rows by their curvature, about a second; a row takes the unknowns squared."""


# Many small products: several BLAS threads made this 3 to 30 times slower on two busy cores.
@one_blas_thread()
def rank(now: StudyRound, size: int, at: float) -> Ranked | None:
    """Return the ranking of the pool; None if no row is open."""
    started, state = time.perf_counter(), now.state
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
        round=state.n_rounds,
        costs=prices(now.pool.frame, state.settings.costs),
    )
    scores = np.delete(suggestion.utility, closed)
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
        utilities=tuple(suggestion.utility[queue].tolist()),
        quantiles=tuple(np.quantile(scores[~np.isnan(scores)], np.linspace(0, 1, 41)).tolist()),
        **state.settings.answer.judged(now, queue[: state.settings.refit]),
        solver=suggestion.solver.reason if suggestion.solver else None,
        C=now.fitted.C,
        guesses=None if now.pool.guesses is None else _guesses(now, now.pool.guesses),
        # What reads it passes over what it does not know.
        made={
            "features": {
                "recipe": state.pool.get("features"),
                "digest": now.pool.digest,
                "map": now.fitted.feature_map and now.fitted.feature_map.state()[0],
            },
            "C": now.fitted.C,
            "strategy": {"recipe": now.recipe, "options": {}},
        },
        seconds=time.perf_counter() - started,
    )


def viewed(now: StudyRound, ranked: Ranked) -> dict[str, Any]:
    """Return what pages look up until the next ranking: scores, likely mistakes, and predictions."""
    state, kind = now.state, now.state.settings.answer
    mistakes = []
    for row, doubt, says, *_ in zip(*kind.doubts(now, most=MISTAKES), strict=True):
        label = state.labels[row]
        if mistake := kind.mistake(label, says, doubt, state.classes):
            mistakes.append([row, kind.coded(label, state.classes), *mistake, doubt])
    view = {"scores": kind.scores(now).record(), "mistakes": mistakes}
    view["people"] = [person.says for person in reliabilities(state)]
    if kind.name == "class":
        rows = [row for row in ranked.queue if not state.settings.measures(row)]
        proba = to_numpy(now.fitted.predict_proba(now.pool.take(rows)))
        most = LIKELY if len(state.classes) > MANY else 0
        likely = np.argsort(-proba, axis=1, kind="stable")[:, :most].tolist()
        best = zip(proba.argmax(axis=1).tolist(), proba.max(axis=1).tolist(), likely, strict=True)
        view["predicted"] = dict(zip(rows, best, strict=True))
    return view


def surest(now: StudyRound) -> list[tuple[int, int, float]]:
    """Return row, number of the class and probability of open rows the model is sure of, surest first."""
    state = now.state
    state.settings.answer.need("Accepting what the model is sure of")
    codes, chances = now.exported.likeliest(now.pool.X)
    # Rows drawn to measure stay as they are: answers that agree with the model would flatter it.
    chances[state.settings.is_dev(np.arange(now.pool.n_rows))] = chances[state.closed] = 0.0
    chances[state.counted_rows[0] > 0] = 0.0  # somebody answered: no second opinion at one click
    found = np.argsort(-chances, kind="stable")[:SUREST]
    return [
        (int(row), int(codes[row]), float(chances[row])) for row in found if chances[row] > SURE
    ]


def _strategy(now: StudyRound) -> tuple[Strategy, int]:
    """Return the strategy, and how many rows it picks as a batch."""
    state, settings, made = now.state, now.state.settings, recipe(now.recipe)
    data: dict[str, Any] = {}
    if "dev" in made.needs:
        labels = settings.answer.targets(list(state.dev.values()), state.classes)
        data["dev"] = (now.pool.take(list(state.dev)), labels)
    if "pool" in made.needs:
        data["pool"] = now.pool.take(now.sample)
    # By fits to fewer labels, so that ranking again gives the same queue.
    fits = {ranked.labels for _, ranked in state.rounds if ranked.labels < len(state.training)}
    strategy = made.build(**data, seed=settings.seed).turn(now.fitted, len(fits))
    # Of K classes one follows from the others; labels and numbers are all asked for.
    contrasts = len(state.classes) - (settings.kind == "class")
    features = int(now.pool.X.shape[1])
    large = min(len(state.training), features) * contrasts > LARGE
    head = min(HEAD, settings.refit) if large else HEAD
    goal = getattr(strategy, "goal", None)
    if goal is not None and goal.utility == "information":
        candidates = max(2000, int(WORK / min(LARGEST, features * contrasts) ** 2))
        strategy = Among(strategy, by=Random(settings.seed), most=candidates, seed=settings.seed)
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
    """Return `size` open rows, best first, by gain per cost if possible, and the strategy's scores."""
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


def _guesses(now: StudyRound, guesses: Guesses) -> dict[str, Any]:
    """Return how many guesses were right, and whether the model uses them."""
    proved = guesses.proved(now.state)
    classes = [[proved.right[label], proved.of[label]] for label in now.state.classes]
    counts = {"right": proved.right.total(), "of": proved.of.total(), "classes": classes}
    return {**counts, "used": now.fitted.opinion is not None}


@cache
def versions() -> dict[str, str]:
    """Return the versions that decide the numbers."""
    names = ("goalward", "numpy", "scipy", "scikit-learn")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}
