"""Speed against peers and limits, as ratios measured in one run."""

from goalward.bench.speed.gpu import gpu
from goalward.bench.speed.growth import Growth, growth, picture
from goalward.bench.speed.limits import directions, out_of_core, scoring
from goalward.bench.speed.page import page
from goalward.bench.speed.queries import against_error_reduction, against_margin
from goalward.bench.speed.race import Ratio
from goalward.bench.speed.retraining import implicit, retraining, windows

__all__ = [
    "Growth",
    "Ratio",
    "against_error_reduction",
    "against_margin",
    "directions",
    "gpu",
    "growth",
    "implicit",
    "out_of_core",
    "page",
    "picture",
    "retraining",
    "scoring",
    "windows",
]
