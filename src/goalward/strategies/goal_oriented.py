"""Goal-oriented active learning: the rows whose labels help the goal most."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from goalward.core.place import in_place
from goalward.errors import BadParameter
from goalward.goals import Goal
from goalward.goals.soft_pool import belief_labels
from goalward.labels import Expected, Operator
from goalward.models import Fitted
from goalward.strategies.among import reference_rows
from goalward.strategies.request import Request
from goalward.strategies.selectors import Top
from goalward.strategies.strategy import Strategy
from goalward.utility import Covering, FirstOrder, Information, Ladder, Utility
from goalward.utility.named import UtilityWord, as_utility
from goalward.utility.rule import Rule, Selector
from goalward.utility.scorer import Supposed

__all__ = ["GoalOriented", "OperatorWord", "SelectionWord"]

OperatorWord: TypeAlias = Literal[
    "average", "predicted", "jackknife", "min", "max", "spread", "ucb", "ei", "pi"
]
SelectionWord: TypeAlias = Literal[
    "top", "certain", "sequential", "sequential-curvature", "stochastic"
]

UTILITIES = {"first-order": FirstOrder, "information": Information, "covering": Covering}
"""What predicts the change of a goal, by the name that the goal gives."""


@dataclass(frozen=True)
class GoalOriented(Strategy):
    """Score every row by what its label would do to the goal (GORAL).

    Parameters
    ----------
    goal
        What should get better; or a function that makes it, of the dev rows and the pool that `build`
        is given: `lambda dev, pool: gw.goals.DevLoss(*dev)` has those of each split in `gw.lab.simulate`.
    operator
        How the unknown label is resolved. This and the next two also by the words of recipes:
        "spread", "implicit", "sequential".
    utility
        How the change of the goal is predicted; "auto" is `Ladder()`, the cheapest that is
        true enough. By default `FirstOrder()`, `Information()` for a goal of the posterior
        (DecisionRisk, Epig, FisherRatio), `Covering()` for Coverage.
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

    goal: Goal | Callable[[tuple[Any, Any], Any], Goal]
    operator: Operator | OperatorWord = field(default_factory=Expected, kw_only=True)
    utility: Utility | UtilityWord | None = field(default=None, kw_only=True)
    selection: Selector | SelectionWord = field(default_factory=Top, kw_only=True)  # type: ignore[assignment]
    seed: int = field(default=0, kw_only=True)
    zero = 0.0

    def __post_init__(self) -> None:
        goal: Any = self.goal
        if isinstance(goal, str):
            raise BadParameter(
                f"goal={goal!r}; an object that has its rows, such as "
                "gw.goals.DevLoss(X_dev, y_dev), was expected. In words: gw.recipe('dev/average')"
                ".build(dev=(X_dev, y_dev)), or strategy= of gw.suggest."
            )
        if self._waits:
            return
        in_place(self.goal, "goal", "gw.goals.DevLoss(X_dev, y_dev)", "settled")
        own = UTILITIES[self.made.utility]
        alike = own is not FirstOrder
        utility: Any = self.utility
        chosen = {None: own, "auto": own if alike else Ladder}.get(utility)
        object.__setattr__(self, "utility", chosen() if chosen else as_utility(utility))
        for name in ("operator", "selection"):
            if isinstance(value := getattr(self, name), str):
                object.__setattr__(self, name, _named(name, value))
        in_place(self.operator, "operator", "gw.labels.Spread()", "resolve")
        in_place(self.selection, "selection", "gw.selection.Sequential()", "keep")
        if alike and self.operator != Expected():
            raise BadParameter(
                f"operator={self.operator!r} came with {self.goal!r}, under which every label of a row "
                "brings the same; there is nothing to resolve. Leave it out."
            )

    @property
    def _waits(self) -> bool:
        return callable(self.goal) and not hasattr(self.goal, "settled")

    @property
    def made(self) -> Goal:
        """The goal; refused while it is a function that waits for its rows."""
        if self._waits:
            raise BadParameter(
                "goal is a function, which waits for dev rows and a pool; a goal was expected here. "
                "gw.lab.simulate gives them; elsewhere call build(dev=(X_dev, y_dev), pool=X_pool)."
            )
        goal: Any = self.goal
        return goal  # type: ignore[no-any-return]

    @property
    def needs(self) -> frozenset[str]:  # type: ignore[override]
        """What a goal that is a function waits for."""
        return frozenset({"dev", "pool"} if self._waits else ())

    def build(self, **data: Any) -> Strategy:
        """Return the strategy with the goal that its function makes."""
        goal: Any = self.goal
        return replace(self, goal=goal(data["dev"], data["pool"])) if self._waits else self

    @staticmethod
    def recommended(X: Any, *, kind: str = "class", seed: int = 0) -> Strategy:
        """Return the strategy that did best in `goalward benchmark`, and needs no dev labels.

        The recipe "hedged": a round each of `DecisionRisk`, `Margin` and `Coverage`, in turn, so that
        none can fail alone; and `Coverage` while a class has no label and one is likely to be found.
        Of a large pool the first sees the 1,000 rows of the smallest margins, the last 4,000 drawn
        anew. For linear models with curvature; see the benchmark's page for its numbers.

        Parameters
        ----------
        X
            Rows the model will be used on, without labels: the pool, as a rule.
        kind
            What the model learns, `fitted.loss.kind`: for "labels" (`gw.MultiLabel`) it is
            `Coverage` alone, for "numbers" (`gw.Ridge`) `FisherRatio`.
        seed
            Draws the rows that the goals look at, and breaks ties.

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
                f"kind={kind!r}; one of {', '.join(RECOMMENDED_FOR)} was expected: fitted.loss.kind."
            )
        return recipe(RECOMMENDED_FOR[kind]).build(pool=reference_rows(X, seed=seed), seed=seed)

    @property
    def title(self) -> str:
        """The class, and its goal's."""
        return f"GoalOriented({type(self.made).__name__})"

    @property
    def starts(self) -> bool:  # type: ignore[override]
        """Whether its goal needs no labels."""
        return self.made.utility == "covering"

    @property
    def anywhere(self) -> bool:  # type: ignore[override]
        """Whether its goal brings a utility of its own: those call nothing but array libraries."""
        return self.made.utility != "first-order"

    @property
    def labels_held(self) -> int:
        """Those of its goal or of its belief: the same may serve both, and as a rule do."""
        operator: Any = self.operator
        return max(self.made.labels_held, belief_labels(operator.belief))

    def progress(self, fitted: Fitted) -> float:
        """Return the value of the goal at a model."""
        return self.made.value(fitted)

    def bind(self, request: Request) -> Rule:
        """Return the goal's utility under the operator, for one model and one round."""
        fitted, round = request.fitted, request.round
        operator: Any = self.operator
        utility: Any = self.utility
        goal = self.made.settled(fitted, round)
        resolver = operator.prepare(fitted, round)
        supposed = Supposed(fitted, goal, utility)
        utility, note = utility.chosen(supposed, resolver, request.pool, request.ids)
        supposed = replace(supposed, utility=utility, note=note)
        return supposed.scorer().under(resolver, supposed)


def _named(name: str, word: str) -> Any:
    """Return the operator or selector that a word of recipes stands for."""
    from goalward.strategies.recipes import OPERATORS, SELECTIONS

    words: dict[str, dict[str, Any]] = {
        "operator": {k: make for k, make in OPERATORS.items() if k != "oracle"},
        "selection": SELECTIONS,
    }
    if word not in words[name]:
        raise BadParameter(
            f"{name}={word!r}; one of {', '.join(sorted(words[name]))}, or an object, was expected."
        )
    make = words[name][word]
    return make(None, None) if name == "operator" else make()
