"""The settings of a study: data, never code."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import lru_cache
from numbers import Integral, Real
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from goalward.core.draws import drawn_numbers
from goalward.errors import BadParameter, Damaged
from goalward.models.features import written_maps
from goalward.strategies.recipes import RECOMMENDED_FOR, recipe
from goalward.strategies.strategy import WORDS
from goalward.studio.store.events import Label
from goalward.studio.study.kind import Kind
from goalward.studio.study.one_number import OneNumber
from goalward.studio.study.several_labels import SeveralLabels

KINDS: dict[str, Kind] = {kind.name: kind for kind in (Kind(), SeveralLabels(), OneNumber())}
USUAL: dict[str, dict[str, Any]] = {
    "class": {"C": "loo", "features": "auto"},
    "labels": {"C": "loo", "features": "auto"},
    "numbers": {"alpha": "loo", "features": "auto"},
}


def usual_learner(kind: str) -> Any:
    """Return the default learner of a kind of study."""
    return KINDS[kind].learner(**USUAL[kind])


def written_learner(learner: Any) -> tuple[str, dict[str, Any]]:
    """Return the kind of a learner and its parameters, which must be plain data."""
    learner = usual_learner("class") if learner is None else learner
    name = next((name for name, kind in KINDS.items() if type(learner) is kind.learner), None)
    if name is None:
        raise BadParameter(
            f"learner must be gw.Logistic(...), gw.MultiLabel(...) or gw.Ridge(...), got {learner!r}. A "
            "study stores its learner as parameters, never as code."
        )
    options = learner.get_params(deep=False)
    for names in ("classes", "labels", "outputs"):
        options.pop(names, None)
    if options.pop("opinion", None) is not None:
        raise BadParameter(
            "learner must have no opinion: a study makes its own of guesses. Pass guesses= instead."
        )
    options["features"] = written_maps(options["features"])
    try:
        return name, dict(json.loads(json.dumps(options, allow_nan=False)))
    except (TypeError, ValueError) as error:
        raise BadParameter(
            f"The parameters of a study's learner must be numbers and names, got {learner!r} ({error}). "
            "Name the solver: solver='dual', say."
        ) from error


def checked_strategy(strategy: Any, dev: float) -> str:
    """Return a strategy as the text of a recipe; raise if a study cannot use it."""
    if strategy is None or strategy == "auto":
        return "auto"
    text = getattr(strategy, "text", strategy)
    if not isinstance(text, str):
        seed = getattr(strategy, "seed", 0)
        alike = (name for name, make in WORDS.items() if type(strategy) is make)
        text = next((name for name in alike if recipe(name).build(seed=seed) == strategy), None)
    if text is None:
        raise BadParameter(
            f"strategy must be a recipe, got {strategy!r}. A study stores its strategy as text, never as "
            "code. Write 'dev/spread/first-order/sequential-curvature', say."
        )
    made = recipe(text)
    if "dev-left-out" in made.text:
        raise BadParameter(
            f"strategy={text!r} is about dev rows that the model is trained on; a study never trains on "
            "its dev rows. Use dev/spread."
        )
    if "truth" in made.needs:
        raise BadParameter(
            f"strategy={text!r} needs the true labels, which a study does not have. Use another "
            "operator: spread, say."
        )
    if "dev" in made.needs and not dev:
        raise BadParameter(
            f"dev must be above 0 for strategy={made.text!r}, whose goal is the dev set, got 0. "
            "Pass dev=0.2, say."
        )
    return made.text


def try_strategy(settings: Settings) -> None:
    """Raise if the strategy cannot rank rows for answers of this kind, by trying it on a few."""
    if settings.kind == "class" or settings.strategy == "auto":
        return
    X = np.random.default_rng(0).normal(size=(24, 2))
    answer, names = settings.answer, settings.classes
    y = answer.targets(answer.examples, names)
    fitted = settings.fitter(names).fit(X[:12], y)
    made = recipe(settings.strategy)
    given: dict[str, Any] = {"dev": (X[:12], y), "pool": X}
    data = {name: value for name, value in given.items() if name in made.needs}
    made.build(**data, seed=settings.seed).turn(fitted, 12).suggest(fitted, X[12:], batch=1)


LONGEST_NAME = 200
LONGEST_NOTE = 2000
BLOCK = 2**16
"""Rows whose roles are drawn together."""
LABELS = ("latest", "majority", "weighed")
DEV = 0.1
"""The default share of rows that measure the model."""


class Options(TypedDict, total=False):
    """Settings that a caller may give by name; see `Settings`."""

    dev: float
    label: str
    answers: int
    costs: str | None
    lease: float
    refit: int
    seed: int


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The choices of a study.

    Parameters
    ----------
    classes
        In order: the classes, the names of several labels, or the name of a number.
    kind
        What an answer is, by the learner: "class", "labels" (each a yes or a no) or "numbers".
    learner
        Parameters of `gw.Logistic`, `gw.MultiLabel` or `gw.Ridge`; by default C is chosen each round.
    strategy, auto
        A recipe, or "auto", the recommended one at creation, also used until a dev goal has 10 labels.
    dev
        The share of rows that measure the model; only an exported model is trained on them too.
    label
        Where annotators disagree: "latest", "majority" (ties: the latest), or "weighed" (`DawidSkene`).
    answers, lease
        How many annotators should answer a row, and the seconds it stays with the one it was handed to.
    costs
        The column with the cost of each row: rows come by gain per price.
    refit, goal_rows
        New labels after which `ask` fits again, and how many rows label-free goals use.
    """

    classes: tuple[Label, ...] = ()
    kind: str = "class"
    learner: dict[str, Any] = field(default_factory=dict, hash=False)
    strategy: str = "auto"
    auto: str = RECOMMENDED_FOR["class"]
    dev: float = 0.0
    label: str = "latest"
    answers: int = 1
    costs: str | None = None
    lease: float = 600.0
    refit: int = 10
    goal_rows: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        for name, (fits, expected, remedy) in RULES.items():
            value = getattr(self, name)
            if not fits(value):
                raise BadParameter(
                    f"{name} must be {expected}, got {value!r}. Use {name}={remedy!r}."
                )

    @classmethod
    def checked(
        cls, classes: Sequence[Any], learner: Any, strategy: Any, **options: Any
    ) -> Settings:
        if classes is None or isinstance(classes, (str, bytes)):
            raise BadParameter(
                f"classes must be a list, got {classes!r}. Write classes=['yes', 'no']."
            )
        labels = tuple(plain_label(label) for label in classes)
        kind, written = written_learner(learner)
        answer = KINDS[kind]
        answer.check_names(labels)
        if options.get("label", "latest") != "latest":
            answer.need(f"label={options['label']!r}")
        options.setdefault("dev", DEV)
        several = kind == "class" and is_whole(options.get("answers", 1), 2)
        options.setdefault("label", "weighed" if several else "latest")
        options["strategy"] = checked_strategy(strategy, options["dev"])
        alone: Any = WORDS.get(options["strategy"], WORDS["margin"])
        if options.get("costs") is not None and alone.zero is None:
            raise BadParameter(
                f"strategy={options['strategy']!r} does not support costs: it puts rows in order and gives "
                "no gain that a price could divide. Leave strategy out."
            )
        made = cls(classes=labels, kind=kind, learner=written, auto=answer.auto, **options)
        try_strategy(made)
        return made

    @property
    def answer(self) -> Kind:
        return KINDS[self.kind]

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "classes": list(self.classes)}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Settings:
        known = {f.name for f in fields(cls)}
        if set(values) - known:
            raise Damaged(
                f"The settings hold {', '.join(sorted(set(values) - known))}, which this version does "
                "not know. Upgrade goalward."
            )
        return cls(**{**values, "classes": tuple(values.get("classes", ()))})

    def is_dev(self, rows: Sequence[int] | NDArray[Any]) -> NDArray[Any]:
        """Return which rows measure the model instead of training it."""
        return np.asarray(drawn_numbers(rows, self.seed, "dev") < self.dev)

    def measures(self, row: int) -> bool:
        """Return whether a row measures the model; faster than `is_dev` for single rows."""
        return bool(_measuring(self.seed, self.dev, row // BLOCK)[row % BLOCK])

    def n_training(self, n_rows: int) -> int:
        """Return how many of the first rows train the model."""
        blocks = (_measuring(self.seed, self.dev, b) for b in range(-(-n_rows // BLOCK)))
        return n_rows - sum(int(b[: n_rows - i * BLOCK].sum()) for i, b in enumerate(blocks))

    def random_order(self, n_rows: int, purpose: str) -> NDArray[Any]:
        """Return all rows in a random order, independent between purposes."""
        return np.argsort(drawn_numbers(range(n_rows), self.seed, purpose), kind="stable")

    def fitter(self, classes: Sequence[Label]) -> Any:
        return self.answer.fitter(self.learner, classes)


@lru_cache(maxsize=1000)
def _measuring(seed: int, dev: float, block: int) -> NDArray[Any]:
    rows = np.arange(block * BLOCK, (block + 1) * BLOCK)
    return np.asarray(drawn_numbers(rows, seed, "dev") < dev)


def plain_label(label: Any) -> Label:
    """Return a class as JSON keeps it."""
    value = label.item() if isinstance(label, np.generic) else label
    if isinstance(value, str):
        return plain_text(value, "A class", longest=1000)
    if isinstance(value, (bool, int)) or (isinstance(value, float) and np.isfinite(value)):
        return value
    raise BadParameter(
        f"A class must be a text or a finite number, got {label!r} ({type(label).__name__})."
    )


def plain_text(text: Any, name: str, *, longest: int = LONGEST_NAME) -> str:
    """Return a text that any database and file can hold."""
    if not isinstance(text, str) or not text:
        raise BadParameter(f"{name} must be a text that is not empty, got {text!r}.")
    if len(text) > longest:
        raise BadParameter(
            f"{name} must have at most {longest} characters, got {len(text)}. Shorten it."
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadParameter(
            f"{name} holds half of a character pair ({error.reason} at {error.start}). Repair the text."
        ) from error
    return text


def is_whole(value: Any, least: int) -> bool:
    """Return whether a value is a whole number of at least so much, and no boolean."""
    return not isinstance(value, bool) and isinstance(value, Integral) and int(value) >= least


def _number(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value)


RULES: dict[str, tuple[Callable[[Any], bool], str, Any]] = {
    "dev": (lambda v: _number(v) and 0.0 <= v <= 0.9, "a share from 0 to 0.9", 0.2),
    "label": (lambda v: v in LABELS, "'latest', 'majority' or 'weighed'", "latest"),
    "kind": (lambda v: v in KINDS, "'class', 'labels' or 'numbers'", "class"),
    "answers": (lambda v: is_whole(v, 1), "1 or more", 1),
    "costs": (lambda v: v is None or (isinstance(v, str) and v != ""), "a column's name", None),
    "lease": (lambda v: _number(v) and v > 0, "seconds above 0", 600),
    "refit": (lambda v: is_whole(v, 1), "1 or more", 10),
    "goal_rows": (lambda v: is_whole(v, 1), "1 or more", 1000),
    "seed": (lambda v: is_whole(v, 0), "a whole number of 0 or more", 0),
}
"""setting -> a check, its words, and a value to use."""
