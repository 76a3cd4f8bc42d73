"""A Label Studio project kept in step with a study: tasks, annotations, predictions."""

from goalward.studio.label_studio.bridge import Bridge, Synced, create_study
from goalward.studio.label_studio.client import Client
from goalward.studio.label_studio.config import LabelConfig

__all__ = ["Bridge", "Client", "LabelConfig", "Synced", "create_study"]
