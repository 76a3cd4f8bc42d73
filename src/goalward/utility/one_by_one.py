"""Retraining one model after another: a network, a tree, or a linear model that stalled."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array, Rows, like, namespace, rows_at, to_numpy
from goalward.core.cores import one_blas_thread
from goalward.errors import Unsupported
from goalward.goals.goal import Bound, Goal, Term, logits_of
from goalward.models.fitted import Fitted
from goalward.solvers.solution import Solution
from goalward.utility.utility import Scored, Scorer

if TYPE_CHECKING:
    from goalward.utility.utility import Utility


LOG = logging.getLogger(__name__)

MOST_ANSWERS = 1024
PATIENCE = 2.0
"""Seconds from which an estimate of the time is logged."""


@dataclass(frozen=True)
class OneByOne(Scorer):
    """Δτ by training from the current weights (networks) or by a refit (other classifiers).

    `given` is the model passed in, used for predictions; `fitted` is retrained, for comparison.
    """

    given: Fitted
    fitted: Fitted
    terms: list[Term]
    before: float
    report: None = None

    @classmethod
    def of(cls, fitted: Fitted, goal: Goal) -> OneByOne:
        """Return the model at its own optimum: its distance from there would count as gain."""
        with one_blas_thread():
            polished = fitted.polished()
            terms = goal.terms(polished)
            return cls(fitted, polished, terms, value_of(polished, terms))

    def __call__(self, rows: Rows) -> Scored:
        proba = self.given.proba_of(rows)
        return Scored(self.labelled_as(rows, range(self.given.n_answers)), proba)

    def labelled_as(self, rows: Rows, codes: Sequence[int]) -> Float[Array, "n l"]:
        """Return Δτ of every row under some labels."""
        jobs = [
            (rows_at(rows, slice(i, i + 1)), np.array([k]))
            for i in range(rows.shape[0])
            for k in codes
        ]
        values = self._all(jobs).reshape(-1, len(codes))
        return like(values, self.given.params, dtype=self.given.params.dtype)

    def window(self, rows: Rows, codes: NDArray[Any]) -> Float[Array, " l"]:
        return like(self._all([(rows, labels) for labels in codes]), self.fitted.params)

    def _all(self, jobs: list[tuple[Rows, NDArray[Any]]]) -> NDArray[Any]:
        values = []
        with one_blas_thread():
            began = perf_counter()
            for rows, codes in jobs:
                after = labelled_too(self.fitted, rows, codes).polished()
                values.append(value_of(after, self.terms) - self.before)
                each = perf_counter() - began
                if len(values) == 1 and each * (len(jobs) - 1) > PATIENCE:
                    LOG.warning(
                        "Retrain: %d models at %.2g s each, about %.1f minutes. "
                        "gw.strategies.Among(strategy, by='random') tries fewer.",
                        *(len(jobs), each, each * (len(jobs) - 1) / 60),
                    )
        return np.array(values)


def labelled_too(fitted: Fitted, rows: Rows, codes: NDArray[Any]) -> Fitted:
    """Return the model, not refitted, with more labelled rows; `codes` number the answers."""
    answers = to_numpy(fitted.loss.answers(fitted.proba_of(rows)))
    which = np.arange(len(codes)) if len(answers) > 1 else 0
    targets = like(answers[which, codes], fitted.params, dtype=fitted.params.dtype)
    return fitted.with_rows(rows, targets)


def value_of(fitted: Fitted, terms: list[Term]) -> float:
    """Return the value of the goal, from its bound terms."""
    return sum(term.weight * float(term.kernel.value(logits_of(fitted, term.X))) for term in terms)


def expected_change(fitted: Fitted, goal: Goal, rows: Rows) -> NDArray[Any]:
    """Return the expected change of the goal by each row under the prediction, by retraining."""
    here, dtype = fitted.polished(), fitted.params.dtype
    before, changes = goal.value(here), []
    with one_blas_thread():
        proba = to_numpy(fitted.proba_of(rows))
        for i in range(rows.shape[0]):
            row = rows_at(rows, slice(i, i + 1))
            targets, chances = whole_answers(fitted, proba[i : i + 1])
            each = (like(target[None], fitted.params, dtype=dtype) for target in targets)
            after = [goal.value(here.with_rows(row, target).polished()) for target in each]
            changes.append((np.array(after) - before) @ chances)
    return np.array(changes)


def whole_answers(fitted: Fitted, proba: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the answers to all questions of a row together, and how likely each is."""
    loss = fitted.loss
    asked = 1 if loss.kind == "class" else fitted.n_classes
    chances = to_numpy(loss.chances(proba)).reshape(asked, -1)
    if asked == 1 and loss.kind == "class":
        return to_numpy(loss.answers(proba))[0], chances[0]
    given = to_numpy(loss.given(proba))[0]
    if given.shape[1] ** asked > MOST_ANSWERS:
        raise Unsupported(
            f"All answers to the {asked} questions of a row are {given.shape[1]}**{asked}; at most "
            f"{MOST_ANSWERS} can be retrained. Compare on a few of the labels."
        )
    targets = np.array(list(product(*given)))
    return targets, np.array([np.prod(each) for each in product(*chances)])


def with_side_effects(utility: Utility, fitted: Fitted, goal: Goal) -> Scorer:
    """Return a bound utility where a label also changes class weights or frees intercepts."""
    if fitted.label_counts is not None:
        return Rebalanced.of(utility, fitted, goal)
    scorer = utility.prepare(fitted, goal)
    if fitted.freeing is None:
        return scorer
    return FirstLabel(scorer, OneByOne.of(fitted, goal), fitted.freeing, scorer.report)


@dataclass(frozen=True)
class Rebalanced(Scorer):
    """Utilities with balanced class weights n / (K n_k), where each label changes all weights.

    Refitted once per class: Δτ(x, k) = shift + Δτ of (x, k) at θ_k, with `shifts` τ(θ_k) - τ(θ).
    """

    fitted: Fitted
    shifts: Float[Array, " k"]
    scorers: Sequence[Scorer]
    report: Solution | None

    @classmethod
    def of(cls, utility: Utility, fitted: Fitted, goal: Goal) -> Rebalanced:
        fitted = fitted.polished(tol=1e-10)
        terms = goal.terms(fitted)
        labels = like(np.eye(fitted.n_classes), fitted.params, dtype=fitted.params.dtype)
        after = [
            replace(fitted.expecting(labels[k, :]), label_counts=None).polished(tol=1e-10)
            for k in range(fitted.n_classes)
        ]
        before = value_of(fitted, terms)
        values = np.array([value_of(model, terms) for model in after])
        shifts = like(values - before, fitted.params)
        scorers = [utility.prepare(model, Bound(terms)) for model in after]
        return cls(fitted, shifts, scorers, scorers[0].report)

    def __call__(self, rows: Rows) -> Scored:
        proba = self.fitted.proba_of(rows)
        each = [scorer(rows) for scorer in self.scorers]
        columns = [scored.per_label[:, k] + self.shifts[k] for k, scored in enumerate(each)]
        return Scored(namespace(proba).stack(columns, axis=1), proba, each[0].leverage)


@dataclass(frozen=True)
class FirstLabel(Scorer):
    """Utilities where the first label of class `missing` frees the intercepts: it is retrained."""

    scorer: Scorer
    exact: OneByOne
    missing: int
    report: Solution | None

    def __call__(self, rows: Rows) -> Scored:
        scored, k, given = self.scorer(rows), self.missing, self.exact.given.params
        u, wide = scored.per_label, like(rows, given, dtype=given.dtype)
        column = like(self.exact.labelled_as(wide, [k]), u, dtype=u.dtype)
        full = namespace(u).concat([u[:, :k], column, u[:, k + 1 :]], axis=1)
        return scored._replace(per_label=full)
