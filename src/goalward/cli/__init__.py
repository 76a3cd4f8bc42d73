"""The command line: `goalward` and `python -m goalward`."""

from goalward.cli.app import app, main
from goalward.cli.bench import bench
from goalward.cli.benchmark import benchmark
from goalward.cli.copies import backup, recover, restore, upgrade
from goalward.cli.doctor import doctor
from goalward.cli.experiments import reproduce, simulate
from goalward.cli.label import label
from goalward.cli.label_studio import label_studio
from goalward.cli.rank import rank
from goalward.cli.replay import replay
from goalward.cli.studies import ask, export, import_labels, status, tell

__all__ = [
    "app",
    "ask",
    "backup",
    "bench",
    "benchmark",
    "doctor",
    "export",
    "import_labels",
    "label",
    "label_studio",
    "main",
    "rank",
    "recover",
    "replay",
    "reproduce",
    "restore",
    "simulate",
    "status",
    "tell",
    "upgrade",
]
