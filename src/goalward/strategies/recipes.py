"""The words of recipes, and what they stand for."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from goalward.core.place import in_place
from goalward.errors import BadParameter
from goalward.goals.certainty import Entropy, ExpectedAccuracy, Fisher
from goalward.goals.coverage import Coverage
from goalward.goals.dev_loss import CalibratedDevLoss, DevLoss
from goalward.goals.goal import Goal
from goalward.goals.leave_one_out import LeaveOneOut
from goalward.goals.posterior import DecisionRisk, Epig, FisherRatio, PredictionVariance
from goalward.goals.smooth import SmoothAccuracy, SmoothF1
from goalward.goals.soft_pool import SoftPool
from goalward.labels.beliefs import Predicted, Truth, Uniform
from goalward.labels.learned import Jackknife, LabelModel
from goalward.labels.operators import (
    BestCase,
    Expected,
    ExpectedImprovement,
    Operator,
    ProbabilityOfImprovement,
    Spread,
    UpperConfidence,
    WorstCase,
)
from goalward.strategies import uncertainty
from goalward.strategies.among import Among, reference_rows
from goalward.strategies.badge import Badge
from goalward.strategies.bait import Bait, BaitBackward
from goalward.strategies.bald import Bald
from goalward.strategies.core_set import CoreSet
from goalward.strategies.ensemble import Boss, Refine
from goalward.strategies.goal_oriented import GoalOriented
from goalward.strategies.regression import Committee, GreedySampling, ModelChange
from goalward.strategies.schedule import InTurn, Then, UnlessSurprised, WhileUnseen
from goalward.strategies.selectors import Certain, Sequential, Stochastic, Top
from goalward.strategies.strategy import Strategy
from goalward.strategies.typiclust import TypiClust
from goalward.utility.named import UTILITIES
from goalward.utility.rule import Selector

__all__ = [
    "BASELINES",
    "GOALS",
    "LABEL_FREE",
    "NUMBERED",
    "OF_NUMBERS",
    "OPERATORS",
    "ORACLES",
    "PRESETS",
    "RECOMMENDED",
    "RECOMMENDED_FOR",
    "SELECTIONS",
    "SURPRISED",
    "Compound",
    "Recipe",
    "enclosed",
    "made_of",
    "recipe",
    "usual_parts",
]


BASELINES: dict[str, Callable[[int], Strategy]] = {
    "random": uncertainty.Random,
    "entropy": uncertainty.Entropy,
    "margin": uncertainty.Margin,
    "least-confident": uncertainty.LeastConfident,
    "uncertainty": uncertainty.LeastConfident,
    "core-set": CoreSet,
    "label-margin": uncertainty.LabelMargin,
    "greedy": GreedySampling,
    "committee": Committee,
    "model-change": ModelChange,
    "badge": Badge,
    "bait": Bait,
    "bait-backward": BaitBackward,
    "bald": lambda seed: Bald(seed=seed),
    "typiclust": TypiClust,
    "refine": lambda seed: Refine(seed=seed),
}
OF_NUMBERS = frozenset({"greedy", "committee", "model-change"})
"""Those of models of numbers."""
ORACLES: dict[str, Callable[[Any, int], Strategy]] = {
    "boss": lambda truth, seed: Boss(truth, seed=seed)
}
"""Baselines that must be told the true labels of the pool."""
RECOMMENDED = "hedged"
"""What `goalward benchmark` recommends now; the same with and without dev labels."""
RECOMMENDED_FOR = {
    "class": RECOMMENDED,
    "labels": "coverage among 4000 by random",
    "numbers": "fisher-ratio",
}
"""By what the model learns; `goalward benchmark --task` says how far they are ahead."""
PRESETS = {
    "hedged": (
        "coverage among 4000 by random while classes are unseen then (decision-risk among 1000 by "
        "margin, margin, coverage among 4000 by random in turn)"
    ),
    "eer": "entropy/predicted/retrain/top",
    "eer-01": "expected-accuracy/predicted/retrain/top",
    "mcmi-min": "entropy/max/retrain/top",
    "mcmi-switch": "entropy/max/retrain/top unless surprised then entropy",
    "a-optimality": "prediction-variance/average/information/top",
    "glister": "dev/predicted:0/gradient-step/top",
    "goimda": "jackknife-pool/jackknife/first-order/top",
    "isal": "dev/predicted:0/first-order/top",
    "goral-average": "dev/average/first-order/top",
    "tcm": "typiclust until 30 then margin",
}
"""Published strategies as instances of the framework; docs/goals.md has the table."""


def _reference(make: Callable[[Any], Goal]) -> Callable[[Any], Goal]:
    """Return the goal over a sample of the pool, the same in every round."""
    return lambda pool: make(reference_rows(pool))


LABEL_FREE: dict[str, tuple[str, Callable[[Any], Goal]]] = {
    "decision-risk": ("pool", _reference(DecisionRisk)),
    "epig": ("pool", _reference(Epig)),
    "fisher-ratio": ("pool", _reference(FisherRatio)),
    "prediction-variance": ("pool", _reference(PredictionVariance)),
    "coverage": ("pool", _reference(Coverage)),
    "max-herding": ("pool", _reference(partial(Coverage, uncertain=False, radius=1.0))),
}
"""Goals that a label helps by where its row is, whichever it is: they have a utility of their own."""


def usual_parts(goal: str) -> tuple[str, str, str] | None:
    """Return what stands after such a goal where nothing else is said."""
    if goal not in LABEL_FREE:
        return None
    covering = goal in ("coverage", "max-herding")
    return ("average", "covering" if covering else "information", "sequential")


GOALS: dict[str, tuple[str, Callable[[Any], Goal]]] = {
    "dev": ("dev", lambda dev: DevLoss(*dev)),
    "entropy": ("pool", Entropy),
    "expected-accuracy": ("pool", ExpectedAccuracy),
    "fisher": ("pool", Fisher),
    "leave-one-out": ("", lambda _: LeaveOneOut()),
    "dev-left-out": ("dev", lambda dev: LeaveOneOut(*dev)),
    **LABEL_FREE,
    "calibrated": ("dev", lambda dev: CalibratedDevLoss(*dev)),
    "accuracy": ("dev", lambda dev: SmoothAccuracy(*dev)),
    "f1": ("dev", lambda dev: SmoothF1(*dev)),
    "soft-pool": ("pool", lambda pool: SoftPool(pool, LabelModel(forest()))),
    "jackknife-pool": ("pool", lambda pool: SoftPool(pool, Jackknife())),
}
OPERATORS: dict[str, Callable[[float | None, Any], Operator]] = {
    "average": lambda value, truth: Expected(Uniform()),
    "predicted": lambda value, truth: Expected(Predicted(1.0 if value is None else value)),
    "jackknife": lambda value, truth: Expected(Jackknife()),
    "oracle": lambda value, truth: Expected(Truth(truth)),
    "min": lambda value, truth: WorstCase(),
    "max": lambda value, truth: BestCase(),
    "spread": lambda value, truth: Spread(Predicted(1.0 if value is None else value)),
    "ucb": lambda value, truth: UpperConfidence(kappa=1.0 if value is None else value),
    "ei": lambda value, truth: ExpectedImprovement(threshold=value or 0.0),
    "pi": lambda value, truth: ProbabilityOfImprovement(threshold=value or 0.0),
}
NUMBERED = {"predicted", "spread", "ucb", "ei", "pi"}
SELECTIONS: dict[str, Callable[[], Selector]] = {
    "top": Top,
    "certain": Certain,
    "sequential": Sequential,
    "sequential-curvature": lambda: Sequential(update="curvature"),
    "stochastic": Stochastic,
}


def forest() -> Any:
    """Return the label model of the soft pool.

    A forest fits any number of labels, needs no scaling, and differs from a linear model. With 60
    labels its log-loss was below that of 10 neighbours on letter (1.8 against 2.9), rt-polarity (.59
    against .64) and synth2, and its accuracy above on digits too (.81 against .72).
    """
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(200, random_state=0)


# Recipes made of recipes: in turn, one until or unless another, one among another's rows.


SURPRISED, UNSEEN = "unless surprised", "while classes are unseen"
IN_TURN = " in turn"
LINKS: tuple[tuple[str, str, Callable[[int, list[Any], int], Strategy]], ...] = (
    (
        r"(.+?) until ([1-9]\d*) then (.+)",
        "{} until N then {}",
        lambda count, built, seed: Then(*built, labels=count, seed=seed),
    ),
    (
        rf"(.+?) {SURPRISED} then (.+)",
        f"{{}} {SURPRISED} then {{}}",
        lambda _, built, seed: UnlessSurprised(*built, seed=seed),
    ),
    (
        rf"(.+?) {UNSEEN} then (.+)",
        f"{{}} {UNSEEN} then {{}}",
        lambda _, built, seed: WhileUnseen(*built, seed=seed),
    ),
    (
        r"(.+) among ([1-9]\d*) by (.+)",
        "{} among N by {}",
        lambda count, built, seed: Among(built[0], by=built[1], most=count, seed=seed),
    ),
)


def enclosed(text: str) -> str:
    """Return a part as it stands among others: what is made of several is one part there."""
    return f"({text})" if text.endswith(IN_TURN) or " then " in text else text


class Compound(NamedTuple):
    """A strategy of several: their recipes, the text around them, and how to join them."""

    parts: list[str]
    text: str
    join: Callable[[list[Any], int], Strategy]


def made_of(text: str) -> Compound | None:
    """Return what "A, B, C in turn", "A until N then B" and their kin are made of.

    What stands in parentheses is one part, whatever is in it.
    """
    groups: list[str] = []

    def hidden(found: re.Match[str]) -> str:
        groups.append(found[1])
        return f"<{len(groups) - 1}>"

    def shown(part: str) -> str:
        if alone := re.fullmatch(r"<(\d+)>", part):
            return shown(groups[int(alone[1])])
        return re.sub(r"<(\d+)>", lambda found: f"({shown(found[0])})", part)

    while (flat := re.sub(r"\(([^()]*)\)", hidden, text)) != text:
        text = flat
    if alone := re.fullmatch(r"<\d+>", text):
        return made_of(shown(alone[0]))
    if text.endswith(IN_TURN):
        parts = text.removesuffix(IN_TURN).split(", ")
        around = ", ".join(["{}"] * len(parts)) + IN_TURN
        join: Any = lambda built, seed: InTurn(tuple(built), seed=seed)
        return Compound([shown(part) for part in parts], around, join)
    for pattern, around, link in LINKS:
        if found := re.fullmatch(pattern, text):
            first, *number, last = found.groups()
            count = int(number[0]) if number else 0
            parts = [shown(first), shown(last)]
            return Compound(parts, around.replace("N", str(count)), partial(link, count))
    return None


# Strategies as short texts: "dev/average/first-order/top".


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
