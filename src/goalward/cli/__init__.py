"""The command line: `goalward` and `python -m goalward`."""

from importlib import import_module

from goalward.cli.app import app, main

__all__ = ["app", "main"]

# Each adds its commands, in the order of `goalward --help`.
for name in ("studies", "doctor", "experiments", "label", "label_studio", "rank", "team"):
    import_module(f"goalward.cli.{name}")
