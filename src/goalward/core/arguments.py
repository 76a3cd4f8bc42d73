"""Arguments of the wrong kind, and packages that are missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import Any

from goalward.errors import BadParameter, MissingExtra


def check_count(name: str, value: Any) -> None:
    """Raise unless a parameter is a whole number of at least 1."""
    if type(value) is bool or not isinstance(value, Integral) or int(value) < 1:
        raise BadParameter(
            f"{name}={value!r}; a whole number of at least 1 was expected. Use {name}=10, say."
        )


LEARNERS = ("models.logistic", "models.multi_label", "models.ridge")
ROOMS = {
    "goals": "a goal, which goes into gw.GoalOriented(goal)",
    "labels.operators": "an operator, operator= of gw.GoalOriented",
    "labels": "a belief, which goes into an operator such as gw.labels.Expected(belief)",
    "utility": "a utility, utility= of gw.GoalOriented",
    "strategies.selectors": "a selector, selection= of gw.GoalOriented",
    "solvers": "a solver, solver= of a utility",
    "strategies": "a strategy: strategy.suggest(fitted, X_pool), or strategy= of gw.suggest",
    **dict.fromkeys(LEARNERS, "a learner, which learner.fit(X, y) makes a model of"),
    "models": "a fitted model, which goes where `fitted` stands",
    "studio.study": "a study, whose model is study.model and whose next rows are study.ask(10)",
}
"""What the things of a package are, and where they go."""


def described(value: Any) -> str:
    """Return what a thing is: its type, and of our own things where they go."""
    if isinstance(value, str):
        return repr(value)
    if isinstance(value, type):
        return f"the class {value.__name__}, and an object is made by {value.__name__}(...)"
    room, name = room_of(value), type(value).__name__
    return f"{name}, {ROOMS[room]}" if room else name


def room_of(value: Any) -> str:
    """Return the package that a thing of ours is from; nothing of others."""
    _, _, inside = f"{type(value).__module__}.".partition("goalward.")
    return next((room for room in ROOMS if inside.startswith(f"{room}.")), "")


def in_place(value: Any, name: str, example: str, has: str, lacks: str = "") -> None:
    """Raise unless a thing can stand at a place: it is no class, and has what it is asked for there."""
    fits = hasattr(value, has) and not (lacks and hasattr(value, lacks))
    if isinstance(value, type) or not fits:
        raise BadParameter(f"{name} is {described(value)}; {example} was expected, say.")


EXTRAS = {
    **dict.fromkeys(
        ("fastexcel", "matplotlib", "platformdirs", "polars", "rpds", "sqlalchemy"),
        "app",
    ),
    **dict.fromkeys(("fastapi", "httpx", "jinja2", "starlette", "uvicorn"), "web"),
    **dict.fromkeys(("anywidget", "traitlets"), "notebook"),
    "distributed": "dask",
    "skactiveml": "skactiveml",
    "torch": "torch",
    "PIL": "app",
    "charset_normalizer": "app",
    "sentence_transformers": "vision",
}
"""The extra by the name that is imported."""


@contextmanager
def needing(what: str) -> Iterator[None]:
    """Say what to install where an import of this block finds a package missing.

    >>> with needing("A study"):
    ...     import sqlalchemy
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        raise MissingExtra(
            f"{what} needs {package}, which is not installed. Run "
            f'`pip install "goalward[{EXTRAS[package]}]"`.'
        ) from error
