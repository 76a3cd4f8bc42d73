"""What a labelled row covers: the gain of `goals.Coverage`, the same for every label."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

from jaxtyping import Float

from goalward.core.arrays import Array, Rows, astype, namespace, rows_at
from goalward.core.candidates import Candidates
from goalward.errors import Unsupported
from goalward.goals import Coverage, Goal
from goalward.goals.coverage import Cover, unit_rows
from goalward.labels import Resolver
from goalward.models import Fitted
from goalward.utility.rule import FollowingRule, Rule
from goalward.utility.scorer import Scored, Scorer, Supposed
from goalward.utility.utility import Utility

__all__ = ["CoverRule", "Covering"]


@dataclass(frozen=True)
class Covering(Utility):
    """How much more of the uncertain reference rows a row covers, whatever its label.

    For `Coverage`, which `GoalOriented` gives it by itself. Exact, while uncertainties stay; as rows
    are taken one by one the gains follow exactly.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Logistic().fit([[0.0, 1.0], [1.0, 0.0]], [0, 1])
    >>> Covering()(fitted, gw.goals.Coverage([[1.0, 1.0]]), [[1.0, 1.0], [0.0, 1.0]]).shape
    (2, 2)
    """

    def prepare(self, fitted: Fitted, goal: Goal) -> Covers:
        """Return the utility bound to a model and a goal, if it is one of coverage."""
        if len(goal.parts) != 1 or goal.utility != "covering":
            raise Unsupported(
                f"Covering() came with {type(goal).__name__}; Coverage alone was expected. Leave utility= "
                "out, and the goal brings its own."
            )
        ((weight, part),) = goal.parts
        cover = cast(Coverage, part).cover(fitted)
        return Covers(fitted, replace(cover, weights=weight * cover.weights))

    # Where a row is does not depend on what labels change.
    bound = prepare

    def batch(self, fitted: Fitted, goal: Goal, X_batches: Any, labels: Any = None) -> Any:
        """Refuse: the labels of a batch change nothing here."""
        raise Unsupported(
            "Covering().batch(...) came; what rows cover does not depend on labels, so there are no "
            "labelings to compare. Use Sequential(), which adds up what the rows bring together."
        )


@dataclass(frozen=True)
class Covers(Scorer):
    """The gains of coverage."""

    fitted: Fitted
    cover: Cover
    report: None = None

    def __call__(self, rows: Rows) -> Scored:
        """Return the gain of every row, once for each label."""
        proba = self.fitted.loss.proba(self.fitted.logits_of(rows))
        found = astype(self.gains(rows), proba.dtype)
        shape = (found.shape[0], self.fitted.n_answers)
        return Scored(namespace(proba).broadcast_to(found[:, None], shape), proba)

    def gains(self, rows: Rows) -> Float[Array, " n"]:
        """Return the gain of every row, block by block."""
        step = self.cover.step
        starts = range(0, max(rows.shape[0], 1), step)
        parts = (unit_rows(rows_at(rows, slice(i, i + step))) for i in starts)
        found = [self.cover.gains(self.cover.kernel(part)) for part in parts]
        return namespace(self.cover.best).concat(found)

    def under(self, resolver: Resolver, supposed: Supposed) -> Rule:
        """Return the rule: every label brings the same, so there is nothing to resolve."""
        return CoverRule(self)


@dataclass(frozen=True, eq=False)
class CoverRule(FollowingRule):
    """The gain of rows, which follows as rows are taken.

    Parameters
    ----------
    kernel
        Similarities of the rows in play, once one of them was taken.
    """

    covers: Covers
    kernel: Float[Array, "n m"] | None = None
    parallel = True

    def fresh(self, rows: Candidates) -> Float[Array, " n"]:
        """Return the gain of every row."""
        return self.covers.gains(rows.X)

    def playing(self, rows: Candidates) -> Rule:
        """Return the rule with the similarities of the rows, which serve their scores and the picks."""
        cover = self.covers.cover
        kernel = cover.kernel(unit_rows(rows.X))
        return replace(self, kernel=kernel, taken=(rows, cover.gains(kernel)))

    def after(self, rows: Candidates, position: int, update: str) -> Rule:
        """Return the rule once a row is known."""
        same = self.taken is not None and self.taken[0] is rows
        kernel = self.kernel if same else None
        if kernel is None:
            kernel = self.covers.cover.kernel(unit_rows(rows.X))
        cover = self.covers.cover.with_row(kernel[position, :])
        return CoverRule(
            replace(self.covers, cover=cover), kernel, taken=(rows, cover.gains(kernel))
        )

    def table(self, rows: Candidates) -> Any:
        """Return the gain of rows, once for each label."""
        return self.covers(rows.X).per_label
