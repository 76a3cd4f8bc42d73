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
from goalward.core.threads import one_blas_thread
from goalward.errors import Unsupported
from goalward.goals.goal import Bound, Goal, Term, logits_of
from goalward.models.fitted import Fitted
from goalward.solvers.solution import Solution
from goalward.utility.utility import ROUNDING, Certified, Scored, Scorer

if TYPE_CHECKING:
    from goalward.utility.utility import Utility


LOG = logging.getLogger(__name__)

MOST_ANSWERS = 1024
PATIENCE = 2.0
"""Seconds from which an estimate of the time is logged."""


@dataclass(frozen=True)
class OneByOne(Scorer):
    """Δτ by training from where the model is (networks), or by a refit (other classifiers).

    The first model is timed; where all of them take more than two seconds, the estimate is
    logged before the others are trained.

    Parameters
    ----------
    given
        The model as it came, whose predictions are believed.
    fitted
        The same trained by us, which the others are compared with.
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
        """Return Δτ of every row under every label."""
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
        """Return Δτ of one batch under each of the labelings `codes` (L, b)."""
        return like(self._all([(rows, labels) for labels in codes]), self.fitted.params)

    def _all(self, jobs: list[tuple[Rows, NDArray[Any]]]) -> NDArray[Any]:
        with one_blas_thread():
            began = perf_counter()
            values = [self._change(*jobs[0])]
            each = perf_counter() - began
            left = each * (len(jobs) - 1)
            if left > PATIENCE:
                LOG.warning(
                    "Retrain: %d models at %.2g s each, about %.1f minutes. "
                    "gw.strategies.Subsampled tries fewer.",
                    *(len(jobs), each, left / 60),
                )
            values += [self._change(*job) for job in jobs[1:]]
        return np.array(values)

    def _change(self, rows: Rows, codes: NDArray[Any]) -> float:
        after = labelled_too(self.fitted, rows, codes).polished()
        return value_of(after, self.terms) - self.before


def labelled_too(fitted: Fitted, rows: Rows, codes: NDArray[Any]) -> Fitted:
    """Return the model as it is, with more labelled rows: each by the number of its answer."""
    answers = to_numpy(fitted.loss.answers(fitted.proba_of(rows)))
    which = np.arange(len(codes)) if len(answers) > 1 else 0
    return _with(fitted, rows, answers[which, codes])


def _with(fitted: Fitted, rows: Rows, targets: NDArray[Any]) -> Fitted:
    return fitted.with_rows(rows, like(targets, fitted.params, dtype=fitted.params.dtype))


def value_of(fitted: Fitted, terms: list[Term]) -> float:
    """Return the goal; its rows are bound already and stay what they are."""
    return sum(term.weight * float(term.kernel.value(logits_of(fitted, term.X))) for term in terms)


def expected_change(fitted: Fitted, goal: Goal, rows: Rows) -> NDArray[Any]:
    """Return by how much each row raises the goal's value, labels drawn as predicted, retrained."""
    here = fitted.polished()
    before, found = goal.value(here), []
    with one_blas_thread():
        proba = fitted.proba_of(rows)
        for i in range(rows.shape[0]):
            row = rows_at(rows, slice(i, i + 1))
            targets, chances = whole_answers(fitted, to_numpy(proba)[i : i + 1])
            after = [_with(here, row, target[None]).polished() for target in targets]
            found.append([goal.value(one) - before for one in after] @ chances)
    return np.array(found)


def whole_answers(fitted: Fitted, proba: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the answers to all questions of a row together, and how likely each is."""
    loss = fitted.loss
    asked = loss.questions(fitted.n_classes)
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


# What a label changes beside its own row: balanced weights, and intercepts that become free.
#
# Utilities suppose that the objective gains one row and stays as it is otherwise. Where it does not,
# the rest is done first, by a real fit, and the utility goes on from there.


def with_side_effects(utility: Utility, fitted: Fitted, goal: Goal) -> Scorer:
    """Return a utility bound to a model, whatever else its labels change."""
    if fitted.label_counts is not None:
        return Rebalanced.of(utility, fitted, goal)
    scorer = utility.prepare(fitted, goal)
    if fitted.freeing is None:
        return scorer
    return FirstLabel(scorer, OneByOne.of(fitted, goal), fitted.freeing, scorer.report)


@dataclass(frozen=True)
class Rebalanced(Scorer):
    """Utilities of a model whose class weights are balanced: n / (K n_k), so each label moves all.

    The weights after a label k are known whatever the row. The model is refitted to the labelled
    rows with those weights, once for each class, and the row joins that one:

        Δτ(x, k) = τ(θ_k) - τ(θ) + Δτ of (x, k) at θ_k

    which is as exact as the utility, and exact for `Retrain`.

    Parameters
    ----------
    shifts
        τ(θ_k) - τ(θ).
    scorers
        The utility at each θ_k.
    """

    fitted: Fitted
    shifts: Float[Array, " k"]
    scorers: Sequence[Scorer]
    report: Solution | None

    @classmethod
    def of(cls, utility: Utility, fitted: Fitted, goal: Goal) -> Rebalanced:
        """Return the utility bound to the model of every class's next label."""
        fitted = fitted.polished(tol=1e-10)
        terms = goal.terms(fitted)
        labels = like(np.eye(fitted.n_classes), fitted.params, dtype=fitted.params.dtype)
        after = [
            replace(fitted.expecting(labels[k, :]), label_counts=None).polished(tol=1e-10)
            for k in range(fitted.n_classes)
        ]
        before = value_of(fitted, terms)
        shifts = like(np.array([value_of(one, terms) - before for one in after]), fitted.params)
        scorers = [utility.prepare(one, Bound(terms)) for one in after]
        return cls(fitted, shifts, scorers, scorers[0].report)

    def __call__(self, rows: Rows) -> Scored:
        """Return Δτ of every row under every label."""
        proba = self.fitted.proba_of(rows)
        each = [scorer(rows) for scorer in self.scorers]
        columns = [one.per_label[:, k] + self.shifts[k] for k, one in enumerate(each)]
        return Scored(namespace(proba).stack(columns, axis=1), proba, each[0].leverage)

    @property
    def certifies(self) -> bool:  # type: ignore[override]
        """Whether the utility does."""
        return self.scorers[0].certifies

    def certified(self, rows: Rows) -> Certified:
        """Return Δτ of every row under every label, and how far from retraining each can be."""
        each = [scorer.certified(rows) for scorer in self.scorers]
        utility, bound = (np.stack([one[i][:, k] for k, one in enumerate(each)], 1) for i in (0, 1))
        shifts = to_numpy(self.shifts)
        return Certified(utility + shifts, bound + ROUNDING * np.abs(shifts))


@dataclass(frozen=True)
class FirstLabel(Scorer):
    """Utilities of a model whose intercepts are penalised until a last class has a label.

    The first label of that class frees them. Nothing nearby has this optimum, so this column is
    retrained row by row; the others are the utility's.

    Parameters
    ----------
    missing
        The index of the class without a label.
    """

    scorer: Scorer
    exact: OneByOne
    missing: int
    report: Solution | None

    def __call__(self, rows: Rows) -> Scored:
        """Return Δτ of every row under every label."""
        scored = self.scorer(rows)
        return scored._replace(per_label=self._with_first(rows, scored.per_label))

    @property
    def certifies(self) -> bool:  # type: ignore[override]
        """Whether the utility does."""
        return self.scorer.certifies

    def certified(self, rows: Rows) -> Certified:
        """Return what the utility certifies; of the first label nothing, though it is retrained."""
        utility, bound = self.scorer.certified(rows)
        bound[:, self.missing] = np.inf
        return Certified(self._with_first(rows, utility), bound)

    def _with_first(self, rows: Rows, u: Float[Array, "n k"]) -> Float[Array, "n k"]:
        """Return the utilities with the column of the first label retrained."""
        k, given = self.missing, self.exact.given.params
        wide = like(rows, given, dtype=given.dtype)
        column = like(self.exact.labelled_as(wide, [k]), u, dtype=u.dtype)
        return namespace(u).concat([u[:, :k], column, u[:, k + 1 :]], axis=1)
