"""One round: the model of the present labels, and the rows to ask next.

Everything is computed from the state and the pool: models are fitted from zero and clocks are not
read, so the same events give the same rows, in whatever process and after whatever crash.
"""

from __future__ import annotations

import platform
import time
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold

from goalward.core.arrays import to_numpy
from goalward.goals import DevLoss, Entropy, Goal, PosteriorGoal
from goalward.goals.dev_folds import half, steering
from goalward.journal import Ranked
from goalward.labels import Spread
from goalward.models import Fitted
from goalward.pool import n_rows, take_rows
from goalward.solvers.coordinates import LARGEST
from goalward.stopping import seen
from goalward.strategies import GoalOriented, Subsampled, recipe
from goalward.strategies.strategy import Suggestion
from goalward.study.before import goal_before
from goalward.study.pools import Pool
from goalward.study.queue import queued
from goalward.study.random_order import random_order
from goalward.study.state import State
from goalward.utility import FirstOrder
from goalward.utility.threads import one_blas_thread

__all__ = ["DEV_MINIMUM", "Round", "ready", "versions"]

DEV_MINIMUM = 10
"""Dev labels, of two classes at least, before they measure or steer anything."""
HEAD = 32
"""Rows picked with care for one another; the rest of a queue is in the order of the scores."""
QUEUE = 256
FOLDS = 5
STOP_ROWS = 1000
"""Rows whose predictions are followed from round to round, for stopping rules."""
LARGE = 500
"""Unknowns above which only as many rows are picked with care as are answered before the next fit."""
WORK = 3e9
"""Multiplications that a round spends on scoring rows by their curvature: about a second. A row
takes the square of the unknowns, so of a large pool a part is looked at, drawn anew each round."""


def ready(state: State) -> bool:
    """Return whether a model can be fitted: labels of two classes among the training rows."""
    return len(set(state.training.values())) >= 2


@dataclass(frozen=True, eq=False)
class Round:
    """A state with labels of two classes, and its pool."""

    state: State = field(repr=False)
    pool: Pool = field(repr=False)

    @cached_property
    def fitted(self) -> Fitted:
        """The model of the training labels."""
        rows = np.array(list(self.state.training))
        return self._fit(rows, list(self.state.training.values()))

    @cached_property
    def has_dev(self) -> bool:
        """Whether there are dev labels enough to measure with."""
        dev = self.state.dev
        if self._keeps_back and len(set(self._steers.tolist())) < 2:
            return False
        return len(dev) >= DEV_MINIMUM and len(set(dev.values())) >= 2

    @property
    def recipe(self) -> str:
        """The strategy of this round; the dev goal waits for dev labels."""
        chosen, auto = self.state.settings.strategy, self.state.settings.auto
        if chosen == "auto":
            return auto
        return auto if "dev" in recipe(chosen).needs and not self.has_dev else chosen

    @cached_property
    def goal_rows(self) -> NDArray[Any]:
        """The rows the goal looks at: dev rows, or a fixed random part of the pool."""
        return np.array(list(self.state.dev)) if self.has_dev else self._sample

    @cached_property
    def goal(self) -> Goal:
        """The dev log-likelihood, or certainty on goal rows where there are no dev labels."""
        X = take_rows(self.pool.X, self.goal_rows)
        return DevLoss(X, list(self.state.dev.values())) if self.has_dev else Entropy(X)

    @property
    def _keeps_back(self) -> bool:
        return self.state.settings.strategy.startswith("dev-split/")

    @cached_property
    def _steers(self) -> NDArray[Any]:
        return steering(list(self.state.dev), self.state.settings.seed)

    def model_at(self, seq: int) -> Fitted:
        """Return the model of the training rows that had an answer by then, as labelled now."""
        known = self.known_at(seq)
        return self._fit(np.array(list(known)), list(known.values()))

    def known_at(self, seq: int) -> dict[int, Any]:
        """Return row -> label, as labelled now, of the training rows with an answer by then."""
        first = self.state.first_answers
        return {row: label for row, label in self.state.training.items() if first[row] <= seq}

    @cached_property
    def closed(self) -> NDArray[Any]:
        """Rows a ranking leaves out: the dev set's, answered often enough, or skipped."""
        state = self.state
        done = np.zeros(n_rows(self.pool.X), dtype=bool)
        done |= state.settings.is_dev(np.arange(len(done)))
        for row, said in state.standings.items():
            answers = sum(s.label is not None for s in said.values())
            done[row] |= answers == 0 or answers >= state.settings.answers
        return np.flatnonzero(done)

    def rank(self, size: int = QUEUE, now: float = 0.0) -> Ranked | None:
        """Return what is thought of the pool now; None where no row is open."""
        # Many small products: several BLAS threads made this 3 to 30 times slower on two busy cores.
        with one_blas_thread():
            return self._rank(size, now)

    def _rank(self, size: int, now: float) -> Ranked | None:
        started = time.perf_counter()
        free = n_rows(self.pool.X) - len(self.closed)
        if free == 0:
            return None
        queue, suggestion = self._queue(min(size, free), min(HEAD, size, free))
        utility = suggestion.utility
        open_rows = np.delete(utility, self.closed)
        open_rows = open_rows[~np.isnan(open_rows)]
        metric, accuracy, log_loss = self._measured()
        batch = queue[: self.state.settings.refit]
        return Ranked(
            at=now,
            based_on=self.state.seq,
            moves=self.state.moves,
            labels=len(self.state.training),
            dev_labels=len(self.state.dev),
            recipe=self.recipe,
            seed=self.state.settings.seed,
            features=self.pool.digest,
            versions=versions(),
            queue=tuple(int(row) for row in queue),
            utilities=tuple(float(utility[row]) for row in queue),
            quantiles=tuple(np.quantile(open_rows, np.linspace(0.0, 1.0, 41)).tolist()),
            metric=metric,
            accuracy=accuracy,
            log_loss=log_loss,
            goal=self.goal.value(self.fitted) / len(self.goal_rows),
            gain=float(np.mean(self.gains(batch))),
            solver=suggestion.solver.reason if suggestion.solver else None,
            stop_set=self._stop_set(batch),
            goal_before=goal_before(self),
            seconds=time.perf_counter() - started,
        )

    def gains(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return how much a label of each row moves the goal, per goal row.

        The deviation over the believed label: to first order the mean is the same for all rows
        (Remark 1), and says nothing.
        """
        X = take_rows(self.pool.X, rows)
        per_label = self.utility(self.fitted, self.goal, X)
        return to_numpy(Spread()(per_label, self.fitted, X)) / len(self.goal_rows)

    def _queue(self, size: int, head: int) -> tuple[NDArray[Any], Suggestion]:
        X, settings = self.pool.X, self.state.settings
        strategy = recipe(self.recipe).build(**self._data(), seed=settings.seed)
        strategy = strategy.at(self.fitted, len(self.state.rounds))
        if self._keeps_back and self.has_dev and isinstance(strategy, GoalOriented):
            dev, labels = self.goal_rows, list(self.state.dev.values())
            goal = half(take_rows(X, dev), labels, ids=dev, seed=settings.seed)
            strategy = replace(strategy, goal=goal)
        if self._large and isinstance(strategy, GoalOriented):
            head = min(head, settings.refit)
        if isinstance(getattr(strategy, "goal", None), PosteriorGoal):
            unknowns = min(LARGEST, int(X.shape[1]) * (len(self.state.classes) - 1))
            candidates = max(2000, int(WORK / unknowns**2))
            strategy = Subsampled(strategy, candidates=candidates, seed=settings.seed)
        return queued(
            strategy,
            self.fitted,
            X,
            size=size,
            head=head,
            closed=self.closed,
            round=len(self.state.rounds),
        )

    @cached_property
    def _sample(self) -> NDArray[Any]:
        settings = self.state.settings
        order = random_order(n_rows(self.pool.X), settings.seed, "goal")
        return np.sort(order[: settings.goal_rows])

    def _stop_set(self, batch: NDArray[Any]) -> dict[str, Any]:
        order = random_order(n_rows(self.pool.X), self.state.settings.seed, "stop")
        fixed = np.sort(order[:STOP_ROWS])
        kept = seen(self._proba(self.fitted, fixed), self._proba(self.fitted, batch))
        # As the journal gives it back.
        return {**kept, "predicted": list(kept["predicted"])}

    def _data(self) -> dict[str, Any]:
        needs = recipe(self.recipe).needs
        data: dict[str, Any] = {}
        if "dev" in needs:
            rows = np.array(list(self.state.dev))
            data["dev"] = (take_rows(self.pool.X, rows), list(self.state.dev.values()))
        if "pool" in needs:
            data["pool"] = take_rows(self.pool.X, self._sample)
        return data

    @property
    def _large(self) -> bool:
        """Whether each row picked with care for the others takes its time."""
        features = int(self.pool.X.shape[1])
        unknowns = min(len(self.state.training), features) * (len(self.state.classes) - 1)
        return unknowns > LARGE

    @property
    def utility(self) -> FirstOrder:
        """How changes of the goal are predicted in reports."""
        return FirstOrder()

    def _fit(self, rows: NDArray[Any], labels: list[Any]) -> Fitted:
        unseen = len(set(labels)) < len(self.state.classes)
        learner = self.state.settings.fitter(self.state.classes, unseen=unseen)
        return learner.fit(take_rows(self.pool.X, rows), labels)

    def _measured(self) -> tuple[str | None, float | None, float | None]:
        """Return accuracy and log-loss on dev labels, or cross-validated on those asked for."""
        if self.has_dev:
            rows = np.array(list(self.state.dev))
            truth = self._codes(list(self.state.dev.values()))
            return ("dev", *_scored(self._proba(self.fitted, rows), truth))
        rows = np.array(list(self.state.training))
        labels = list(self.state.training.values())
        if len(rows) < 2 * FOLDS:
            return None, None, None
        held: NDArray[Any] = np.empty((len(rows), len(self.state.classes)))
        folds = KFold(FOLDS, shuffle=True, random_state=self.state.settings.seed)
        for train, test in folds.split(rows):
            known = [labels[i] for i in train]
            if len(set(known)) < 2:
                return None, None, None
            held[test] = self._proba(self._fit(rows[train], known), rows[test])
        return ("cross-validated", *_scored(held, self._codes(labels)))

    def _proba(self, fitted: Fitted, rows: NDArray[Any]) -> NDArray[Any]:
        return to_numpy(fitted.predict_proba(take_rows(self.pool.X, rows)))

    def _codes(self, labels: list[Any]) -> NDArray[Any]:
        code = {label: k for k, label in enumerate(self.state.classes)}
        return np.array([code[label] for label in labels])


def _scored(proba: NDArray[Any], truth: NDArray[Any]) -> tuple[float, float]:
    hit = np.maximum(proba[np.arange(len(truth)), truth], 1e-300)
    return float(np.mean(proba.argmax(axis=1) == truth)), float(-np.mean(np.log(hit)))


def versions() -> dict[str, str]:
    """Return the versions that decide the numbers."""
    names = ("goalward", "numpy", "scipy", "scikit-learn")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}
