"""Label efficiency: strategies on many datasets, every label charged."""

from goalward.lab.efficiency.benchmark import benchmark
from goalward.lab.efficiency.entries import ENTRIES, Entry
from goalward.lab.efficiency.play import Protocol, play
from goalward.lab.efficiency.results import Results

__all__ = ["ENTRIES", "Entry", "Protocol", "Results", "benchmark", "play"]
