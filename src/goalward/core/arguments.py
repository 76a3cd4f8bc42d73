"""Checks of arguments and of optional packages."""

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
            f"{name} must be a whole number of at least 1, got {name}={value!r}. Use 10, say."
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
"""Description of the objects of each package, and where to pass them."""


def described(value: Any) -> str:
    """Return the type of a value, and where to pass it if it is a goalward object."""
    if isinstance(value, str):
        return repr(value)
    if isinstance(value, type):
        return f"the class {value.__name__}, and an object is made by {value.__name__}(...)"
    room, name = room_of(value), type(value).__name__
    return f"{name}, {ROOMS[room]}" if room else name


def room_of(value: Any) -> str:
    """Return the goalward package of a value; empty for other values."""
    _, _, inside = f"{type(value).__module__}.".partition("goalward.")
    return next((room for room in ROOMS if inside.startswith(f"{room}.")), "")


def in_place(value: Any, name: str, example: str, has: str, lacks: str = "") -> None:
    """Raise unless a value is an instance, not a class, with `has` and without `lacks`."""
    fits = hasattr(value, has) and not (lacks and hasattr(value, lacks))
    if isinstance(value, type) or not fits:
        raise BadParameter(f"{name} must be like {example}, got {described(value)}.")


EXTRAS = {
    **dict.fromkeys(("PIL", "charset_normalizer", "fastexcel", "matplotlib"), "app"),
    **dict.fromkeys(("platformdirs", "polars", "sqlalchemy", "xlsxwriter"), "app"),
    **dict.fromkeys(("fastapi", "httpx", "jinja2", "starlette", "uvicorn"), "web"),
    **dict.fromkeys(("anywidget", "traitlets"), "notebook"),
    "distributed": "dask",
    "skactiveml": "skactiveml",
    "torch": "torch",
    "sentence_transformers": "vision",
}
"""Extra to install, by the imported name."""


@contextmanager
def needing(what: str) -> Iterator[None]:
    """Name the package to install when an import in this block fails."""
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
