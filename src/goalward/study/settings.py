"""What a study was made with: data, never code."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.errors import BadParameter, Damaged
from goalward.journal.events import Label
from goalward.learners import Logistic
from goalward.strategies import Recipe, recipe
from goalward.strategies.recipe_names import BASELINES
from goalward.strategies.strategy import Strategy
from goalward.study.random_order import draws

__all__ = [
    "RECOMMENDED",
    "Settings",
    "checked_strategy",
    "plain_label",
    "plain_text",
    "written_learner",
    "written_strategy",
]

LONGEST_NAME = 200
RECOMMENDED = "decision-risk"
"""What `goalward benchmark` recommends now; the same with and without dev labels."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The choices of a study.

    Parameters
    ----------
    classes
        Declared at the start, in order; `add_class` adds more.
    learner
        Parameters of `gw.Logistic`.
    strategy
        A recipe, or "auto". A recipe with a dev goal waits for 10 dev labels of two classes, and is
        "auto" until then.
    auto
        What "auto" stands for: what was recommended when the study was made. It stays so until the
        study's owner changes it (`upgrade`).
    dev
        The share of rows that measure the model and never train it. Which ones is decided by the
        seed and the row alone.
    label
        Which label is used where annotators disagree: "latest" or "majority" (of equally many,
        the latest).
    answers
        How many annotators should answer a row.
    lease
        Seconds a row stays with the annotator it was handed to.
    refit
        New labels after which `ask` fits again.
    goal_rows
        Rows, drawn once by the seed, that label-free goals look at.
    """

    classes: tuple[Label, ...] = ()
    learner: dict[str, Any] = field(default_factory=dict, hash=False)
    strategy: str = "auto"
    # What it was in studies that do not say: those of the first version.
    auto: str = "decision-risk"
    dev: float = 0.0
    label: str = "latest"
    answers: int = 1
    lease: float = 600.0
    refit: int = 10
    goal_rows: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        _check(
            _number(self.dev) and 0.0 <= self.dev <= 0.9,
            "dev",
            self.dev,
            "a share from 0 to 0.9",
            "0.2",
        )
        _check(
            self.label in ("latest", "majority"),
            "label",
            self.label,
            "'latest' or 'majority'",
            "'latest'",
        )
        _check(
            _whole(self.answers) and self.answers >= 1, "answers", self.answers, "1 or more", "1"
        )
        _check(
            _number(self.lease) and self.lease > 0, "lease", self.lease, "seconds above 0", "600"
        )
        _check(_whole(self.refit) and self.refit >= 1, "refit", self.refit, "1 or more", "10")
        _check(
            _whole(self.goal_rows) and self.goal_rows >= 1,
            "goal_rows",
            self.goal_rows,
            "1 or more",
            "1000",
        )
        _check(
            _whole(self.seed) and self.seed >= 0,
            "seed",
            self.seed,
            "a whole number of 0 or more",
            "0",
        )

    @classmethod
    def checked(
        cls, classes: Sequence[Any], learner: Any, strategy: Any, **options: Any
    ) -> Settings:
        """Return settings from what a caller gave."""
        if classes is None or isinstance(classes, (str, bytes)):
            raise BadParameter(
                f"classes={classes!r} is no list; a list of classes was expected. Write "
                "classes=['yes', 'no']."
            )
        labels = tuple(plain_label(label) for label in classes)
        if len(labels) < 2 or len(set(labels)) < len(labels):
            raise BadParameter(
                f"classes={list(classes)!r}; two or more distinct classes were expected. Declare all "
                "of them, also those without a label yet."
            )
        written = checked_strategy(strategy, options.get("dev", 0.0))
        fitted_by = written_learner(learner)
        return cls(classes=labels, learner=fitted_by, strategy=written, auto=RECOMMENDED, **options)

    def to_json(self) -> dict[str, Any]:
        """Return the settings as JSON holds them."""
        return {**asdict(self), "classes": list(self.classes)}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Settings:
        """Return stored settings."""
        known = {f.name for f in fields(cls)}
        if set(values) - known:
            raise Damaged(
                f"The settings hold {', '.join(sorted(set(values) - known))}, which this version does "
                "not know. Upgrade goalward."
            )
        return cls(**{**values, "classes": tuple(values.get("classes", ()))})

    def changed(self, values: dict[str, Any]) -> Settings:
        """Return the settings after their owner changed some of them."""
        return self.from_json({**self.to_json(), **values})

    def is_dev(self, rows: Sequence[int] | NDArray[Any]) -> NDArray[Any]:
        """Return which rows measure the model instead of training it."""
        chosen: NDArray[Any] = draws(np.asarray(rows), self.seed, "dev") < self.dev
        return chosen

    def fitter(self, classes: Sequence[Label], *, unseen: bool) -> Logistic:
        """Return the learner; a class without a label yet penalises the intercepts."""
        options = {**self.learner, "classes": list(classes)}
        if unseen:
            options["penalize_intercept"] = True
        return Logistic(**options)


def written_learner(learner: Any) -> dict[str, Any]:
    """Return a learner as its parameters; refused where they are more than data."""
    if learner is None:
        learner = Logistic()
    if type(learner) is not Logistic:
        raise BadParameter(
            f"learner={learner!r}; gw.Logistic(...) was expected, since a study stores its learner "
            "as parameters and never as code."
        )
    options = learner.get_params(deep=False)
    options.pop("classes")
    try:
        written: dict[str, Any] = json.loads(json.dumps(options, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise BadParameter(
            f"{learner!r} has a parameter that is not plain data ({error}); numbers and names were "
            "expected. Name the solver: solver='dual', say."
        ) from error
    return written


def checked_strategy(strategy: Any, dev: float) -> str:
    """Return a strategy as text; one with the dev goal needs a share of dev rows."""
    written = written_strategy(strategy)
    if "dev" in (recipe(written).needs if written != "auto" else ()) and not dev:
        raise BadParameter(
            f"strategy={written!r} has the dev goal and dev=0; a share of rows for the dev set "
            "was expected. Pass dev=0.2, say."
        )
    return written


def written_strategy(strategy: Any) -> str:
    """Return a strategy as a recipe's text; refused where it cannot be written so."""
    if strategy is None or strategy == "auto":
        return "auto"
    if isinstance(strategy, Strategy):
        for name, make in BASELINES.items():
            if make(strategy.seed) == strategy:
                return name
        raise BadParameter(
            f"strategy={strategy!r}; a recipe was expected, since a study stores its strategy as "
            "text and never as code. Write 'dev/spread/first-order/sequential-curvature', say."
        )
    text = strategy.text if isinstance(strategy, Recipe) else str(strategy)
    found = recipe(text)
    if "dev-left-out" in found.text:
        raise BadParameter(
            f"strategy={text!r} is about dev rows that the model is trained on; a study never trains on "
            "its dev rows. Use dev/spread."
        )
    if "truth" in found.needs:
        raise BadParameter(
            f"strategy={text!r} needs the true labels, which a study does not have. Use another "
            "operator: spread, say."
        )
    return found.text


def plain_label(label: Any) -> Label:
    """Return a class as JSON keeps it."""
    value = label.item() if isinstance(label, np.generic) else label
    if isinstance(value, str):
        return plain_text(value, "A class", longest=1000)
    if isinstance(value, (bool, int)) or (isinstance(value, float) and np.isfinite(value)):
        return value
    raise BadParameter(
        f"The class {label!r} is a {type(label).__name__}; a text or a finite number was expected."
    )


def plain_text(text: Any, name: str, *, longest: int = LONGEST_NAME) -> str:
    """Return a text that any database and file can hold."""
    if not isinstance(text, str) or not text:
        raise BadParameter(f"{name} is {text!r}; a text that is not empty was expected.")
    if len(text) > longest:
        raise BadParameter(
            f"{name} has {len(text)} characters; at most {longest} were expected. Shorten it."
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadParameter(
            f"{name} holds half of a character pair ({error.reason} at {error.start}); whole "
            "characters were expected. Repair the text."
        ) from error
    return text


def _check(fine: bool, name: str, value: Any, expected: str, use: str) -> None:
    if not fine:
        raise BadParameter(f"{name}={value!r}; {expected} was expected. Use {name}={use}.")


def _whole(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, Integral)


def _number(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value)
