"""The command line: `goalward` and `python -m goalward`."""

from importlib import import_module

from goalward.cli.app import app, main

__all__ = ["app", "main"]

# Each adds its commands, in the order of `goalward --help`; what they need is imported when they run.
for name in (
    *("benchmark", "studies", "doctor", "experiments", "label"),
    *("label_studio", "rank", "serve", "team"),
):
    import_module(f"goalward.cli.{name}")
