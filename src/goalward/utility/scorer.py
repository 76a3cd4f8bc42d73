"""A utility bound to a model and a goal, and the rule it makes under an operator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array, Rows, like, namespace, to_numpy
from goalward.core.candidates import Candidates
from goalward.core.rows import check_finite
from goalward.errors import NotFinite, Unsupported
from goalward.goals import Goal
from goalward.labels import Expected, Predicted, Resolver
from goalward.labels.beliefs import Believe
from goalward.models import Fitted
from goalward.solvers import Solution, Updated, fits
from goalward.utility.fidelity import Fidelity, fidelity
from goalward.utility.rule import Judged, Rule

if TYPE_CHECKING:
    from goalward.utility.utility import Utility

__all__ = ["Certified", "GoalRule", "Scored", "Scorer", "Supposed", "check_scores", "is_constant"]


class Scored(NamedTuple):
    """A block of rows: Δτ under each label, what the model predicts, and leverages if known."""

    per_label: Float[Array, "n k"]
    proba: Float[Array, "n k"]
    leverage: Float[Array, " n"] | None = None


class Certified(NamedTuple):
    """Utilities (n, K), and how far the goal after retraining can be from each of them.

    A bound holds for certain; it is infinite where none is known.
    """

    utility: NDArray[Any]
    bound: NDArray[Any]


class Scorer(ABC):
    """A utility bound to a model and a goal."""

    report: Solution | None
    """How a direction was solved for, if one was."""

    certifies: ClassVar[bool] = False
    """Whether it knows how far from retraining it can be."""

    @abstractmethod
    def __call__(self, rows: Rows) -> Scored:
        """Return the utilities of rows that went through `fitted.features`."""

    def under(self, resolver: Resolver, supposed: Supposed) -> Rule:
        """Return the rule: these utilities, the unknown label resolved."""
        return GoalRule(self, resolver, supposed)

    def certified(self, rows: Rows) -> Certified:
        """Return the utilities of rows with a bound of their distance from retraining."""
        raise Unsupported(
            f"A certificate was asked of {type(self).__name__}, which takes no steps towards the "
            "retrained model; ImplicitStep(corrections=1) or more, or Retrain(), with a linear model "
            "was expected."
        )


@dataclass(frozen=True, eq=False)
class Supposed:
    """A model that rows are taken into as if they were labelled, and what is asked of it.

    A row taken in with a distribution t over labels joins the labelled rows, and a few Newton
    steps from where the model was move it to the new optimum. With its own prediction for t
    the slope of the row is zero: the model stays and only its curvature grows. The inverse
    Hessian follows by low-rank updates where the features are few enough to hold it.

    Parameters
    ----------
    note
        Why this utility, where it was chosen for the round.
    """

    fitted: Fitted
    goal: Goal
    utility: Utility
    note: str = ""
    inverse: Updated | None = None

    def scorer(self) -> Scorer:
        """Return the utility bound to the model as it is now."""
        utility = self.utility if self.inverse is None else self.utility.solved_by(self.inverse)
        return utility.bound(self.fitted, self.goal)

    def after(self, row: Candidates, believe: Believe | None) -> Supposed:
        """Return what holds once a row is labelled as believed; None adds its curvature alone."""
        fitted, dtype = self.fitted, self.fitted.params.dtype
        if believe is None and not fitted.model.has_derivatives:
            raise Unsupported(
                "Sequential(update='curvature') came with a classifier that has no curvature; a linear "
                "model or a network was expected. Use Sequential() or Top()."
            )
        x = like(row.X, fitted.params, dtype=dtype)
        target = proba = fitted.proba_of(x)
        if believe is not None:
            belief = like(believe(Candidates(row.rows, x, proba)), fitted.params, dtype=dtype)
            target = fitted.loss.supposed(belief, proba)
        inverse = self._followed(x, proba, target)
        moved = fitted.with_rows(x, target)
        if believe is not None:
            # The next scores need the direction, not the last digits.
            moved = moved.polished(tol=1e-6, solver=inverse)
        return replace(self, fitted=moved, inverse=inverse)

    def _followed(self, x: Rows, proba: Any, target: Any) -> Updated | None:
        """Return the inverse after a row, where one is held."""
        fitted, held = self.fitted, self.inverse
        if held is None:
            steady = fitted.label_counts is None and fitted.freed is None
            if not (steady and fitted.model.is_linear and fits(fitted.hessian)):
                return None
            held = Updated.of(fitted.hessian)
        weight = float(fitted.weights_of(target)[0])
        return held.added(x, weight * fitted.loss.blocks(proba)[0, ...])


@dataclass(frozen=True, eq=False)
class GoalRule(Rule):
    """Utilities of a goal under every label, resolved by an operator."""

    scorer: Scorer
    resolver: Resolver
    supposed: Supposed | None
    constant: bool = False

    @property
    def report(self) -> Solution | None:
        """How the direction was solved for, and why this utility."""
        note = "" if self.supposed is None else self.supposed.note
        found = self.scorer.report
        if not note or self.supposed is None:
            return found
        if found is None:
            return Solution(self.supposed.fitted.params * 0.0, 0.0, 0, "Retrain", note)
        return replace(found, reason=f"{found.reason}; {note}")

    @property
    def name(self) -> str:
        """The operator."""
        return repr(self.resolver.operator)

    def __call__(self, rows: Candidates) -> Float[Array, " n"]:
        """Return the operator's number for every row."""
        return self.judged(rows).values

    def judged(self, rows: Candidates) -> Judged:
        """Return the operator's numbers with the utilities they were made of."""
        per_label, proba, leverage = self.scorer(rows.X)
        check_scores(per_label, rows)
        resolved = self.resolver(per_label, Candidates(rows.rows, rows.X, proba))
        return Judged(resolved, per_label, leverage)

    def after(self, rows: Candidates, position: int, update: str) -> Rule:
        """Return the rule for the model that has taken a row in."""
        assert self.supposed is not None, "a rule that has travelled looks not ahead"
        believe = None if update == "curvature" else self.resolver.believe
        supposed = self.supposed.after(rows.at(position), believe)
        return supposed.scorer().under(self.resolver, supposed)

    def portable(self) -> Rule:
        """Return the rule without the model's labelled rows."""
        return replace(self, supposed=None)

    def table(self, rows: Candidates) -> Float[Array, "n k"]:
        """Return the utility of rows under every label."""
        per_label = self.scorer(rows.X).per_label
        check_scores(per_label, rows)
        return per_label

    @property
    def certifies(self) -> bool:  # type: ignore[override]
        """Whether the utility does."""
        return self.scorer.certifies

    def certificate(self, rows: Candidates) -> NDArray[Any]:
        """Return how far from retraining the utilities of rows can be, under every label."""
        return self.scorer.certified(rows.X).bound

    def interval(self, rows: Candidates, *, retrain: bool = False) -> Float[NDArray[Any], "2 n"]:
        """Return the operator's numbers at the ends of what utilities can be."""
        from goalward.utility.retrain import Retrain

        if self.supposed is None or not (self.certifies and self.resolver.operator.rising):
            return super().interval(rows)
        if retrain:
            exact = replace(self.supposed, utility=Retrain()).scorer()
            return np.stack([to_numpy(self.resolver(exact(rows.X).per_label, rows))] * 2)
        utility, bound = self.scorer.certified(rows.X)
        known = np.isfinite(bound)
        bound = np.where(known, bound, 0.0)
        ends = [
            to_numpy(self.resolver(like(u, rows.proba, dtype=rows.proba.dtype), rows))
            for u in (utility - bound, utility + bound)
        ]
        return np.where(known.all(axis=1), ends, [[-np.inf], [np.inf]])

    def fidelity(self, X_pool: Any, ids: Any, rows: int, seed: int) -> Fidelity:
        """Return how utilities and scores compare with retraining, on `rows` candidates."""
        assert self.supposed is not None
        s = self.supposed
        return fidelity(
            s.utility,
            s.fitted,
            s.goal,
            X_pool,
            rows=rows,
            seed=seed,
            resolver=self.resolver,
            ids=ids,
        )


def is_constant(resolver: Resolver) -> bool:
    """Return whether first-order utilities have one expectation for all rows (Remark 1)."""
    return resolver.operator == Expected(Predicted())


def check_scores(scores: Array, rows: Candidates) -> None:
    """Raise if a score is no number, naming the row of the pool that is to blame.

    NaN and infinity in a row survive every product, so a pool need not be searched for them.
    """
    xp = namespace(scores)
    limit = float(xp.finfo(scores.dtype).max) ** 0.5 * 1e-3
    if not bool(xp.all(xp.abs(scores) <= limit)):
        check_finite(rows.X, "X_pool", start=rows.start)
    if not bool(xp.all(xp.isfinite(scores))):
        raise NotFinite(
            f"{int(xp.sum(xp.astype(~xp.isfinite(scores), xp.int64)))} utilities of the rows from "
            f"{rows.start} on are not finite numbers, though the rows are; finite ones were expected. "
            "Check the goal and the belief at these rows."
        )
