"""Strategies as short texts: "dev/average/first-order/top"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from goalward.core.place import in_place
from goalward.errors import BadParameter
from goalward.strategies.goal_oriented import GoalOriented
from goalward.strategies.recipe_names import (
    BASELINES,
    GOALS,
    LABEL_FREE,
    NUMBERED,
    OPERATORS,
    ORACLES,
    PRESETS,
    SELECTIONS,
    usual_parts,
)
from goalward.strategies.recipe_parts import SURPRISED, enclosed, made_of
from goalward.strategies.strategy import Strategy
from goalward.utility.named import UTILITIES

__all__ = ["Recipe", "recipe"]


@dataclass(frozen=True)
class Recipe:
    """A strategy in words; `build` gives it data.

    Parameters
    ----------
    text
        A baseline ("random", "entropy", "margin", "least-confident"), or
        goal/operator/utility/selection, of which the last two may be left out. An operator
        takes a number after a colon: "predicted:2" has temperature 2. A goal of the posterior
        ("decision-risk", "epig", "fisher-ratio", "prediction-variance"), "coverage" and
        "max-herding" may stand alone. "eer", "mcmi-min", "glister" and other published strategies
        have a word. "random until 50 then
        margin" changes when the model has 50 labelled rows, "entropy/max/retrain unless surprised
        then margin" for one round after a label that was not hoped for; "decision-risk, coverage,
        margin in turn" goes round; "decision-risk among 1000 by margin" sees the 1,000 rows that
        margin puts first. Parentheses hold a part together: "random until 50 then (margin, entropy
        in turn)".

    Examples
    --------
    >>> import goalward as gw
    >>> gw.recipe("dev/average")
    Recipe('dev/average/first-order/top')
    >>> gw.recipe("margin").build()
    Margin(seed=0)
    """

    text: str

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Recipe({self.text!r})"

    @property
    def needs(self) -> frozenset[str]:
        """What `build` must be given: "dev", "pool" or "truth"."""
        if made := made_of(self.text):
            return frozenset().union(*(Recipe(part).needs for part in made.parts))
        if self.text in BASELINES or self.text in ORACLES:
            return frozenset({"truth"} if self.text in ORACLES else ())
        goal, operator, *_ = self.text.split("/")
        needed = {GOALS[goal][0], "truth" if operator == "oracle" else ""}
        return frozenset(needed - {""})

    def build(
        self,
        *,
        dev: tuple[Any, Any] | None = None,
        pool: Any = None,
        truth: Any = None,
        seed: int = 0,
    ) -> Strategy:
        """Return the strategy.

        Parameters
        ----------
        dev
            (X, y) of the dev set, for the goals dev, calibrated, accuracy and f1 (macro).
        pool
            Unlabelled rows, for the goals entropy, fisher and soft-pool.
        truth
            All labels of the pool, for the oracle operator and "boss".
        """
        given: dict[str, Any] = {"dev": dev, "pool": pool, "truth": truth, "seed": seed}
        if made := made_of(self.text):
            return made.join([Recipe(part).build(**given) for part in made.parts], seed)
        if self.text in BASELINES:
            return BASELINES[self.text](seed)
        for name in sorted(self.needs):
            if given[name] is None:
                raise BadParameter(
                    f"{self!r} was built without {name}=, which it needs. Pass "
                    f"build({name}={'(X_dev, y_dev)' if name == 'dev' else '...'})."
                )
        if self.text in ORACLES:
            return ORACLES[self.text](truth, seed)
        goal, operator, utility, selection = self.text.split("/")
        word, _, number = operator.partition(":")
        need, make = GOALS[goal]
        return GoalOriented(
            make(given.get(need)),
            operator=OPERATORS[word](float(number) if number else None, truth),
            utility=UTILITIES[utility](),
            selection=SELECTIONS[selection](),
            seed=seed,
        )


def recipe(text: str) -> Recipe:
    """Return the recipe a text stands for, completed and checked."""
    in_place(text, "A recipe", "'margin' or 'dev/spread'", "strip")
    word = text.strip().lower()
    word = PRESETS.get(word, word)
    if made := made_of(word):
        parts = [enclosed(str(recipe(part))) for part in made.parts]
        if SURPRISED in made.text:
            _check_hopeful(parts[0], text)
        return Recipe(made.text.format(*parts))
    parts = word.split("/")
    if len(parts) == 1 and parts[0] not in LABEL_FREE:
        _check_alone(parts[0], text)
        return Recipe(parts[0])
    defaults = ["", *(usual_parts(parts[0]) or ("average", "first-order", "top"))]
    if len(parts) > 4:
        raise BadParameter(
            f"The recipe {text!r} has {len(parts)} parts; goal/operator/utility/selection was "
            "expected. Write 'dev/average/first-order/top'."
        )
    goal, operator, utility, selection = parts + defaults[len(parts) :]
    _check(goal, "goal", GOALS, text)
    word, colon, number = operator.partition(":")
    _check(word, "operator", OPERATORS, text)
    _check(utility, "utility", UTILITIES, text)
    _check(selection, "selection", SELECTIONS, text)
    if colon:
        _check_number(word, number, text)
    _check_pair(goal, operator, utility, text)
    return Recipe(f"{goal}/{operator}/{utility}/{selection}")


def _check_hopeful(first: str, text: str) -> None:
    """Raise unless a strategy has a label that it hopes for."""
    if first in BASELINES or first in ORACLES or first.partition("/")[0] in LABEL_FREE:
        raise BadParameter(
            f"The recipe {text!r} waits for surprises of {first!r}, which hopes for no label; a goal of "
            "the logits was expected. Write 'entropy/max/retrain unless surprised then entropy', say."
        )


def _check(word: str, kind: str, known: dict[str, Any], text: str) -> None:
    if word not in known:
        raise BadParameter(
            f"The recipe {text!r} names the {kind} {word!r}; one of {', '.join(known)} was "
            "expected. Write 'random' or 'dev/average/first-order/top', say."
        )


def _check_alone(word: str, text: str) -> None:
    """Raise unless a word is a strategy by itself."""
    if word in BASELINES or word in ORACLES:
        return
    if word in GOALS:
        raise BadParameter(
            f"The recipe {text!r} is a goal without an operator; one was expected. Write "
            f"'{word}/spread', say."
        )
    if " until " in word or " then " in word:
        raise BadParameter(
            f"The recipe {text!r} came; 'A until N then B' was expected, N the labels after which it "
            "changes. Write 'decision-risk until 100 then margin', say."
        )
    if " among " in word:
        raise BadParameter(
            f"The recipe {text!r} came; 'A among N by B' was expected, N the rows of the short list. "
            "Write 'decision-risk among 1000 by margin', say."
        )
    known = ", ".join([*BASELINES, *ORACLES, *LABEL_FREE])
    raise BadParameter(
        f"The recipe {text!r} names the strategy {word!r}; one of {known}, or goal/operator, was "
        "expected. Write 'decision-risk', 'random' or 'dev/spread', say."
    )


def _check_pair(goal: str, operator: str, utility: str, text: str) -> None:
    """Raise unless the utility is one that the goal has."""
    own = usual_parts(goal)
    if utility != own[1] if own else utility in ("information", "covering"):
        wanted = own[1] if own else "first-order, implicit or retrain"
        raise BadParameter(
            f"The recipe {text!r} predicts the goal {goal!r} with {utility!r}; {wanted} was expected. "
            f"Write '{goal}/average/{wanted.partition(',')[0]}', say."
        )
    if goal in LABEL_FREE and operator != "average":
        raise BadParameter(
            f"The recipe {text!r} has the operator {operator!r}; under {goal!r} every label of a row "
            f"brings the same, so there is nothing to resolve. Write '{goal}'."
        )


def _check_number(word: str, number: str, text: str) -> None:
    try:
        float(number)
    except ValueError as error:
        raise BadParameter(
            f"The recipe {text!r} has {number!r} after the colon; a number was expected. Write "
            "'predicted:2', say."
        ) from error
    if word not in NUMBERED:
        raise BadParameter(
            f"The recipe {text!r} gives {word!r} the number {number}, which takes none. Leave "
            "it out."
        )
