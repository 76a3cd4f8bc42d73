"""What every utility is: prepared once for a model and a goal, then applied to blocks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Protocol, runtime_checkable

from jaxtyping import Float

from goalward.core.arrays import Array, Rows, namespace
from goalward.core.rows import check_finite
from goalward.errors import NotFinite
from goalward.goals import Goal
from goalward.models import Fitted, as_fitted
from goalward.pool import blocks
from goalward.solvers import Solution, Solver
from goalward.utility.fidelity import Fidelity, fidelity
from goalward.utility.motion import chunk_rows, stacked

__all__ = ["Scored", "Scorer", "Utility", "block_size", "check_scores", "tabulate"]


class Scored(NamedTuple):
    """A block of rows: Δτ under each label, what the model predicts, and leverages if known."""

    per_label: Float[Array, "n k"]
    proba: Float[Array, "n k"]
    leverage: Float[Array, " n"] | None = None


@runtime_checkable
class Scorer(Protocol):
    """A utility bound to a model and a goal."""

    @property
    def report(self) -> Solution | None:
        """How the direction was solved for, if one was."""
        ...

    def __call__(self, rows: Rows) -> Scored:
        """Return the utilities of rows that went through `fitted.features`."""
        ...


def block_size(n_classes: int) -> int:
    """Return rows per block: some chunks of the grid on which rows are scored."""
    chunk = chunk_rows(n_classes)
    return chunk * max(1, 2**16 // n_classes // chunk)


def tabulate(scorer: Scorer, fitted: Fitted, X_pool: Any) -> Float[Array, "n k"]:
    """Return the utilities of every row under every label."""
    parts = []
    for part, X in blocks(X_pool, block_size(fitted.n_classes)):
        rows = fitted.features(X, "X_pool", finite=False)
        parts.append(scorer(rows).per_label)
        check_scores(parts[-1], rows, part.start)
    return stacked(parts)


def check_scores(scores: Array, rows: Rows, start: int = 0) -> None:
    """Raise if a score is no number, naming the row of the pool that is to blame.

    NaN and infinity in a row survive every product, so a pool need not be searched for them.
    """
    xp = namespace(scores)
    limit = float(xp.finfo(scores.dtype).max) ** 0.5 * 1e-3
    if not bool(xp.all(xp.abs(scores) <= limit)):
        check_finite(rows, "X_pool", start=start)
    if not bool(xp.all(xp.isfinite(scores))):
        raise NotFinite(
            f"{int(xp.sum(xp.astype(~xp.isfinite(scores), xp.int64)))} utilities of the rows from "
            f"{start} on are not finite numbers, though the rows are; finite ones were expected. "
            "Check the goal and the belief at these rows."
        )


class Utility(ABC):
    """A prediction of how the goal changes when a row is labelled and the model retrained."""

    @abstractmethod
    def prepare(self, fitted: Fitted, goal: Goal) -> Scorer:
        """Return the utility bound to a model and a goal."""

    def solved_by(self, solver: Solver) -> Utility:
        """Return the utility with a solver at hand, where it leaves the choice open."""
        return self

    def __call__(self, fitted: Any, goal: Goal, X_pool: Any) -> Float[Array, "n k"]:
        """Return Δτ in units of the goal, for every row of the pool under every label."""
        fitted = as_fitted(fitted)
        return tabulate(self.prepare(fitted, goal), fitted, X_pool)

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
