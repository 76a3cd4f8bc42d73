"""Goal-oriented active learning: the best model from the fewest labels.

Say what should get better, a *goal* of your model, and goalward says which unlabelled rows
are worth a label, by predicting what each label would do to the goal without retraining.

    gw.suggest(model, X_labelled, y_labelled, X_pool).rows   # any scikit-learn classifier, or None

    fitted = gw.Logistic().fit(X, y)
    goal = gw.goals.DevLoss(X_dev, y_dev)
    gw.GoalOriented(goal).suggest(fitted, X_pool, batch=10).rows

Rooms are imported when they are first used: `import goalward` itself loads nothing else.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from goalward import (
        adapters,
        errors,
        goals,
        labels,
        scale,
        solvers,
        strategies,
        testing,
        utility,
    )
    from goalward import lab as lab
    from goalward.adapters.one_call import suggest
    from goalward.adapters.sklearn import LogisticClassifier
    from goalward.lab import plots as plots
    from goalward.labels.opinion import Opinion
    from goalward.models import Fitted
    from goalward.models.logistic import Logistic
    from goalward.models.multi_label import MultiLabel
    from goalward.models.ridge import Ridge
    from goalward.strategies import GoalOriented, recipe
    from goalward.strategies import selectors as selection
    from goalward.studio import stopping as stopping
    from goalward.studio import tables as tables
    from goalward.studio.notebook import annotate as annotate
    from goalward.studio.study import Study as Study
    from goalward.studio.study import load_model as load_model
    from goalward.utility import relabel

__all__ = [
    "Fitted",
    "GoalOriented",
    "Logistic",
    "LogisticClassifier",
    "MultiLabel",
    "Opinion",
    "Ridge",
    "adapters",
    "errors",
    "goals",
    "labels",
    "recipe",
    "relabel",
    "scale",
    "selection",
    "solvers",
    "stopping",
    "strategies",
    "suggest",
    "testing",
    "utility",
]

__version__: str

ROOMS = {
    "adapters": ("LogisticClassifier", "suggest"),
    "labels": ("Opinion",),
    "models": ("Fitted", "Logistic", "MultiLabel", "Ridge"),
    "strategies": ("GoalOriented", "recipe"),
    "studio.notebook": ("annotate",),
    "studio.study": ("Study", "load_model"),
    "utility": ("relabel",),
}
HOMES = {name: room for room, names in ROOMS.items() for name in names}

MODULES = {
    "plots": "lab.plots",
    "selection": "strategies.selectors",
    "stopping": "studio.stopping",
    "tables": "studio.tables",
}

WITH_APP = ["Study", "annotate", "lab", "load_model", "plots", "tables"]  # need goalward[app]

if not TYPE_CHECKING:  # a checker would take every misspelt name for one that is loaded later

    def __getattr__(name):
        from importlib import import_module, metadata

        if name == "__version__":
            value = metadata.version("goalward")
        elif name in HOMES:
            value = getattr(import_module(f"goalward.{HOMES[name]}"), name)
        elif name in __all__ or name in WITH_APP:
            value = import_module(f"goalward.{MODULES.get(name, name)}")
        else:
            raise AttributeError(f"module 'goalward' has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted([*__all__, *WITH_APP, "__version__"])
