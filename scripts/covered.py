"""What semantic versioning covers: `python scripts/covered.py` writes docs/versions.csv.

A name that leaves the list is a breaking change; a test holds the list to the code.
"""

import csv
from collections.abc import Iterable, Iterator
from importlib import import_module
from operator import attrgetter
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs/versions.csv"
ROOMS = ["adapters", "goals", "lab", "labels", "models", "models.features", "scale"]
ROOMS += ["selection", "solvers", "strategies", "tables", "testing", "utility"]


def covered() -> Iterator[tuple[str, str]]:
    """Return each kind of name, and the names."""
    import goalward as gw
    from goalward.cli import app
    from goalward.errors import GoalwardError, GoalwardWarning
    from goalward.strategies import recipes
    from goalward.strategies.strategy import WORDS

    def names(found: Iterable[str]) -> str:
        return ", ".join(f"`{name}`" for name in sorted(set(found)))

    yield "`goalward`", names([*gw.__all__, *gw.WITH_APP])
    for room in ROOMS:
        yield f"`goalward.{room}`", names(attrgetter(room)(gw).__all__)
    errors = vars(import_module("goalward.errors")).items()
    kinds = (GoalwardError, GoalwardWarning)
    yield (
        "`goalward.errors`",
        names(name for name, kind in errors if isinstance(kind, type) and issubclass(kind, kinds)),
    )
    yield "strategies of recipes", names([*recipes.PRESETS, *WORDS, "auto"])
    yield "goals of recipes", names(recipes.GOALS)
    yield "operators of recipes", names(recipes.OPERATORS)
    yield "utilities of recipes", names(recipes.UTILITIES)
    yield "selections of recipes", names(recipes.SELECTIONS)
    commands = [command.name or command.callback.__name__ for command in app.registered_commands]
    yield "commands", names([*commands, *(group.name for group in app.registered_groups)])
    yield "formats", "study 1, team 1, model folder 1; HTTP: [routes](http.md)"


if __name__ == "__main__":
    with PAGE.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([("what", "covered"), *covered()])
