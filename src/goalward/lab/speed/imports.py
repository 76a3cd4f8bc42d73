"""What it costs to begin: a first use and `goalward --help`, in processes of their own."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

from goalward.lab.speed.race import Ratio, race

__all__ = ["imports"]

PEER = ("-c", "import sklearn.linear_model")
STARTS = {
    "first use: gw.Logistic, gw.GoalOriented": (
        ("-c", "import goalward as gw; gw.Logistic, gw.GoalOriented"),
        "<= 1.6",
    ),
    "goalward --help": (("-m", "goalward", "--help"), "<= 0.5"),
}
"""What is begun, the arguments of Python that do it, and what is asked."""


def imports(quick: bool) -> list[Ratio]:
    """Return the seconds from Python's start to a first use, over those of scikit-learn's models."""
    results = []
    for what, (arguments, target) in STARTS.items():
        ours, _, theirs, _ = race(partial(_run, arguments), partial(_run, PEER), 1 if quick else 9)
        results.append(Ratio(what, "python -c 'import sklearn.linear_model'", ours, theirs, target))
    return results


def _run(arguments: tuple[str, ...]) -> None:
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
