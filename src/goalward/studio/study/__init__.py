"""Ask and tell over a durable journal."""

from goalward.core.arguments import needing

with needing("A study"):
    from goalward.studio.study.advice import Advice
    from goalward.studio.study.exchange import Imported
    from goalward.studio.study.model_file import Predictions, StudyModel, load_model
    from goalward.studio.study.settings import Settings
    from goalward.studio.study.state import State
    from goalward.studio.study.study import Study
    from goalward.studio.study.why import Why

__all__ = [
    "Advice",
    "Imported",
    "Predictions",
    "Settings",
    "State",
    "Study",
    "StudyModel",
    "Why",
    "load_model",
]
