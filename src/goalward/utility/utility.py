"""Utilities: the change Δτ of the goal by a label.

A `Utility` bound to a model and a goal is a `Scorer`; an operator makes a `Rule` of it.
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
from goalward.core.pool import Pool, as_pool
from goalward.core.rows import Candidates, check_finite
from goalward.errors import BadParameter, NotFinite, Unsupported
from goalward.goals import Goal
from goalward.labels import Resolver
from goalward.labels.beliefs import Believe
from goalward.models import Fitted, as_fitted
from goalward.solvers import Solution, Solver, Updated, fits
from goalward.utility.fidelity import Fidelity, fidelity

ROUNDING = 1e-9
"""Share of a utility that rounding may take: the optimum before is known to 1e-10."""


def chunk_rows(n_classes: int) -> int:
    """Return rows per chunk: 128 KiB in single precision, the same for all types."""
    return max(256, 2**18 // (16 * n_classes) // 64 * 64)


def block_size(n_classes: int) -> int:
    """Return rows per block: a whole number of chunks."""
    chunk = chunk_rows(n_classes)
    return chunk * max(1, 2**16 // n_classes // chunk)


def stacked(parts: list[Any]) -> Any:
    """Return tables concatenated along rows, in their memory layout."""
    if len(parts) == 1:
        return parts[0]
    return namespace(parts[0]).concat([part.T for part in parts], axis=1).T


class RowScores(NamedTuple):
    """Scores of a block of rows, with utilities under every label and leverages if known."""

    values: Float[Array, " n"]
    per_label: Float[Array, "n k"] | None = None
    leverage: Float[Array, " n"] | None = None


class Rule(ABC):
    """A scoring function of rows, for one model and one round."""

    constant: bool = False
    """Whether every row is known to score the same (Remark 1)."""

    parallel: bool = False
    """Whether several threads may call it: it calls no code of the user."""

    explained: bool = False
    """Whether `table` is available."""

    report: Solution | None = None
    """How the goal's direction was solved for, where there is one."""

    certifies: bool = False
    """Whether it bounds the distance of its utilities from retraining."""

    @property
    def name(self) -> str:
        """Name of the operator, for messages."""
        return type(self).__name__

    @abstractmethod
    def __call__(self, rows: Candidates) -> Float[Array, " n"]:
        """Return one number for each row, larger is better."""

    def scores(self, rows: Candidates) -> RowScores:
        """Return the numbers, with utilities and leverages where they are known."""
        return RowScores(self(rows))

    def on(self, convert: Callable[[Any], Any]) -> Rule:
        """Return the rule for rows on a GPU; `convert` brings its arrays there."""
        raise Unsupported(
            f"{type(self).__name__} cannot be computed with device=. Leave device out, pass arrays of the "
            "GPU to suggest(), or use uncertainty or first order under average, min, max or spread."
        )

    def portable(self) -> Rule:
        """Return the rule to send to workers, without the state for looking ahead."""
        return self

    def playing(self, rows: Candidates) -> Rule:
        """Return the rule with the rows in play, so that scores and picks share work."""
        return self

    def after(self, rows: Candidates, position: int, update: str) -> Rule:
        """Return the rule once the row at a position of `rows` is labelled; see `Sequential`."""
        raise BadParameter(
            f"Sequential() needs a strategy that looks ahead, got {self.name}. Use it with "
            "GoalOriented, or Top() or Stochastic() here."
        )

    def table(self, rows: Candidates) -> Float[Array, "n k"]:
        """Return the utility of rows under every label."""
        raise Unsupported(f"{self.name} has no utility for each label. Use GoalOriented.")

    def certificate(self, rows: Candidates) -> NDArray[Any] | None:
        """Return bounds of the distance from retraining, under every label."""
        return None

    def fidelity(self, X_pool: Any, ids: Any, rows: int, seed: int) -> Fidelity:
        """Return how scores compare with retraining, on `rows` candidates."""
        raise Unsupported(
            f"{self.name} has no goal that retraining would change. Leave fidelity out."
        )


@dataclass(frozen=True, eq=False)
class FollowingRule(Rule):
    """A rule whose scores of the rows in play, `taken`, are updated after every pick."""

    taken: tuple[Candidates, Float[Array, " n"]] | None = field(default=None, kw_only=True)

    @abstractmethod
    def fresh(self, rows: Candidates) -> Float[Array, " n"]:
        """Return the numbers of rows that were not in play."""

    def __call__(self, rows: Candidates) -> Float[Array, " n"]:
        if self.taken is not None and self.taken[0] is rows:
            return self.taken[1]
        return self.fresh(rows)


class Scored(NamedTuple):
    """Δτ of a block of rows under each label, predictions, and leverages if known."""

    per_label: Float[Array, "n k"]
    proba: Float[Array, "n k"]
    leverage: Float[Array, " n"] | None = None


class Certified(NamedTuple):
    """Utilities (n, K), and bounds of the distance from retraining; infinite where unknown."""

    utility: NDArray[Any]
    bound: NDArray[Any]


class Scorer(ABC):
    """A utility bound to a model and a goal."""

    report: Solution | None

    certifies: ClassVar[bool] = False

    @abstractmethod
    def __call__(self, rows: Rows) -> Scored:
        """Return the utilities of rows that went through `fitted.features`."""

    def under(self, resolver: Resolver, look_ahead: LookAhead) -> Rule:
        """Return the rule: these utilities, the unknown label resolved."""
        return GoalRule(self, resolver, look_ahead, certifies=self.certifies)

    def certified(self, rows: Rows) -> Certified:
        """Return the utilities of rows with a bound of their distance from retraining."""
        raise Unsupported(
            f"{type(self).__name__} has no certificate. Use ImplicitStep(corrections=1) or more, or "
            "Retrain(), with a linear model whose class weights and intercepts no label changes."
        )


@dataclass(frozen=True, eq=False)
class LookAhead:
    """A model that rows are absorbed into as if labelled, with the goal and the utility.

    A row joins with a distribution t over labels, and a few Newton steps follow. With the model's
    own prediction for t only the curvature grows. `note` says why this utility was chosen.
    """

    fitted: Fitted
    goal: Goal
    utility: Utility
    note: str = ""
    inverse: Updated | None = None

    def after(self, row: Candidates, believe: Believe | None) -> LookAhead:
        """Return the look-ahead after a row; with `believe` None only its curvature is added."""
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
        inverse = self.inverse
        steady = fitted.label_counts is None and fitted.free_penalty is None
        if inverse is None and steady and fitted.model.is_linear and fits(fitted.hessian):
            inverse = Updated.of(fitted.hessian)
        if inverse is not None:
            weight = float(fitted.weights_of(target)[0])
            inverse = inverse.added(x, weight * fitted.loss.blocks(proba)[0, ...])
        moved = fitted.with_rows(x, target)
        if believe is not None:
            # The next scores need the direction only roughly.
            moved = moved.polished(tol=1e-6, solver=inverse)
        return replace(self, fitted=moved, inverse=inverse)


@dataclass(frozen=True, eq=False)
class GoalRule(Rule):
    """Utilities of a goal under every label, resolved by an operator."""

    scorer: Scorer
    resolver: Resolver
    look_ahead: LookAhead | None
    constant: bool = False
    certifies: bool = False
    explained = True

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
        return repr(self.resolver.operator)

    def __call__(self, rows: Candidates) -> Float[Array, " n"]:
        return self.scores(rows).values

    def scores(self, rows: Candidates) -> RowScores:
        per_label, proba, leverage = self.scorer(rows.X)
        check_scores(per_label, rows)
        resolved = self.resolver(per_label, Candidates(rows.ids, rows.X, proba))
        return RowScores(resolved, per_label, leverage)

    def after(self, rows: Candidates, position: int, update: str) -> Rule:
        assert self.look_ahead is not None, "a rule that has travelled does not look ahead"
        believe = None if update == "curvature" else self.resolver.believe
        look = self.look_ahead.after(rows.at(position), believe)
        utility = look.utility if look.inverse is None else look.utility.solved_by(look.inverse)
        return utility.bound(look.fitted, look.goal).under(self.resolver, look)

    def portable(self) -> Rule:
        return replace(self, look_ahead=None)

    def table(self, rows: Candidates) -> Float[Array, "n k"]:
        per_label = self.scorer(rows.X).per_label
        check_scores(per_label, rows)
        return per_label

    def certificate(self, rows: Candidates) -> NDArray[Any]:
        return self.scorer.certified(rows.X).bound

    def fidelity(self, X_pool: Any, ids: Any, rows: int, seed: int) -> Fidelity:
        look = self.look_ahead
        assert look is not None
        options = {"rows": rows, "seed": seed, "resolver": self.resolver, "ids": ids}
        return fidelity(look.utility, look.fitted, look.goal, X_pool, **options)


def check_scores(scores: Array, rows: Candidates) -> None:
    """Raise if a score is not finite, naming the row; NaN and infinity survive every product."""
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
        for part, X in as_pool(X_pool).blocks(block_size(fitted.n_classes)):
            rows = fitted.candidates(X, np.arange(part.start, part.stop), start=part.start)
            parts.append(scorer(rows.X).per_label)
            check_scores(parts[-1], rows)
        return stacked(parts)

    def certified(self, fitted: Any, goal: Goal, X_pool: Any) -> Certified:
        """Return Δτ and bounds of its distance from retraining (`Retrain`, corrected steps)."""
        fitted = as_fitted(fitted)
        scorer = self.bound(fitted, goal)
        blocks = as_pool(X_pool).blocks(block_size(fitted.n_classes))
        parts = [scorer.certified(fitted.features(X)) for _, X in blocks]
        return Certified(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def known(self, fitted: Fitted, goal: Goal) -> Float[NDArray[Any], "n l"]:
        """Return Δτ with each other label of the labelled rows; the last column drops the row."""
        raise Unsupported(
            f"gw.relabel does not support {self!r}. Use FirstOrder(), ImplicitStep(corrections=3) or "
            "Retrain()."
        )

    def truth(self, fitted: Fitted, goal: Goal, X_pool: Any) -> Float[Array, "n k"]:
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
            (L, b) labelings; None for all K**b, the last row's label varying fastest.
        """
        raise Unsupported(
            f"{type(self).__name__}() does not depend on labels, so there are no labelings to compare. "
            "Use Sequential(), which adds up what rows bring together."
        )
