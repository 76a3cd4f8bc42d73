"""What every utility is: prepared once for a model and a goal, then applied to blocks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array
from goalward.core.place import in_place
from goalward.core.pool import Pool, blocks
from goalward.errors import Unsupported
from goalward.goals import Goal
from goalward.labels import Resolver
from goalward.models import Fitted, as_fitted
from goalward.solvers import Solver
from goalward.utility.fidelity import Fidelity, fidelity
from goalward.utility.motion import chunk_rows, stacked
from goalward.utility.scorer import Certified, Scorer, Supposed, check_scores

__all__ = ["Utility", "block_size", "tabulate"]


def block_size(n_classes: int) -> int:
    """Return rows per block: some chunks of the grid on which rows are scored."""
    chunk = chunk_rows(n_classes)
    return chunk * max(1, 2**16 // n_classes // chunk)


def tabulate(scorer: Scorer, fitted: Fitted, X_pool: Any) -> Float[Array, "n k"]:
    """Return the utilities of every row under every label."""
    parts = []
    for part, X in blocks(X_pool, block_size(fitted.n_classes)):
        rows = fitted.candidates(X, np.arange(part.start, part.stop), start=part.start)
        parts.append(scorer(rows.X).per_label)
        check_scores(parts[-1], rows)
    return stacked(parts)


class Utility(ABC):
    """A prediction of how the goal changes when a row is labelled and the model retrained."""

    @abstractmethod
    def prepare(self, fitted: Fitted, goal: Goal) -> Scorer:
        """Return the utility bound to a model and a goal."""

    def bound(self, fitted: Fitted, goal: Goal) -> Scorer:
        """Return the utility bound to a model, also where a label changes more than its own row."""
        from goalward.utility.one_by_one import with_side_effects

        return with_side_effects(self, fitted, goal)

    def chosen(
        self, task: Supposed, resolver: Resolver | None, pool: Pool, ids: Any = None
    ) -> tuple[Utility, str]:
        """Return the utility for one round and why; only a ladder has a choice."""
        return self, ""

    def solved_by(self, solver: Solver) -> Utility:
        """Return the utility with a solver at hand, where it leaves the choice open."""
        return self

    def __call__(self, fitted: Any, goal: Goal, X_pool: Any) -> Float[Array, "n k"]:
        """Return Δτ in units of the goal, for every row of the pool under every label."""
        fitted = as_fitted(fitted)
        in_place(goal, "goal", "gw.goals.DevLoss(X_dev, y_dev)", "settled")
        return tabulate(self.bound(fitted, goal), fitted, X_pool)

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
            f"{self!r} came to gw.relabel; FirstOrder(), ImplicitStep(corrections=3) or Retrain() was "
            "expected."
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

    @abstractmethod
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
