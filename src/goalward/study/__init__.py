"""Ask and tell over a durable journal."""

from goalward.core.extras import needing

with needing("A study"):
    from goalward.study.advice import Advice
    from goalward.study.exchange import Imported
    from goalward.study.fold import advance
    from goalward.study.from_frame import annotate
    from goalward.study.model import Predictions, StudyModel, load_model
    from goalward.study.settings import Settings
    from goalward.study.state import State
    from goalward.study.study import Study
    from goalward.study.why import Why

__all__ = [
    "Advice",
    "Imported",
    "Predictions",
    "Settings",
    "State",
    "Study",
    "StudyModel",
    "Why",
    "advance",
    "annotate",
    "load_model",
]
