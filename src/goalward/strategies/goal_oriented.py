"""Goal-oriented active learning: the rows whose labels help the goal most."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeAlias

from goalward.core.arguments import in_place
from goalward.core.draws import reference_rows
from goalward.errors import BadParameter
from goalward.goals import Goal
from goalward.goals.unlabelled import belief_labels
from goalward.labels import Expected, Operator
from goalward.models import Fitted
from goalward.strategies.selectors import Selector, Top
from goalward.strategies.strategy import Request, Strategy
from goalward.utility import Utility
from goalward.utility.ladder import UtilityWord, as_utility
from goalward.utility.utility import Rule

OperatorWord: TypeAlias = Literal[
    "average", "predicted", "jackknife", "min", "max", "spread", "ucb", "ei", "pi"
]
SelectionWord: TypeAlias = Literal["top", "sequential", "sequential-curvature", "stochastic"]


@dataclass(frozen=True)
class GoalOriented(Strategy):
    """Score every row by what its label would do to the goal (GORAL).

    Parameters
    ----------
    operator
        How the unknown label is resolved; an object, or a word of recipes such as "spread".
    utility
        `FirstOrder()` by default, or the goal's own, as `Information()`; "auto" is `Ladder()`.
    selection
        How a batch is picked from the scores.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Logistic().fit([[0.0], [1.0]], [0, 1])
    >>> strategy = gw.GoalOriented(gw.goals.DevLoss([[2.0], [-1.0]], [1, 0]))
    >>> strategy.suggest(fitted, [[0.5], [3.0]], batch=1).rows
    array([0])
    """

    goal: Goal
    operator: Operator | OperatorWord = field(default_factory=Expected, kw_only=True)
    utility: Utility | UtilityWord | None = field(default=None, kw_only=True)
    selection: Selector | SelectionWord = field(default_factory=Top, kw_only=True)  # type: ignore[assignment]
    seed: int = field(default=0, kw_only=True)
    zero = 0.0

    def __post_init__(self) -> None:
        goal: Any = self.goal
        if isinstance(goal, str):
            raise BadParameter(
                f"goal must be an object with its rows, such as gw.goals.DevLoss(X_dev, y_dev), got "
                f"{goal!r}. In words: gw.recipe('dev/average').build(dev=(X_dev, y_dev)), or strategy= of "
                "gw.suggest."
            )
        in_place(goal, "goal", "gw.goals.DevLoss(X_dev, y_dev)", "for_round")
        alike = goal.utility != "first-order"
        utility: Any = self.utility
        own = utility is None or (alike and utility == "auto")
        # Coverage needs no label; goals with a utility of their own call only array libraries.
        settled: dict[str, Any] = {"starts": goal.utility == "covering", "anywhere": alike}
        settled["utility"] = as_utility(goal.utility if own else utility)
        for name in ("operator", "selection"):
            if isinstance(value := getattr(self, name), str):
                settled[name] = _named(name, value)
        for name, value in settled.items():
            object.__setattr__(self, name, value)
        in_place(self.operator, "operator", "gw.labels.Spread()", "resolve")
        in_place(self.selection, "selection", "gw.selection.Sequential()", "keep")
        if alike and self.operator != Expected():
            raise BadParameter(
                f"operator must be left out with {goal!r}, under which every label of a row brings the "
                f"same, got {self.operator!r}."
            )

    @staticmethod
    def recommended(X: Any, *, kind: str = "class", seed: int = 0) -> Strategy:
        """Return the strategy that did best in `goalward benchmark`, and needs no dev labels.

        The recipe "hedged": `DecisionRisk`, `Margin` and `Coverage` in turn. For linear models with
        curvature.

        Parameters
        ----------
        X
            Rows the model will be used on, without labels: usually the pool.
        kind
            `fitted.loss.kind`: "labels" gives `Coverage`, "numbers" `FisherRatio`.

        Examples
        --------
        >>> import goalward as gw
        >>> fitted = gw.Logistic().fit([[0.0, 1.0], [1.0, 0.0]], ["a", "b"])
        >>> pool = [[0.0, 2.0], [1.0, 1.1], [3.0, 0.0]]
        >>> gw.GoalOriented.recommended(pool).suggest(fitted, pool, batch=1).rows
        array([1])
        """
        from goalward.strategies.recipes import RECOMMENDED_FOR, recipe

        if kind not in RECOMMENDED_FOR:
            raise BadParameter(
                f"kind must be one of {', '.join(RECOMMENDED_FOR)}, got {kind!r}. Pass fitted.loss.kind."
            )
        return recipe(RECOMMENDED_FOR[kind]).build(pool=reference_rows(X, seed=seed), seed=seed)

    @property
    def title(self) -> str:
        return f"GoalOriented({type(self.goal).__name__})"

    @property
    def labels_held(self) -> int:
        operator: Any = self.operator
        return max(self.goal.labels_held, belief_labels(operator.belief))

    def progress(self, fitted: Fitted) -> float:
        return self.goal.value(fitted)

    def bind(self, request: Request) -> Rule:
        fitted, round = request.fitted, request.round
        operator: Any = self.operator
        utility: Any = self.utility
        goal, resolver = self.goal.for_round(fitted, round), operator.prepare(fitted, round)
        rule: Rule = utility.rule(fitted, goal, resolver, request.pool, request.ids)
        return rule


def _named(name: str, word: str) -> Any:
    from goalward.strategies.recipes import OPERATORS, SELECTIONS

    known: dict[str, Any] = dict(SELECTIONS)
    if name == "operator":
        known = {word: partial(make, None, None) for word, make in OPERATORS.items()}
        del known["oracle"]
    if word not in known:
        raise BadParameter(
            f"{name} must be an object or one of {', '.join(sorted(known))}, got {word!r}."
        )
    return known[word]()
