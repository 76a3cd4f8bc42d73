"""The command line: `goalward` and `python -m goalward`."""

# Each adds its commands to the application; heavy libraries are imported when a command runs.
from goalward.cli import (
    bench,
    benchmark,
    copies,
    doctor,
    experiments,
    label,
    label_studio,
    rank,
    replay,
    studies,
)
from goalward.cli.app import app, main

__all__ = [
    "app",
    "bench",
    "benchmark",
    "copies",
    "doctor",
    "experiments",
    "label",
    "label_studio",
    "main",
    "rank",
    "replay",
    "studies",
]
