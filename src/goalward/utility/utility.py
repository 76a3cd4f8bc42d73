"""What a label would do to the goal.

A `Utility` is bound to a model and a goal: a `Scorer` gives Δτ of rows under every label. An
operator resolves the unknown label and makes a `Rule` of it: rows in, one number for each row out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arguments import in_place
from goalward.core.arrays import Array, Rows, like, namespace
from goalward.core.pool import Pool, blocks
from goalward.core.rows import Candidates, check_finite
from goalward.errors import NotFinite, Unsupported
from goalward.goals import Goal
from goalward.labels import Expected, Predicted, Resolver
from goalward.labels.beliefs import Believe
from goalward.models import Fitted, as_fitted
from goalward.solvers import Solution, Solver, Updated, fits
from goalward.utility.fidelity import Fidelity, fidelity

ROUNDING = 1e-9
"""Share of a utility that rounding may take: the optimum before is known to 1e-10."""


def chunk_rows(n_classes: int) -> int:
    """Return rows per chunk of the grid on which rows are scored.

    Logits and motions of a chunk take 128 KiB in single precision, so that they stay in the cache,
    yet no fewer rows than a matrix product needs. The same for all types, so that the grid is one.
    """
    return max(256, 2**18 // (16 * n_classes) // 64 * 64)


def block_size(n_classes: int) -> int:
    """Return rows per block: a whole number of chunks."""
    chunk = chunk_rows(n_classes)
    return chunk * max(1, 2**16 // n_classes // chunk)


def stacked(parts: list[Any]) -> Any:
    """Return tables one under another, labels along the first axis in memory as theirs are."""
    if len(parts) == 1:
        return parts[0]
    return namespace(parts[0]).concat([part.T for part in parts], axis=1).T


# A rule says one number for each row. It may also look ahead, and explain itself.


class RowScores(NamedTuple):
    """One number for every row of a block, with utilities under every label and leverages if known."""

    values: Float[Array, " n"]
    per_label: Float[Array, "n k"] | None = None
    leverage: Float[Array, " n"] | None = None


class Rule(ABC):
    """The score of rows in one round; what the round shares is made already."""

    constant: bool = False
    """Whether every row is known to score the same (Remark 1)."""

    parallel: bool = False
    """Whether several threads may call it: it reads arrays, and calls nothing of a user's."""

    @property
    def name(self) -> str:
        """What resolves the unknown label, for messages."""
        return type(self).__name__

    @abstractmethod
    def __call__(self, rows: Candidates) -> Float[Array, " n"]:
        """Return one number for each row, larger is better."""

    def scores(self, rows: Candidates) -> RowScores:
        """Return the numbers, and what else came out on the way."""
        return RowScores(self(rows))

    def on(self, convert: Callable[[Any], Any]) -> Rule:
        """Return the rule for rows on a GPU; `convert` brings its arrays there."""
        raise Unsupported(
            f"{type(self).__name__} cannot be computed with device=. Leave device out, pass arrays of the "
            "GPU to suggest(), or use uncertainty or first order under average, min, max or spread."
        )

    def portable(self) -> Rule:
        """Return the rule as it travels to workers: without what only a look ahead needs."""
        return self


class SequentialRule(Rule):
    """A rule that can score rows again as if one of them were labelled."""

    @abstractmethod
    def after(self, rows: Candidates, position: int, update: str) -> SequentialRule:
        """Return the rule once the row at a position of `rows` is labelled; see `Sequential`."""

    def playing(self, rows: Candidates) -> SequentialRule:
        """Return the rule with what serves the scores of rows and the picks among them."""
        return self


class ExplainedRule(Rule):
    """A rule that knows utilities of labels, and how they compare with retraining."""

    report: Solution | None
    """How the goal's direction was solved for, where there is one."""

    certifies: bool = False
    """Whether it bounds how far from retraining its utilities can be."""

    @abstractmethod
    def table(self, rows: Candidates) -> Float[Array, "n k"]:
        """Return the utility of rows under every label."""

    def certificate(self, rows: Candidates) -> NDArray[Any] | None:
        """Return how far from retraining the utilities of rows can be, under every label."""
        return None

    def fidelity(self, X_pool: Any, ids: Any, rows: int, seed: int) -> Fidelity:
        """Return how scores compare with retraining, on `rows` candidates."""
        raise Unsupported(
            f"{self.name} has no goal that retraining would change. Leave fidelity out."
        )


@dataclass(frozen=True, eq=False)
class FollowingRule(SequentialRule):
    """A rule whose numbers for the rows in play are updated as one after another is taken.

    Parameters
    ----------
    taken
        The rows in play when the last one was taken, and their numbers now.
    """

    taken: tuple[Candidates, Float[Array, " n"]] | None = field(default=None, kw_only=True)

    @abstractmethod
    def fresh(self, rows: Candidates) -> Float[Array, " n"]:
        """Return the numbers of rows that were not in play."""

    def __call__(self, rows: Candidates) -> Float[Array, " n"]:
        """Return the numbers that hold now."""
        if self.taken is not None and self.taken[0] is rows:
            return self.taken[1]
        return self.fresh(rows)


# A utility bound to a model and a goal.


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

    def under(self, resolver: Resolver, look_ahead: LookAhead) -> Rule:
        """Return the rule: these utilities, the unknown label resolved."""
        return GoalRule(self, resolver, look_ahead)

    def certified(self, rows: Rows) -> Certified:
        """Return the utilities of rows with a bound of their distance from retraining."""
        raise Unsupported(
            f"{type(self).__name__} has no certificate. Use ImplicitStep(corrections=1) or more, or "
            "Retrain(), with a linear model."
        )


@dataclass(frozen=True, eq=False)
class LookAhead:
    """A model that rows are taken into as if they were labelled, with the goal and the utility.

    A row with a distribution t over labels joins the labelled rows, and a few Newton steps move the
    model to the new optimum. With its own prediction for t the slope of the row is zero: the model
    stays and only its curvature grows. The inverse Hessian follows by low-rank updates where the
    features are few enough to hold it.

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

    def after(self, row: Candidates, believe: Believe | None) -> LookAhead:
        """Return what holds once a row is labelled as believed; None adds its curvature alone."""
        fitted, dtype = self.fitted, self.fitted.params.dtype
        if believe is None and not fitted.model.has_derivatives:
            raise Unsupported(
                "Sequential(update='curvature') needs a model with curvature: a linear model or a "
                "network. Use Sequential() or Top()."
            )
        x = like(row.X, fitted.params, dtype=dtype)
        target = proba = fitted.proba_of(x)
        if believe is not None:
            belief = like(believe(Candidates(row.ids, x, proba)), fitted.params, dtype=dtype)
            target = fitted.loss.supposed(belief, proba)
        inverse = self._updated(x, proba, target)
        moved = fitted.with_rows(x, target)
        if believe is not None:
            # The next scores need the direction, not the last digits.
            moved = moved.polished(tol=1e-6, solver=inverse)
        return replace(self, fitted=moved, inverse=inverse)

    def _updated(self, x: Rows, proba: Any, target: Any) -> Updated | None:
        """Return the inverse after a row, where one is held."""
        fitted, held = self.fitted, self.inverse
        if held is None:
            steady = fitted.label_counts is None and fitted.free_penalty is None
            if not (steady and fitted.model.is_linear and fits(fitted.hessian)):
                return None
            held = Updated.of(fitted.hessian)
        weight = float(fitted.weights_of(target)[0])
        return held.added(x, weight * fitted.loss.blocks(proba)[0, ...])


@dataclass(frozen=True, eq=False)
class GoalRule(SequentialRule, ExplainedRule):
    """Utilities of a goal under every label, resolved by an operator."""

    scorer: Scorer
    resolver: Resolver
    look_ahead: LookAhead | None
    constant: bool = False

    @property
    def report(self) -> Solution | None:  # type: ignore[override]
        """How the direction was solved for, and why this utility."""
        look, report = self.look_ahead, self.scorer.report
        if look is None or not look.note:
            return report
        if report is None:
            return Solution(look.fitted.params * 0.0, 0.0, 0, "Retrain", look.note)
        return replace(report, reason=f"{report.reason}; {look.note}")

    @property
    def name(self) -> str:
        """The operator."""
        return repr(self.resolver.operator)

    @property
    def certifies(self) -> bool:  # type: ignore[override]
        """Whether the utility does."""
        return self.scorer.certifies

    def __call__(self, rows: Candidates) -> Float[Array, " n"]:
        """Return the operator's number for every row."""
        return self.scores(rows).values

    def scores(self, rows: Candidates) -> RowScores:
        """Return the operator's numbers with the utilities they were made of."""
        per_label, proba, leverage = self.scorer(rows.X)
        check_scores(per_label, rows)
        resolved = self.resolver(per_label, Candidates(rows.ids, rows.X, proba))
        return RowScores(resolved, per_label, leverage)

    def after(self, rows: Candidates, position: int, update: str) -> SequentialRule:
        """Return the rule for the model that has taken a row in."""
        assert self.look_ahead is not None, "a rule that has travelled does not look ahead"
        believe = None if update == "curvature" else self.resolver.believe
        look = self.look_ahead.after(rows.at(position), believe)
        utility = look.utility if look.inverse is None else look.utility.solved_by(look.inverse)
        rule: Any = utility.bound(look.fitted, look.goal).under(self.resolver, look)
        return rule  # type: ignore[no-any-return]

    def portable(self) -> Rule:
        """Return the rule without the model's labelled rows."""
        return replace(self, look_ahead=None)

    def table(self, rows: Candidates) -> Float[Array, "n k"]:
        """Return the utility of rows under every label."""
        per_label = self.scorer(rows.X).per_label
        check_scores(per_label, rows)
        return per_label

    def certificate(self, rows: Candidates) -> NDArray[Any]:
        """Return how far from retraining the utilities of rows can be, under every label."""
        return self.scorer.certified(rows.X).bound

    def fidelity(self, X_pool: Any, ids: Any, rows: int, seed: int) -> Fidelity:
        """Return how utilities and scores compare with retraining, on `rows` candidates."""
        assert self.look_ahead is not None
        look = self.look_ahead
        options = {"rows": rows, "seed": seed, "resolver": self.resolver, "ids": ids}
        return fidelity(look.utility, look.fitted, look.goal, X_pool, **options)


def is_constant(resolver: Resolver) -> bool:
    """Return whether first-order utilities have one expectation for all rows (Remark 1)."""
    return resolver.operator == Expected(Predicted())


def check_scores(scores: Array, rows: Candidates) -> None:
    """Raise if a score is not finite, naming the row of the pool that is to blame.

    NaN and infinity in a row survive every product, so a pool need not be searched for them.
    """
    xp = namespace(scores)
    limit = float(xp.finfo(scores.dtype).max) ** 0.5 * 1e-3
    if not bool(xp.all(xp.abs(scores) <= limit)):
        check_finite(rows.X, "X_pool", start=rows.start)
    if not bool(xp.all(xp.isfinite(scores))):
        raise NotFinite(
            f"{int(xp.sum(xp.astype(~xp.isfinite(scores), xp.int64)))} utilities of the rows from "
            f"{rows.start} on are not finite, though the rows are. Check the goal and the belief there."
        )


class Utility(ABC):
    """A prediction of how the goal changes when a row is labelled and the model retrained."""

    @abstractmethod
    def prepare(self, fitted: Fitted, goal: Goal) -> Scorer:
        """Return the utility bound to a model and a goal."""

    def bound(self, fitted: Fitted, goal: Goal) -> Scorer:
        """Return the utility bound to a model, also where a label changes more than its own row."""
        if fitted.label_counts is None and fitted.free_penalty is None:
            return self.prepare(fitted, goal)
        from goalward.utility.one_by_one import with_side_effects

        return with_side_effects(self, fitted, goal)

    def rule(self, fitted: Fitted, goal: Goal, resolver: Resolver, pool: Pool, ids: Any) -> Rule:
        """Return the rule of a round; a ladder looks at the pool to choose."""
        return self.bound(fitted, goal).under(resolver, LookAhead(fitted, goal, self))

    def solved_by(self, solver: Solver) -> Utility:
        """Return the utility with a solver at hand, where it leaves the choice open."""
        return self

    def __call__(self, fitted: Any, goal: Goal, X_pool: Any) -> Float[Array, "n k"]:
        """Return Δτ in units of the goal, for every row of the pool under every label."""
        fitted = as_fitted(fitted)
        in_place(goal, "goal", "gw.goals.DevLoss(X_dev, y_dev)", "for_round")
        scorer, parts = self.bound(fitted, goal), []
        for part, X in blocks(X_pool, block_size(fitted.n_classes)):
            rows = fitted.candidates(X, np.arange(part.start, part.stop), start=part.start)
            parts.append(scorer(rows.X).per_label)
            check_scores(parts[-1], rows)
        return stacked(parts)

    def certified(self, fitted: Any, goal: Goal, X_pool: Any) -> Certified:
        """Return Δτ of every row under every label, and how far from retraining each can be.

        For utilities that go towards the retrained model: `ImplicitStep(corrections=1)` or more, and
        `Retrain`, whose bounds say what its tolerance leaves open.
        """
        fitted = as_fitted(fitted)
        scorer = self.bound(fitted, goal)
        size = block_size(fitted.n_classes)
        parts = [scorer.certified(fitted.features(X)) for _, X in blocks(X_pool, size)]
        return Certified(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def known(self, fitted: Fitted, goal: Goal) -> Float[NDArray[Any], "n l"]:
        """Return Δτ with each label of the labelled rows instead of its own, and last without it."""
        raise Unsupported(
            f"gw.relabel does not support {self!r}. Use FirstOrder(), ImplicitStep(corrections=3) or "
            "Retrain()."
        )

    def truth(self, fitted: Fitted, goal: Goal, X_pool: Any) -> Float[Array, "n k"]:
        """Return what this utility predicts, by retraining."""
        from goalward.utility.retrain import Retrain

        return Retrain()(fitted, goal, X_pool)

    def fidelity(
        self, fitted: Any, goal: Goal, X_pool: Any, *, rows: int = 20, seed: int = 0
    ) -> Fidelity:
        """Return how far this utility can be trusted here: `rows` candidates are retrained."""
        return fidelity(self, as_fitted(fitted), goal, X_pool, rows=rows, seed=seed)

    def batch(
        self, fitted: Fitted, goal: Goal, X_batches: Any, labels: Any = None
    ) -> Float[Array, "b l"]:
        """Return Δτ for whole batches under whole labelings.

        Parameters
        ----------
        X_batches
            (B, b, d) rows, or a list of B sets of b rows.
        labels
            (L, b) labelings that every batch is tried with, or (B, L, b), each batch its
            own. None: all K**b in order, the last row's label varying fastest.
        """
        raise Unsupported(
            f"{type(self).__name__}() does not depend on labels, so there are no labelings to compare. "
            "Use Sequential(), which adds up what rows bring together."
        )
