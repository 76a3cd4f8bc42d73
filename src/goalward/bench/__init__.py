"""Experiments: data, simulated labelling, label efficiency, speed."""

from goalward.bench import datasets
from goalward.bench.audit import audit
from goalward.bench.curves import Curves
from goalward.bench.efficiency import benchmark
from goalward.bench.loop import Round, rounds
from goalward.bench.overfitting import overfitting
from goalward.bench.replay import replay, replay_simulation
from goalward.bench.simulate import simulate
from goalward.bench.stops import stops, stops_summary

__all__ = [
    "Curves",
    "Round",
    "audit",
    "benchmark",
    "datasets",
    "overfitting",
    "replay",
    "replay_simulation",
    "rounds",
    "simulate",
    "stops",
    "stops_summary",
]
