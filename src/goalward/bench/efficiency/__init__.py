"""Label efficiency: strategies on many datasets, every label charged."""

from goalward.bench.efficiency.benchmark import benchmark
from goalward.bench.efficiency.entries import ENTRIES, Entry
from goalward.bench.efficiency.play import Protocol, play
from goalward.bench.efficiency.results import Results

__all__ = ["ENTRIES", "Entry", "Protocol", "Results", "benchmark", "play"]
