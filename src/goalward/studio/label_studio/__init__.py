"""A Label Studio project kept in step with a study: tasks, annotations, predictions, columns."""

from goalward.studio.label_studio.backend import backend_app
from goalward.studio.label_studio.bridge import Bridge, Synced
from goalward.studio.label_studio.client import Client
from goalward.studio.label_studio.config import LabelConfig
from goalward.studio.label_studio.tasks import create_study

__all__ = ["Bridge", "Client", "LabelConfig", "Synced", "backend_app", "create_study"]
