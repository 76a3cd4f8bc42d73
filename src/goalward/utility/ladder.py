"""`utility="auto"`: the cheapest utility that agrees with retraining, and how well each agrees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.stats import rankdata

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
from goalward.utility.fidelity import Fidelity, View, agreement, first_rows, resolved
from goalward.utility.first_order import FirstOrder
from goalward.utility.implicit_step import ImplicitStep
from goalward.utility.information import Covering, Information
from goalward.utility.labelings import batch_rows
from goalward.utility.retrain import Retrain
from goalward.utility.utility import LookAhead, Rule, Scorer, Utility, block_size

CHEAP: tuple[Utility, ...] = (FirstOrder(), ImplicitStep())
"""Rungs that all sampled rows are scored with."""

CORRECTED = ImplicitStep(corrections=1)
"""Next rung, with three classes or more; with two it is as expensive as retraining."""

NEAR = Retrain(tol=1e-4)
"""Retraining to a tolerance that does not change the order of rows."""

USUAL = (
    *(Expected(), WorstCase(), BestCase(), Expected(Predicted()), Spread()),
    ProbabilityOfImprovement(),
)
"""Operators compared where none is given."""

SLOPES = (0.5, 2.0)
"""Allowed slopes of retrained on predicted utilities."""

REGRET = 0.03
"""Largest regret of a rung's first ten rows against the best of the retrained rows."""


@dataclass(frozen=True)
class Ladder(Utility):
    """First order → implicit step → one correction → retraining.

    The first rung is used that agrees with retraining on a sample: its rank correlation is at least
    `target` (lower end of the 95 % interval), its scale is right, and its first rows lose at most
    3 % against the best. Small pools are retrained outright.

    Parameters
    ----------
    rows
        Candidates to retrain; up to 20 more are the first of the lower rungs.

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
        """Return the rung to use, and the agreement (of scores with a resolver) of all tried."""
        tried: list[Fidelity] = []
        total = n_rows(X)
        if total < 3:
            # Too few for a sample: use all.
            return Retrain(), tried
        truth = NEAR if fitted.model.is_linear else Retrain()
        several = [op.prepare(fitted) for op in USUAL] if resolver is None else [resolver]

        def views(rows: Any, at: NDArray[Any]) -> list[View]:
            block = fitted.candidates(rows, at if ids is None else ids[at])
            return [resolved(operator, block) for operator in several]

        few = drawn = np.random.default_rng(0).permutation(total)[: self.rows]
        guesses: dict[Utility, NDArray[Any]] = {}
        for rung in CHEAP:
            guess = _scores(rung, fitted, goal, X)
            if guess is not None:
                guesses[rung] = guess
                # First in any view.
                best = np.max(
                    [rankdata(view(guess)) for view in views(X, np.arange(total))], axis=0
                )
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
            match = agreement(repr(rung), guess, exact, few, seen, len(drawn))
            tried.append(match)
            enough = match.low >= self.target and match.regret <= REGRET
            if enough and SLOPES[0] <= match.slope <= SLOPES[1]:
                return rung, tried
        return truth, tried

    def rule(self, fitted: Fitted, goal: Goal, resolver: Resolver, pool: Pool, ids: Any) -> Rule:
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
        raise Unsupported(
            "Ladder() chooses by the rows of a pool. Use Ladder()(fitted, goal, X_pool), or "
            "GoalOriented(goal, utility='auto')."
        )

    def __call__(self, fitted: Any, goal: Goal, X_pool: Any) -> Float[Array, "n k"]:
        fitted = as_fitted(fitted)
        rung, _ = self.chosen(fitted, goal, None, as_pool(X_pool))
        return rung(fitted, goal, X_pool)

    def batch(
        self, fitted: Fitted, goal: Goal, X_batches: Any, labels: Any = None
    ) -> Float[Array, "b l"]:
        rows, _, _ = batch_rows(fitted, X_batches)
        bare = replace(fitted, transform=None, columns=None)
        rung, _ = self.climb(bare, Bound(goal.terms(fitted)), rows)
        return rung.batch(fitted, goal, X_batches, labels)


def _two_classes(fitted: Fitted) -> bool:
    """Return whether there are two classes, for which retraining is cheap."""
    return fitted.loss.kind == "class" and fitted.n_classes == 2


def _scores(rung: Utility, fitted: Fitted, goal: Goal, X: Any) -> NDArray[Any] | None:
    """Return the utilities of rows; None if the model does not support the rung."""
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
    """Return the utility of a word; an object is returned unchanged."""
    if not isinstance(utility, str):
        in_place(utility, "utility", "gw.utility.ImplicitStep()", "bound")
        return utility
    if utility not in UTILITIES:
        raise BadParameter(
            f"utility must be an object or one of {', '.join(sorted(UTILITIES))}, got {utility!r}."
        )
    return UTILITIES[utility]()
