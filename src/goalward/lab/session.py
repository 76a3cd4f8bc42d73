"""One simulated labelling session: fit, suggest, answer, again."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from goalward.errors import BadInput
from goalward.lab.datasets import Dataset, Split
from goalward.models import Fitted
from goalward.models.features import fitted_maps, is_plain
from goalward.strategies import Recipe, Strategy, Suggestion


class Step(NamedTuple):
    """A session after a fit: rows bought so far, the model, rows asked next; times in seconds."""

    spent: NDArray[Any]
    model: Fitted
    suggestion: Suggestion | None
    rows: list[int]
    fitting: float
    choosing: float


@dataclass(frozen=True)
class Session:
    """One strategy on one split (`parts`, or the dataset's for this seed): `budget` labels, `batch` a round.

    Examples
    --------
    >>> import goalward as gw
    >>> from goalward.lab import Session, datasets
    >>> session = Session(datasets.wine(), gw.recipe("margin"), batch=5, budget=10)
    >>> [len(step.spent) for step in session.steps()]
    [0, 5, 10]
    """

    dataset: Dataset
    strategy: Recipe | Strategy
    seed: int = 0
    batch: int = 10
    budget: int = 400
    parts: Split | None = field(default=None, repr=False)

    @cached_property
    def split(self) -> Split:
        split = self.parts or self.dataset.split(self.seed)
        if shared := np.intersect1d(split.dev, split.test).tolist():
            raise BadInput(
                f"Dev rows must not be test rows, and row {shared[0]} of {self.dataset.name} is both "
                f"({len(shared)} such, seed {self.seed}). Draw dev rows from the pool."
            )
        return split

    @cached_property
    def answers(self) -> NDArray[Any]:
        return self.dataset.answers(self.seed)

    @cached_property
    def X_pool(self) -> NDArray[Any]:
        return np.asarray(self.dataset.X[self.split.pool])

    @cached_property
    def learner(self) -> Any:
        """The dataset's learner; its feature maps are fitted to the pool once."""
        own = self.dataset.learner
        if is_plain(getattr(own, "features", "linear")):
            return own
        return own.having(features=fitted_maps(own.features, self.X_pool))

    @cached_property
    def chooser(self) -> Strategy:
        X, dev = self.dataset.X, self.split.dev
        data: dict[str, Any] = {"dev": (X[dev], self.answers[dev]), "pool": self.X_pool}
        chooser = self.strategy.build(**data, truth=self.dataset.y, seed=self.seed)
        known = np.concatenate([self.split.pool, self.split.init])
        # A test row that equals one of the pool may have come from there.
        secret = _row_keys(X[self.split.test]) - _row_keys(X[known])
        leaked = sum(len(secret & _row_keys(rows)) for rows in dev_rows(chooser))
        if leaked:
            raise BadInput(
                f"Dev rows must not be test rows, and {leaked} dev rows of {type(chooser).__name__} are test "
                f"rows of {self.dataset.name} (seed {self.seed}). Let each split give its own: "
                "lambda dev, pool: gw.GoalOriented(gw.goals.DevLoss(*dev))."
            )
        return chooser

    def steps(self) -> Iterator[Step]:
        """Yield the rounds, the last one after the whole budget."""
        init, pool = self.split.init, self.split.pool
        taken: list[list[int]] = []
        while True:
            spent = np.array([row for rows in taken for row in rows], dtype=np.int64)
            began = perf_counter()
            known = np.concatenate([init, spent])
            model = fitted_to(self.dataset, known, self.answers[known], self.learner)
            fitting = perf_counter() - began
            left = min(self.batch, self.budget - len(spent), len(pool) - len(spent))
            suggestion, rows = None, []
            if left > 0:
                suggestion = self.chooser.suggest(
                    model, self.X_pool, left, spent, rows=pool, round=len(taken)
                )
                rows = suggestion.rows.tolist()
            choosing = perf_counter() - began - fitting
            yield Step(spent, model, suggestion, rows, fitting, choosing)
            if left <= 0:
                return
            taken.append(rows)


def dev_rows(part: Any) -> list[Any]:
    """Return the rows whose labels a strategy brings along, in its goal or in its beliefs."""
    names = ("goal", "operator", "belief", "strategy", "by")
    several = [item[1] if isinstance(item, tuple) else item for item in getattr(part, "parts", ())]
    inside = [getattr(part, name, None) for name in names] + several
    rows = [
        X for inner in inside if inner is not None and inner is not part for X in dev_rows(inner)
    ]
    holds_labels = getattr(part, "y", None) is not None and hasattr(part, "X")
    return [*rows, part.X] if holds_labels else rows


def _row_keys(X: Any) -> set[bytes]:
    return {row.tobytes() for row in np.asarray(X, dtype=np.float64)}


def fitted_to(
    dataset: Dataset, rows: NDArray[Any], labels: NDArray[Any], learner: Any = None
) -> Any:
    """Return the model of labelled rows, with a column for every class where the learner can."""
    learner = learner or dataset.learner
    params = learner.get_params(deep=False)
    # A class without a label yet needs penalised intercepts, as in a study.
    penalized = params.get("penalize_intercept") or "until-seen"
    wanted: dict[str, Any] = {"classes": dataset.classes, "penalize_intercept": penalized}
    params |= {name: value for name, value in wanted.items() if name in params}
    return type(learner)(**params).fit(dataset.X[rows], labels)


class Measures(NamedTuple):
    """How good a model is on held-out rows; `balanced` is the mean recall over classes."""

    accuracy: float
    log_loss: float
    balanced: float


def measure(fitted: Fitted, dataset: Dataset, test: NDArray[Any]) -> Measures:
    """Return the measures on held-out rows; of classes that tie, each has its share."""
    p = np.asarray(fitted.predict_proba(dataset.X[test]))
    codes = np.minimum(np.searchsorted(fitted.classes, dataset.y[test]), p.shape[1] - 1)
    # A class that the model does not know is always wrong.
    known = fitted.classes[codes] == dataset.y[test]
    likelihood = np.where(known, p[np.arange(len(test)), codes], 0.0)
    top = p == p.max(axis=1, keepdims=True)
    right = known * top[np.arange(len(test)), codes] / top.sum(axis=1)
    _, groups = np.unique(dataset.y[test], return_inverse=True)
    recalls = np.bincount(groups, right) / np.bincount(groups)
    loss = -np.mean(np.log(np.maximum(likelihood, 1e-300)))
    return Measures(float(np.mean(right)), float(loss), float(recalls.mean()))
