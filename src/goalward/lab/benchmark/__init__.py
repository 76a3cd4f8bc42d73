"""Label efficiency: strategies on many datasets, every label charged."""

from goalward.lab.benchmark.areas import Areas
from goalward.lab.benchmark.entries import ENTRIES, Entry
from goalward.lab.benchmark.sessions import Protocol, benchmark, play

__all__ = ["ENTRIES", "Areas", "Entry", "Protocol", "benchmark", "play"]
