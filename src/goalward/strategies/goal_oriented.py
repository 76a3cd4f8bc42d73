"""Goal-oriented active learning: the rows whose labels help the goal most."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import eps, namespace, to_numpy
from goalward.core.candidates import Candidates
from goalward.errors import BadParameter
from goalward.goals import DecisionRisk, Goal
from goalward.goals.soft_pool import belief_labels
from goalward.labels import Expected, Operator, Predicted, warn_if_vacuous
from goalward.models import Fitted
from goalward.pool import blocks, n_rows
from goalward.selection import Score, Selector, Sequential, Top
from goalward.solvers import Solver
from goalward.strategies.lookahead import Lookahead
from goalward.strategies.reference import REFERENCE, reference_rows
from goalward.strategies.strategy import Scores, Strategy
from goalward.strategies.taking import Taking
from goalward.utility import Fidelity, FirstOrder, Information, Ladder, Utility, fidelity
from goalward.utility.fidelity import Resolve
from goalward.utility.first_order import Direction
from goalward.utility.information import Gains, is_posterior
from goalward.utility.utility import Scorer, block_size, check_scores, tabulate

__all__ = ["GoalOriented"]

LARGEST_TABLE = 256 * 2**20
"""Bytes of (N, K) utilities that a suggestion keeps."""


@dataclass(frozen=True)
class GoalOriented(Strategy):
    """Score every row by what its label would do to the goal (GORAL).

    Parameters
    ----------
    goal
        What should get better.
    operator
        How the unknown label is resolved.
    utility
        How the change of the goal is predicted; "auto" is `Ladder()`, the cheapest that is
        true enough. By default `FirstOrder()`, or `Information()` for a goal of the posterior
        (DecisionRisk, Epig, FisherRatio).
    selection
        How a batch is picked from the scores.
    seed
        Breaks ties.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Logistic().fit([[0.0], [1.0]], [0, 1])
    >>> strategy = gw.GoalOriented(gw.goals.DevLoss([[2.0], [-1.0]], [1, 0]))
    >>> strategy.suggest(fitted, [[0.5], [3.0]], batch=1).rows
    array([0])
    """

    goal: Goal
    operator: Operator = field(default_factory=Expected, kw_only=True)
    utility: Utility | str | None = field(default=None, kw_only=True)
    selection: Selector = field(default_factory=Top, kw_only=True)
    seed: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        own = is_posterior(self.goal)
        if self.utility is None or (own and self.utility == "auto"):
            object.__setattr__(self, "utility", Information() if own else FirstOrder())
        if own and self.operator != Expected():
            raise BadParameter(
                f"operator={self.operator!r} came with {self.goal!r}, under which every label of a row "
                "brings the same; there is nothing to resolve. Leave it out."
            )
        if isinstance(self.utility, str):
            if self.utility != "auto":
                raise BadParameter(
                    f"utility={self.utility!r}; 'auto' or a utility such as FirstOrder() was "
                    "expected. Use gw.recipe() for names."
                )
            object.__setattr__(self, "utility", Ladder())

    @classmethod
    def recommended(cls, X: Any, *, reference: int = REFERENCE, seed: int = 0) -> GoalOriented:
        """Return the strategy that did best in `goalward benchmark`, and needs no dev labels.

        `DecisionRisk` on a sample of X, a batch picked one row at a time. For linear models with
        curvature; see the benchmark's page for its numbers and for where others do better.

        Parameters
        ----------
        X
            Rows the model will be used on, without labels: the pool, as a rule.
        reference
            How many of them the goal looks at.
        seed
            Draws these rows and breaks ties.

        Examples
        --------
        >>> import goalward as gw
        >>> gw.GoalOriented.recommended([[0.0], [1.0]]).goal
        DecisionRisk(share=0.0625)
        """
        goal = DecisionRisk(reference_rows(X, reference, seed))
        return cls(goal, selection=Sequential(), seed=seed)

    @property
    def labels_held(self) -> int:
        """Those of its goal or of its belief: the same may serve both, and as a rule do."""
        return max(self.goal.labels_held, belief_labels(self.operator.belief))

    def progress(self, fitted: Fitted) -> float:
        """Return the value of the goal at a model."""
        return self.goal.value(fitted)

    @property
    def _utility(self) -> Utility:
        assert isinstance(self.utility, Utility)
        return self.utility

    def at(self, fitted: Fitted, round: int = 0) -> GoalOriented:
        """Return the strategy with its goal settled for one round."""
        goal = self.goal.settled(fitted, round)
        return self if goal is self.goal else replace(self, goal=goal)

    def score(self, fitted: Fitted, X_pool: Any, rows: NDArray[Any], round: int) -> Scores:
        """Return the operator's number for every row, block by block."""
        utility = self._utility
        if isinstance(utility, Ladder):
            utility = replace(utility, resolve=self._resolved(fitted, round), ids=rows)
        scorer = utility.prepare(fitted, self.goal)
        statistic = self.operator.statistic
        if isinstance(scorer, Direction) and scorer.reduces(statistic):
            return self._reduced(fitted, X_pool, scorer, str(statistic))
        return self._tabled(fitted, X_pool, scorer, rows, round)

    def _reduced(self, fitted: Fitted, X_pool: Any, scorer: Direction, statistic: str) -> Scores:
        """Return scores from one pass over the pool; utilities of labels only if asked for."""
        total = n_rows(X_pool)
        values = np.empty(total)
        for part, X in blocks(X_pool, block_size(fitted.n_classes)):
            # Numbers that are none show in the scores: the pool is read once.
            features = fitted.features(X, "X_pool", finite=False)
            reduced = scorer.reduced(features, statistic)
            check_scores(reduced, features, part.start)
            values[part] = to_numpy(reduced)
        small = total * fitted.n_classes * 8 <= LARGEST_TABLE
        later = partial(tabulate, scorer, fitted, X_pool) if small else None
        return Scores(values, later, scorer.report, None, self._utility)

    def _tabled(
        self, fitted: Fitted, X_pool: Any, scorer: Scorer, rows: NDArray[Any], round: int
    ) -> Scores:
        """Return scores by way of the utilities of all labels, kept where they are not too many."""
        resolve = self.operator.prepare(fitted, round)
        total = n_rows(X_pool)
        utility = np.empty(total)
        table: NDArray[Any] | None = None
        if total * fitted.n_classes * 8 <= LARGEST_TABLE:
            table = np.empty((total, fitted.n_classes), order="F")
        low: Any = np.inf
        high: Any = -np.inf
        unit = 0.0
        leverages: list[NDArray[Any]] = []
        for part, X in blocks(X_pool, block_size(fitted.n_classes)):
            features = fitted.features(X, "X_pool", finite=False)
            per_label, proba, leverage = scorer(features)
            check_scores(per_label, features, part.start)
            if leverage is not None:
                leverages.append(to_numpy(leverage))
            resolved = resolve(per_label, Candidates(rows[part], features, proba))
            check_scores(resolved, features, part.start)
            utility[part] = to_numpy(resolved)
            if table is not None:
                table[part] = to_numpy(per_label)
            xp = namespace(per_label)
            low = np.minimum(low, to_numpy(xp.min(per_label, axis=0)))
            high = np.maximum(high, to_numpy(xp.max(per_label, axis=0)))
            unit = max(unit, eps(per_label))
        if total > 1:
            ends = float(utility.min()), float(utility.max())
            warn_if_vacuous(*ends, float(np.max(high - low)), unit, repr(self.operator))
        mean = float(np.concatenate(leverages).mean()) if leverages else None
        used = scorer if isinstance(scorer, Gains) else getattr(scorer, "rung", self._utility)
        return Scores(utility, table, scorer.report, mean, used)

    def outlook(
        self,
        fitted: Fitted,
        X_pool: Any,
        rows: NDArray[Any],
        values: NDArray[Any],
        round: int,
        used: Any = None,
    ) -> Score:
        """Return scores that follow the model as rows are absorbed.

        Beliefs are prepared before the batch, so a label model learns nothing from what has been
        supposed; the prediction itself (Predicted) is the moved model's. A ladder keeps its rung.
        """
        if is_posterior(self.goal):
            gains = used or self._utility.prepare(fitted, self.goal)
            assert isinstance(gains, Gains)
            return Taking(fitted, X_pool, rows, values, gains)
        resolve = self.operator.prepare(fitted, round)
        belief = getattr(self.operator, "belief", Predicted()).prepare(fitted, round)

        def rescore(
            moved: Fitted, features: Any, ids: NDArray[Any], solver: Solver | None
        ) -> NDArray[Any]:
            utility = used or self._utility
            if solver is not None:
                utility = utility.solved_by(solver)
            per_label, proba, _ = utility.prepare(moved, self.goal)(features)
            return to_numpy(resolve(per_label, Candidates(ids, features, proba)))

        return Lookahead(fitted, X_pool, rows, values, rescore, belief)

    def check(
        self, fitted: Fitted, X_pool: Any, rows: int, ids: NDArray[Any], round: int
    ) -> Fidelity:
        """Return how utilities and scores compare with retraining, on `rows` candidates."""
        if is_posterior(self.goal):
            raise BadParameter(
                f"fidelity={rows} came with {self.goal!r}, whose gain is that of a row's curvature and "
                "not of a label; a goal of the logits was expected. Leave fidelity out."
            )
        resolve = self._resolved(fitted, round)
        return fidelity(
            self._utility,
            fitted,
            self.goal,
            X_pool,
            rows=rows,
            seed=self.seed,
            resolve=resolve,
            ids=ids,
        )

    def _resolved(self, fitted: Fitted, round: int) -> Resolve:
        """Return (utilities, features, ids) -> scores."""
        resolve = self.operator.prepare(fitted, round)

        def scores(per_label: Any, features: Any, ids: NDArray[Any]) -> NDArray[Any]:
            proba = fitted.loss.proba(fitted.logits_of(features))
            return to_numpy(resolve(per_label, Candidates(ids, features, proba)))

        return scores
