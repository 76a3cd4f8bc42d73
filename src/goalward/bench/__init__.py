"""Experiments: data, simulated labelling, speed."""

from goalward.bench import datasets
from goalward.bench.curves import Curves
from goalward.bench.loop import Round, rounds
from goalward.bench.replay import replay, replay_simulation
from goalward.bench.simulate import simulate
from goalward.bench.stops import stops, stops_summary

__all__ = [
    "Curves",
    "Round",
    "datasets",
    "replay",
    "replay_simulation",
    "rounds",
    "simulate",
    "stops",
    "stops_summary",
]
