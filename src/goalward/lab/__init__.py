"""What measures us: data, simulated labelling, label efficiency, speed."""

from goalward.core.extras import needing

with needing("The lab"):
    from goalward.lab import datasets
    from goalward.lab.benchmark import benchmark
    from goalward.lab.curves import Curves
    from goalward.lab.replay import replay, replay_simulation
    from goalward.lab.session import Session
    from goalward.lab.simulate import Measured, rounds, simulate
    from goalward.lab.stops import stops, stops_summary

__all__ = [
    "Curves",
    "Measured",
    "Session",
    "benchmark",
    "datasets",
    "replay",
    "replay_simulation",
    "rounds",
    "simulate",
    "stops",
    "stops_summary",
]
