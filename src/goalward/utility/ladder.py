"""`utility="auto"`: the cheapest utility that agrees with retraining, and how well each agrees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arguments import in_place
from goalward.core.arrays import Array, to_numpy
from goalward.core.pool import Pool, as_pool, n_rows, take_rows
from goalward.errors import BadParameter, Unsupported
from goalward.goals import Goal
from goalward.goals.goal import Bound
from goalward.labels import (
    BestCase,
    Expected,
    Predicted,
    ProbabilityOfImprovement,
    Resolver,
    Spread,
    WorstCase,
)
from goalward.models import Fitted, as_fitted
from goalward.solvers import GradientStep
from goalward.utility.fidelity import (
    Fidelity,
    View,
    agreement,
    first_rows,
    rank_of,
    resolved,
)
from goalward.utility.first_order import FirstOrder
from goalward.utility.implicit_step import ImplicitStep
from goalward.utility.information import Covering, Information
from goalward.utility.labelings import batch_rows
from goalward.utility.retrain import Retrain
from goalward.utility.utility import LookAhead, Rule, Scorer, Utility, block_size

if TYPE_CHECKING:
    from goalward.goals import Goal
    from goalward.labels import Resolver
    from goalward.models import Fitted
    from goalward.utility.utility import Utility


CHEAP: tuple[Utility, ...] = (FirstOrder(), ImplicitStep())
"""Rungs that all rows in question are scored with."""

CORRECTED = ImplicitStep(corrections=1)
"""Then, with three classes or more; with two it costs what retraining does, as do three corrections."""

NEAR = Retrain(tol=1e-4)
"""Retraining as far as any order of rows can tell."""

USUAL = (
    *(Expected(), WorstCase(), BestCase(), Expected(Predicted()), Spread()),
    ProbabilityOfImprovement(),
)
"""Operators whose scores must agree where none is known."""

SLOPES = (0.5, 2.0)
"""Of retrained on predicted utilities, between which a rung may be used."""

REGRET = 0.03
"""The most that a rung's first ten rows may lose against the best among those retrained."""


@dataclass(frozen=True)
class Ladder(Utility):
    """First order → implicit step → one correction → retraining.

    Some rows are drawn and retrained, and with them those that the first two rungs put first. The
    first rung is used for the whole pool whose rank correlation with the drawn rows is `target` or
    more for certain (the lower end of its 95 % interval), whose scale is right, and whose first rows
    lose at most 3 % against the best of all that were retrained. Where an operator is known, the
    scores are compared; else the pairs of rows and labels and what the usual operators make of them,
    in the worst of these views. The report says which rung it is, and how those below it did. Pools
    of up to five times as many rows (25 times with two classes) are retrained outright, to a
    tolerance that no order of rows can tell from the end: with a linear model that is quicker than
    to find out what else would do.

    Parameters
    ----------
    target
        Rank correlation to reach.
    rows
        Candidates to retrain, drawn from the first rows of the pool; up to 20 more are those that
        rank first.

    Examples
    --------
    >>> Ladder(target=0.99)
    Ladder(target=0.99, rows=60)
    """

    target: float = field(default=0.95, kw_only=True)
    rows: int = field(default=60, kw_only=True)

    def __post_init__(self) -> None:
        if self.rows < 3:
            raise BadParameter(f"rows must be at least 3, got {self.rows!r}. Use 60.")
        if not 0.0 < self.target <= 1.0:
            raise BadParameter(
                f"target must be a correlation in (0, 1], got {self.target!r}. Use 0.95."
            )

    def climb(
        self,
        fitted: Fitted,
        goal: Goal,
        X: Any,
        resolver: Resolver | None = None,
        ids: NDArray[Any] | None = None,
    ) -> tuple[Utility, list[Fidelity]]:
        """Return the rung to use for rows like these, and how each rung tried did.

        With an operator, what must agree with retraining are the scores that rows are picked by.
        """
        tried: list[Fidelity] = []
        total = n_rows(X)
        if total < 3:
            # Too few for a sample: they are the sample.
            return Retrain(), tried
        truth = NEAR if fitted.model.is_linear else Retrain()
        several = [op.prepare(fitted) for op in USUAL] if resolver is None else [resolver]

        def views(rows: Any, at: NDArray[Any]) -> list[View]:
            block = fitted.candidates(rows, at if ids is None else ids[at])
            return [resolved(one, block) for one in several]

        few = drawn = np.random.default_rng(0).permutation(total)[: self.rows]
        guesses: dict[Utility, NDArray[Any]] = {}
        for rung in CHEAP:
            guess = _scores(rung, fitted, goal, X)
            if guess is not None:
                guesses[rung] = guess
                # First in any view.
                best = np.max([rank_of(view(guess)) for view in views(X, np.arange(total))], axis=0)
                few = np.append(few, np.setdiff1d(first_rows(best), few))
        if not guesses:
            return truth, tried
        some = take_rows(X, few)
        seen: list[View] = [np.ravel, *views(some, few)]
        exact = to_numpy(truth(fitted, goal, some))
        for rung in guesses if _two_classes(fitted) else (*guesses, CORRECTED):
            guess = guesses[rung][few] if rung in guesses else _scores(rung, fitted, goal, some)
            if guess is None:
                continue
            found = agreement(repr(rung), guess, exact, few, seen, len(drawn))
            tried.append(found)
            enough = found.low >= self.target and found.regret <= REGRET
            if enough and SLOPES[0] <= found.slope <= SLOPES[1]:
                return rung, tried
        return truth, tried

    def rule(self, fitted: Fitted, goal: Goal, resolver: Resolver, pool: Pool, ids: Any) -> Rule:
        """Return the rule of the rung that the pool asks for."""
        rung, note = self.chosen(fitted, goal, resolver, pool, ids)
        look = LookAhead(fitted, goal, rung, note)
        return rung.bound(fitted, goal).under(resolver, look)

    def chosen(
        self, fitted: Fitted, goal: Goal, resolver: Resolver | None, pool: Pool, ids: Any = None
    ) -> tuple[Utility, str]:
        """Return the rung for a pool by a sample of its first rows, and how the rungs did."""
        few = (25 if _two_classes(fitted) else 5) * self.rows
        if fitted.model.is_linear and len(pool) <= few:
            return NEAR, f"{NEAR!r}, since {len(pool)} rows are few"
        first = np.arange(min(len(pool), block_size(fitted.n_classes)))
        count = min(len(first), 25 * self.rows)
        sample = np.sort(np.random.default_rng(0).permutation(first)[:count])
        names = sample if ids is None else ids[sample]
        rung, tried = self.climb(fitted, goal, pool.take(sample), resolver, names)
        return rung, f"{rung!r} after: " + "; ".join(map(str, tried))

    def prepare(self, fitted: Fitted, goal: Goal) -> Scorer:
        """Refuse: which rung it is, rows decide."""
        raise Unsupported(
            "Ladder() chooses by the rows of a pool. Use Ladder()(fitted, goal, X_pool), or "
            "GoalOriented(goal, utility='auto')."
        )

    def __call__(self, fitted: Any, goal: Goal, X_pool: Any) -> Float[Array, "n k"]:
        """Return Δτ by the rung that the pool asks for, whatever operator comes after."""
        fitted = as_fitted(fitted)
        rung, _ = self.chosen(fitted, goal, None, as_pool(X_pool))
        return rung(fitted, goal, X_pool)

    def batch(
        self, fitted: Fitted, goal: Goal, X_batches: Any, labels: Any = None
    ) -> Float[Array, "b l"]:
        """Return Δτ of batches by the rung that single rows ask for."""
        rows, _, _ = batch_rows(fitted, X_batches)
        bare = replace(fitted, transform=None, columns=None)
        rung, _ = self.climb(bare, Bound(goal.terms(fitted)), rows)
        return rung.batch(fitted, goal, X_batches, labels)


def _two_classes(fitted: Fitted) -> bool:
    """Return whether retraining is so cheap that little can be saved."""
    return fitted.loss.kind == "class" and fitted.n_classes == 2


def _scores(rung: Utility, fitted: Fitted, goal: Goal, X: Any) -> NDArray[Any] | None:
    """Return the utilities of rows; a network has no implicit step, a tree nothing but retraining."""
    try:
        return to_numpy(rung(fitted, goal, X))
    except Unsupported:
        return None


UtilityWord: TypeAlias = Literal[
    "first-order",
    "implicit",
    "gradient-step",
    "information",
    "covering",
    "implicit-exact",
    "corrected",
    "corrected-3",
    "retrain",
    "auto",
]
UTILITIES: dict[str, Callable[[], Utility]] = {
    "first-order": FirstOrder,
    "implicit": ImplicitStep,
    "gradient-step": lambda: FirstOrder(solver=GradientStep()),
    "information": Information,
    "covering": Covering,
    "implicit-exact": lambda: ImplicitStep(exact_goal=True),
    "corrected": lambda: ImplicitStep(corrections=1),
    "corrected-3": lambda: ImplicitStep(corrections=3),
    "retrain": Retrain,
    "auto": Ladder,
}


def as_utility(utility: str | Utility) -> Utility:
    """Return the utility that a word stands for; one that is there already as it is."""
    if not isinstance(utility, str):
        in_place(utility, "utility", "gw.utility.ImplicitStep()", "bound")
        return utility
    if utility not in UTILITIES:
        raise BadParameter(
            f"utility must be an object or one of {', '.join(sorted(UTILITIES))}, got {utility!r}."
        )
    return UTILITIES[utility]()
