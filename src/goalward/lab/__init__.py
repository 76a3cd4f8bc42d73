"""Experiments: data, simulated labelling, label efficiency, speed."""

from goalward.core.extras import needing

with needing("The lab"):
    from goalward.lab import datasets
    from goalward.lab.curves import Curves
    from goalward.lab.efficiency import benchmark
    from goalward.lab.loop import Round, rounds
    from goalward.lab.replay import replay, replay_simulation
    from goalward.lab.simulate import simulate
    from goalward.lab.stops import stops, stops_summary

__all__ = [
    "Curves",
    "Round",
    "benchmark",
    "datasets",
    "replay",
    "replay_simulation",
    "rounds",
    "simulate",
    "stops",
    "stops_summary",
]
