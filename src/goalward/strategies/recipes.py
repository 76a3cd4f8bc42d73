"""Strategies as short texts: "dev/average/first-order/top"."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, NoReturn

from goalward import goals, labels
from goalward.core.arguments import in_place
from goalward.core.draws import reference_rows
from goalward.errors import BadParameter
from goalward.strategies.combined import Among, InTurn, Then, UnlessSurprised, WhileUnseen
from goalward.strategies.goal_oriented import GoalOriented
from goalward.strategies.selectors import Selector, Sequential, Stochastic, Top
from goalward.strategies.strategy import WORDS, Strategy
from goalward.utility.ladder import UTILITIES

RECOMMENDED = "hedged"
"""Recipe recommended by `goalward benchmark`, with and without dev labels."""
RECOMMENDED_FOR = {
    "class": RECOMMENDED,
    "labels": "coverage among 4000 by random",
    "numbers": "fisher-ratio",
}
"""Recommended recipes by kind of target; see docs/labels-and-numbers.md."""
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


def forest() -> Any:
    """Return the label model of the soft pool; its log-loss was below that of 10 neighbours."""
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(200, random_state=0)


class Word(NamedTuple):
    """A goal's word: its data ("dev", "pool" or nothing), and its own utility if it has one."""

    data: str
    make: Callable[[Any], goals.Goal]
    utility: str = ""


def _label_free(make: Callable[[Any], goals.Goal], utility: str) -> Word:
    """Return a goal whose gain does not depend on the label, over a sample of the pool."""
    return Word("pool", lambda pool: make(reference_rows(pool)), utility)


GOALS: dict[str, Word] = {
    "dev": Word("dev", lambda dev: goals.DevLoss(*dev)),
    "entropy": Word("pool", goals.Entropy),
    "expected-accuracy": Word("pool", goals.ExpectedAccuracy),
    "fisher": Word("pool", goals.Fisher),
    "leave-one-out": Word("", lambda _: goals.LeaveOneOut()),
    "dev-left-out": Word("dev", lambda dev: goals.LeaveOneOut(*dev)),
    "decision-risk": _label_free(goals.DecisionRisk, "information"),
    "epig": _label_free(goals.Epig, "information"),
    "fisher-ratio": _label_free(goals.FisherRatio, "information"),
    "prediction-variance": _label_free(goals.PredictionVariance, "information"),
    "coverage": _label_free(goals.Coverage, "covering"),
    "max-herding": _label_free(partial(goals.Coverage, uncertain=False, radius=1.0), "covering"),
    "calibrated": Word("dev", lambda dev: goals.CalibratedDevLoss(*dev)),
    "accuracy": Word("dev", lambda dev: goals.SmoothAccuracy(*dev)),
    "f1": Word("dev", lambda dev: goals.SmoothF1(*dev)),
    "soft-pool": Word("pool", lambda pool: goals.SoftPool(pool, labels.LabelModel(forest()))),
    "jackknife-pool": Word("pool", lambda pool: goals.SoftPool(pool, labels.Jackknife())),
}
LABEL_FREE = [name for name, word in GOALS.items() if word.utility]
OPERATORS: dict[str, Callable[[float | None, Any], labels.Operator]] = {
    "average": lambda value, truth: labels.Expected(labels.Uniform()),
    "predicted": lambda value, truth: labels.Expected(
        labels.Predicted(1.0 if value is None else value)
    ),
    "jackknife": lambda value, truth: labels.Expected(labels.Jackknife()),
    "oracle": lambda value, truth: labels.Expected(labels.Truth(truth)),
    "min": lambda value, truth: labels.WorstCase(),
    "max": lambda value, truth: labels.BestCase(),
    "spread": lambda value, truth: labels.Spread(labels.Predicted(1.0 if value is None else value)),
    "ucb": lambda value, truth: labels.UpperConfidence(kappa=1.0 if value is None else value),
    "ei": lambda value, truth: labels.ExpectedImprovement(threshold=value or 0.0),
    "pi": lambda value, truth: labels.ProbabilityOfImprovement(threshold=value or 0.0),
}
NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf"
NUMBERED = {"predicted", "spread", "ucb", "ei", "pi"}
"""Operators that take a number after a colon."""
SELECTIONS: dict[str, Callable[[], Selector]] = {
    "top": Top,
    "sequential": Sequential,
    "sequential-curvature": lambda: Sequential(update="curvature"),
    "stochastic": Stochastic,
}


IN_TURN = " in turn"
SURPRISED = " unless surprised "
LINKS: dict[str, Callable[[int, list[Any], int], Strategy]] = {
    r"(.+?) until ([1-9]\d*) then (.+)": lambda n, parts, seed: Then(*parts, labels=n, seed=seed),
    rf"(.+?){SURPRISED}then (.+)": lambda n, parts, seed: UnlessSurprised(*parts, seed=seed),
    r"(.+?) while classes are unseen then (.+)": lambda n, parts, seed: WhileUnseen(
        *parts, seed=seed
    ),
    r"(.+) among ([1-9]\d*) by (.+)": lambda n, parts, seed: Among(
        parts[0], by=parts[1], most=n, seed=seed
    ),
}


class Compound(NamedTuple):
    """A strategy of several: their recipes, the text around them, and how to join them."""

    parts: list[str]
    text: str
    join: Callable[[list[Any], int], Strategy]


def compound(text: str) -> Compound | None:
    """Return the parts of "A, B in turn", "A until N then B" and others; None for a single one."""
    masked, depth = "", 0
    for letter in text:
        depth -= letter == ")"
        masked += "_" if depth > 0 else letter
        depth += letter == "("
    if re.fullmatch(r"\(_*\)", masked):
        return compound(text[1:-1])
    if masked.endswith(IN_TURN):
        commas = [comma.start() for comma in re.finditer(", ", masked)]
        starts, stops = [0, *(comma + 2 for comma in commas)], [*commas, len(text) - len(IN_TURN)]
        parts = [text[a:b] for a, b in zip(starts, stops, strict=True)]
        around = ", ".join(["{}"] * len(parts)) + IN_TURN
        return Compound(parts, around, lambda built, seed: InTurn(tuple(built), seed=seed))
    for pattern, link in LINKS.items():
        if match := re.fullmatch(pattern, masked):
            last = match.lastindex or 0
            n = int(match[2]) if last == 3 else 0
            (start, stop), (again, end) = match.span(1), match.span(last)
            around = f"{{}}{text[stop:again]}{{}}"
            return Compound([text[start:stop], text[again:end]], around, partial(link, n))
    return None


@dataclass(frozen=True)
class Recipe:
    """A strategy in words; `build` gives it data.

    Parameters
    ----------
    text
        A strategy ("margin", "eer"), or goal/operator/utility/selection, the last two optional.
        Parts combine: "A until 50 then B", "A, B in turn", "A among 1000 by B", with parentheses.

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
        if made := compound(self.text):
            return frozenset().union(*(Recipe(part).needs for part in made.parts))
        if self.text in WORDS:
            strategy: Any = WORDS[self.text]
            return frozenset(strategy.needs)
        goal, operator, *_ = self.text.split("/")
        return frozenset({GOALS[goal].data, "truth" if operator == "oracle" else ""} - {""})

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
        given: dict[str, Any] = {"dev": dev, "pool": pool, "truth": truth}
        if made := compound(self.text):
            return made.join([Recipe(part).build(**given, seed=seed) for part in made.parts], seed)
        for name in sorted(self.needs):
            if given[name] is None:
                example = "(X_dev, y_dev)" if name == "dev" else "..."
                raise BadParameter(f"{self!r} needs {name}=. Pass build({name}={example}).")
        if self.text in WORDS:
            data = {name: given[name] for name in self.needs}
            return WORDS[self.text](**data, seed=seed)
        goal, operator, utility, selection = self.text.split("/")
        word, _, number = operator.partition(":")
        return GoalOriented(
            GOALS[goal].make(given.get(GOALS[goal].data)),
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

    def refuse(reason: str, example: str) -> NoReturn:
        raise BadParameter(
            f"The recipe {text!r} {reason}. Write {example!r}, 'margin until 100 then random' or 'epig "
            "among 1000 by margin', say."
        )

    def check(kind: str, name: str, known: Iterable[str]) -> None:
        if name not in known:
            listed = ", ".join(sorted(known))
            refuse(f"names the {kind} {name!r}; known are {listed}", "dev/spread")

    if made := compound(word):
        parts = [recipe(part).text for part in made.parts]
        if SURPRISED in made.text and (parts[0] in WORDS or parts[0].split("/")[0] in LABEL_FREE):
            refuse(f"waits for surprises of {parts[0]!r}, which hopes for no label", "mcmi-switch")
        # A compound part is put in parentheses.
        parts = [f"({part})" if IN_TURN in part or " then " in part else part for part in parts]
        return Recipe(made.text.format(*parts))
    goal, *rest = word.split("/")
    if not rest and goal in WORDS:
        return Recipe(goal)
    if rest or goal not in GOALS:
        check("goal" if rest else "strategy", goal, GOALS if rest else [*WORDS, *LABEL_FREE])
    own = GOALS[goal].utility
    if not (rest or own):
        refuse("is a goal without an operator", f"{goal}/spread")
    if len(rest) > 3:
        refuse("has more parts than goal/operator/utility/selection", "dev/average/implicit")
    defaults = ["average", own or "first-order", "sequential" if own else "top"]
    operator, utility, selection = rest + defaults[len(rest) :]
    kind, colon, number = operator.partition(":")
    check("operator", kind, OPERATORS)
    check("utility", utility, UTILITIES)
    check("selection", selection, SELECTIONS)
    if colon and not (kind in NUMBERED and re.fullmatch(NUMBER, number)):
        refuse(f"has {number!r} after {kind!r}, not a number that it takes", "dev/predicted:2")
    if utility != own if own else utility in ("information", "covering"):
        example = f"{goal}/average/{own or 'implicit'}"
        refuse(f"cannot predict the goal {goal!r} with {utility!r}", example)
    if own and operator != "average":
        refuse(f"has an operator, and every label serves {goal!r} alike", goal)
    return Recipe(f"{goal}/{operator}/{utility}/{selection}")
