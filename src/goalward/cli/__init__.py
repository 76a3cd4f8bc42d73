"""The command line: `goalward` and `python -m goalward`."""

from goalward.cli.app import app, main
from goalward.cli.bench import bench
from goalward.cli.doctor import doctor
from goalward.cli.experiments import reproduce, simulate
from goalward.cli.rank import rank

__all__ = ["app", "bench", "doctor", "main", "rank", "reproduce", "simulate"]
