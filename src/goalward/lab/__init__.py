"""Experiments: datasets, simulated labelling, label efficiency, the paper."""

from goalward.core.arguments import needing

with needing("The lab"):
    from goalward.lab import datasets
    from goalward.lab.benchmark import benchmark
    from goalward.lab.curves import Curves
    from goalward.lab.session import Session
    from goalward.lab.simulate import Measured, rounds, simulate

__all__ = ["Curves", "Measured", "Session", "benchmark", "datasets", "rounds", "simulate"]
