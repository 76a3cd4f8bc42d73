"""Speed against peers and limits, as ratios measured in one run."""

from collections.abc import Callable

from goalward.lab.speed.gpu import gpu
from goalward.lab.speed.limits import out_of_core, predicting, scoring, suggesting, turns
from goalward.lab.speed.page import page
from goalward.lab.speed.queries import against_error_reduction, against_margin, imports
from goalward.lab.speed.race import Ratio
from goalward.lab.speed.retraining import retraining, stepping

__all__ = ["PARTS", "Ratio"]

PARTS: dict[str, Callable[[bool], list[Ratio]]] = {
    "query": against_margin,
    "eer": against_error_reduction,
    "scoring": scoring,
    "suggest": suggesting,
    "turns": turns,
    "disk": out_of_core,
    "predict": predicting,
    "retrain": retraining,
    "implicit": stepping,
    "page": page,
    "imports": imports,
    "gpu": gpu,
}
"""Name -> what measures it, given whether a quick look is enough."""
