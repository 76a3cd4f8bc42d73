"""The words that stand for utilities, in recipes and wherever an object may stand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from goalward.core.place import in_place
from goalward.errors import BadParameter
from goalward.solvers import GradientStep
from goalward.utility.covering import Covering
from goalward.utility.first_order import FirstOrder
from goalward.utility.implicit_step import ImplicitStep
from goalward.utility.information import Information
from goalward.utility.ladder import Ladder
from goalward.utility.retrain import Retrain
from goalward.utility.utility import Utility

__all__ = ["UTILITIES", "UtilityWord", "as_utility"]

UtilityWord: TypeAlias = Literal[
    "first-order",
    "implicit",
    "gradient-step",
    "information",
    "covering",
    "implicit-exact",
    "corrected",
    "corrected-3",
    "retrain",
    "auto",
    "ladder",
]
UTILITIES: dict[str, Callable[[], Utility]] = {
    "first-order": FirstOrder,
    "implicit": ImplicitStep,
    "gradient-step": lambda: FirstOrder(solver=GradientStep()),
    "information": Information,
    "covering": Covering,
    "implicit-exact": lambda: ImplicitStep(exact_goal=True),
    "corrected": lambda: ImplicitStep(corrections=1),
    "corrected-3": lambda: ImplicitStep(corrections=3),
    "retrain": Retrain,
    "auto": lambda: Ladder(rows=20, certain=False),
    "ladder": Ladder,
}


def as_utility(utility: str | Utility) -> Utility:
    """Return the utility that a word stands for; one that is there already as it is."""
    if not isinstance(utility, str):
        in_place(utility, "utility", "gw.utility.ImplicitStep()", "bound")
        return utility
    if utility not in UTILITIES:
        raise BadParameter(
            f"utility={utility!r}; one of {', '.join(sorted(UTILITIES))}, or an object, was expected."
        )
    return UTILITIES[utility]()
