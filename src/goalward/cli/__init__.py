"""The command line: `goalward` and `python -m goalward`."""

from goalward.cli.app import app, main
from goalward.cli.doctor import doctor
from goalward.cli.experiments import bench, reproduce, simulate
from goalward.cli.label import label
from goalward.cli.label_studio import label_studio
from goalward.cli.studies import ask, export, import_labels, status, tell

__all__ = [
    "app",
    "ask",
    "bench",
    "doctor",
    "export",
    "import_labels",
    "label",
    "label_studio",
    "main",
    "reproduce",
    "simulate",
    "status",
    "tell",
]
