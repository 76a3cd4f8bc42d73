"""What a round thinks of the pool: the rows to ask next, and how good the model is."""

from __future__ import annotations

import platform
import time
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold

from goalward.core.arrays import to_numpy
from goalward.errors import PoolExhausted
from goalward.goals import PosteriorGoal
from goalward.goals.dev_folds import half
from goalward.journal import Ranked
from goalward.models import Fitted
from goalward.solvers.coordinates import LARGEST
from goalward.stopping import seen
from goalward.strategies import GoalOriented, Strategy, Subsampled, recipe
from goalward.strategies.strategy import Suggestion
from goalward.study.ledger import Ledger
from goalward.study.pools import PoolLoader
from goalward.study.rounds import StudyRound, ready, refit_due
from goalward.utility.threads import one_blas_thread

__all__ = ["Rounds", "queued", "rank", "versions"]

HEAD = 32
"""Rows picked with care for one another; the rest of a queue is in the order of the scores."""
FOLDS = 5
STOP_ROWS = 1000
"""Rows whose predictions are followed from round to round, for stopping rules."""
LARGE = 500
"""Unknowns above which only as many rows are picked with care as are answered before the next fit."""
WORK = 3e9
"""Multiplications that a round spends on scoring rows by their curvature: about a second. A row
takes the square of the unknowns, so of a large pool a part is looked at, drawn anew each round."""


class Rounds:
    """The rounds of a study in one process; the model of the last one serves while it is right."""

    def __init__(self, ledger: Ledger, rows: PoolLoader) -> None:
        self._ledger, self._rows = ledger, rows
        self._last: StudyRound | None = None

    def present(self) -> StudyRound:
        """Return the round of now, with the model of the last one if no answer changed."""
        state, pool = self._ledger.state, self._rows.load().checked()
        if self._last is None or not self._last.models(state):
            self._last = StudyRound(state, pool)
        return self._last

    def refresh(self, *, force: bool, size: int) -> Ranked | None:
        """Fit, rank and store; the study is held only to read and to store."""
        state = self._ledger.state
        if not ready(state):
            return None
        if not force and not refit_due(state, "any"):
            return state.ranking
        now = self._last = StudyRound(state, self._rows.load().checked())
        ranked = rank(now, size + len(state.leases), self._ledger.clock())
        if ranked is not None:
            self._ledger.write(lambda state, at: (None, [ranked]))
        return ranked


def rank(now: StudyRound, size: int, at: float) -> Ranked | None:
    """Return what is thought of the pool now; None where no row is open."""
    # Many small products: several BLAS threads made this 3 to 30 times slower on two busy cores.
    with one_blas_thread():
        return _rank(now, size, at)


def _rank(now: StudyRound, size: int, at: float) -> Ranked | None:
    started, state = time.perf_counter(), now.state
    closed = _closed(now)
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
    )
    utility = suggestion.utility
    scores = np.delete(utility, closed)
    metric, accuracy, log_loss = _measured(now)
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
        metric=metric,
        accuracy=accuracy,
        log_loss=log_loss,
        goal=now.goal.value(now.fitted) / len(now.goal_rows),
        gain=float(np.mean(now.gains(batch))),
        solver=suggestion.solver.reason if suggestion.solver else None,
        stop_set=_stop_set(now, batch),
        goal_before=now.goal_before(),
        seconds=time.perf_counter() - started,
    )


def _closed(now: StudyRound) -> NDArray[Any]:
    """Return rows a ranking leaves out: the dev set's, answered often enough, or skipped."""
    done = now.state.settings.is_dev(np.arange(now.pool.n_rows))
    done[[row for row in now.state.standings if not now.state.wants_answer(row)]] = True
    return np.flatnonzero(done)


def _strategy(now: StudyRound) -> tuple[Strategy, int]:
    """Return what chooses, and how many rows it picks with care for one another."""
    state, settings, made = now.state, now.state.settings, recipe(now.recipe)
    dev, labels = list(state.dev), list(state.dev.values())
    data: dict[str, Any] = {}
    if "dev" in made.needs:
        data["dev"] = (now.pool.take(dev), labels)
    if "pool" in made.needs:
        data["pool"] = now.pool.take(now.sample)
    strategy = made.build(**data, seed=settings.seed).turn(now.fitted, len(state.rounds))
    if not isinstance(strategy, GoalOriented):
        return strategy, HEAD
    if now.keeps_back and now.has_dev:
        goal = half(now.pool.take(dev), labels, ids=np.array(dev), seed=settings.seed)
        strategy = replace(strategy, goal=goal)
    features, contrasts = int(now.pool.X.shape[1]), len(state.classes) - 1
    # Each row picked with care for the others takes its time.
    large = min(len(state.training), features) * contrasts > LARGE
    if isinstance(strategy.goal, PosteriorGoal):
        candidates = max(2000, int(WORK / min(LARGEST, features * contrasts) ** 2))
        strategy = Subsampled(strategy, candidates=candidates, seed=settings.seed)
    return strategy, min(HEAD, settings.refit) if large else HEAD


def queued(
    strategy: Strategy,
    fitted: Fitted,
    X: Any,
    *,
    size: int,
    head: int,
    closed: NDArray[Any],
    round: int,
) -> tuple[NDArray[Any], Suggestion]:
    """Return `size` open rows, best first, and what the strategy said of all.

    Parameters
    ----------
    head
        Rows picked with care for one another; where fewer different rows are open, half as many,
        and so on: different rows come before copies of them.
    closed
        Rows that are left out.
    """
    while True:
        try:
            suggestion = strategy.suggest(fitted, X, batch=head, exclude=closed, round=round)
            break
        except PoolExhausted:
            # Rows equal to one another: fewer different ones are left than the batch needs.
            if head == 1:
                raise
            head //= 2
    picked = suggestion.rows
    # Rows that were not drawn have no score; there are always enough that were.
    rest = np.nan_to_num(suggestion.utility, nan=-np.inf)
    rest[closed] = -np.inf
    rest[picked] = -np.inf
    order = np.argsort(-rest, kind="stable")[: max(size - len(picked), 0)]
    return np.concatenate([picked, order]), suggestion


def _measured(now: StudyRound) -> tuple[str | None, float | None, float | None]:
    """Return accuracy and log-loss on dev labels, or cross-validated on those asked for."""
    code = {label: k for k, label in enumerate(now.state.classes)}
    labels = now.state.dev if now.has_dev else now.state.training
    rows = np.array(list(labels))
    truth = np.array([code[label] for label in labels.values()])
    if now.has_dev:
        return ("dev", *_scored(_proba(now, now.fitted, rows), truth))
    if len(rows) < 2 * FOLDS:
        return None, None, None
    proba: NDArray[Any] = np.empty((len(rows), len(code)))
    folds = KFold(FOLDS, shuffle=True, random_state=now.state.settings.seed)
    for train, test in folds.split(rows):
        if len(np.unique(truth[train])) < 2:
            return None, None, None
        fitted = now.fit({int(row): labels[row] for row in rows[train]})
        proba[test] = _proba(now, fitted, rows[test])
    return ("cross-validated", *_scored(proba, truth))


def _scored(proba: NDArray[Any], truth: NDArray[Any]) -> tuple[float, float]:
    hit = np.maximum(proba[np.arange(len(truth)), truth], 1e-300)
    return float(np.mean(proba.argmax(axis=1) == truth)), float(-np.mean(np.log(hit)))


def _stop_set(now: StudyRound, batch: NDArray[Any]) -> dict[str, Any]:
    order = now.state.settings.random_order(now.pool.n_rows, "stop")
    fixed = np.sort(order[:STOP_ROWS])
    kept = seen(_proba(now, now.fitted, fixed), _proba(now, now.fitted, batch))
    # As the journal gives it back.
    return {**kept, "predicted": list(kept["predicted"])}


def _proba(now: StudyRound, fitted: Fitted, rows: NDArray[Any]) -> NDArray[Any]:
    return to_numpy(fitted.predict_proba(now.pool.take(rows)))


def versions() -> dict[str, str]:
    """Return the versions that decide the numbers."""
    names = ("goalward", "numpy", "scipy", "scikit-learn")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}
