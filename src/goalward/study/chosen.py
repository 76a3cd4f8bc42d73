"""The learner and the strategy that a study is made with, as data: never code."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from goalward.errors import BadParameter
from goalward.strategies import recipe
from goalward.strategies.recipe_names import BASELINES
from goalward.study.kinds import KINDS

if TYPE_CHECKING:
    from goalward.study.settings import Settings

__all__ = ["checked_strategy", "try_strategy", "usual_learner", "written_learner"]

# Rows of texts are short, for which a C of 1 would hold the weights of labels back.
USUAL: dict[str, dict[str, Any]] = {"class": {"C": "loo"}, "labels": {"C": 10.0}, "numbers": {}}


def usual_learner(kind: str) -> Any:
    """Return the learner of a study for which nothing else is said."""
    return KINDS[kind].learner(**USUAL[kind])


def written_learner(learner: Any) -> tuple[str, dict[str, Any]]:
    """Return the kind of a learner and its parameters; refused where they are more than data."""
    learner = usual_learner("class") if learner is None else learner
    name = next((name for name, kind in KINDS.items() if type(learner) is kind.learner), None)
    if name is None:
        raise BadParameter(
            f"learner={learner!r}; gw.Logistic(...), gw.MultiLabel(...) or gw.Ridge(...) was expected, "
            "since a study stores its learner as parameters and never as code."
        )
    options = learner.get_params(deep=False)
    for names in ("classes", "labels", "outputs"):
        options.pop(names, None)
    if options.pop("opinion", None) is not None:
        raise BadParameter(
            "learner= came with an opinion; a study makes its own of guesses. Pass guesses= instead."
        )
    try:
        return name, dict(json.loads(json.dumps(options, allow_nan=False)))
    except (TypeError, ValueError) as error:
        raise BadParameter(
            f"{learner!r} has a parameter that is not plain data ({error}); numbers and names were "
            "expected. Name the solver: solver='dual', say."
        ) from error


def checked_strategy(strategy: Any, dev: float) -> str:
    """Return a strategy as a recipe's text; refused where it cannot be written so, or not be used."""
    if strategy is None or strategy == "auto":
        return "auto"
    text = getattr(strategy, "text", strategy)
    if not isinstance(text, str):
        seed = getattr(strategy, "seed", 0)
        text = next((name for name, make in BASELINES.items() if make(seed) == strategy), None)
    if text is None:
        raise BadParameter(
            f"strategy={strategy!r}; a recipe was expected, since a study stores its strategy as "
            "text and never as code. Write 'dev/spread/first-order/sequential-curvature', say."
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
            f"strategy={made.text!r} has the dev goal and dev=0; a share of rows for the dev set "
            "was expected. Pass dev=0.2, say."
        )
    return made.text


def try_strategy(settings: Settings) -> None:
    """Raise where the strategy cannot rank rows for answers of the study's kind: on a few, it is tried."""
    if settings.kind == "class" or settings.strategy == "auto":
        return
    X = np.random.default_rng(0).normal(size=(24, 2))
    answer, names = settings.answer, settings.classes
    y = answer.targets([answer.example(place) for place in range(12)], names)
    fitted = settings.fitter(names).fit(X[:12], y)
    made = recipe(settings.strategy)
    given: dict[str, Any] = {"dev": (X[:12], y), "pool": X}
    data = {name: value for name, value in given.items() if name in made.needs}
    made.build(**data, seed=settings.seed).turn(fitted, 12).suggest(fitted, X[12:], batch=1)
