"""Models and loops of other libraries."""

from importlib import import_module
from typing import Any

from goalward.adapters.one_call import modal_query, suggest
from goalward.adapters.sklearn import LogisticClassifier, from_classifier, from_sklearn
from goalward.adapters.torch import from_torch
from goalward.adapters.training import from_training

__all__ = [
    "LogisticClassifier",
    "from_classifier",
    "from_sklearn",
    "from_torch",
    "from_training",
    "modal_query",
    "suggest",
]


def __getattr__(name: str) -> Any:
    """Return `goalward.adapters.skactiveml` when it is asked for: it imports scikit-activeml."""
    if name == "skactiveml":
        return import_module("goalward.adapters.skactiveml")
    raise AttributeError(f"module 'goalward.adapters' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), "skactiveml"])
