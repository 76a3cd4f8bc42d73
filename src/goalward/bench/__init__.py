"""Experiments: data, simulated labelling, speed."""

from goalward.bench import datasets
from goalward.bench.audit import audit
from goalward.bench.curves import Curves
from goalward.bench.efficiency import benchmark
from goalward.bench.loop import Round, rounds
from goalward.bench.overfitting import overfitting
from goalward.bench.simulate import simulate

__all__ = ["Curves", "Round", "audit", "benchmark", "datasets", "overfitting", "rounds", "simulate"]
