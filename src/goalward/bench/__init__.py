"""Experiments: data, simulated labelling, speed."""

from goalward.bench.loop import Round, rounds

__all__ = ["Round", "rounds"]
