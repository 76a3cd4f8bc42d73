"""Speed against peers and limits, as ratios measured in one run."""

from goalward.lab.speed.gpu import gpu
from goalward.lab.speed.growth import Growth, growth, picture
from goalward.lab.speed.imports import imports
from goalward.lab.speed.limits import directions, out_of_core, scoring
from goalward.lab.speed.page import page
from goalward.lab.speed.queries import against_error_reduction, against_margin
from goalward.lab.speed.race import Ratio
from goalward.lab.speed.retraining import implicit, retraining, windows

__all__ = [
    "Growth",
    "Ratio",
    "against_error_reduction",
    "against_margin",
    "directions",
    "gpu",
    "growth",
    "implicit",
    "imports",
    "out_of_core",
    "page",
    "picture",
    "retraining",
    "scoring",
    "windows",
]
