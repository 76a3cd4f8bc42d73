"""Label efficiency: strategies on many datasets, every label charged from zero."""

from goalward.lab.benchmark.areas import Areas
from goalward.lab.benchmark.sessions import (
    PARTS,
    PROTOCOLS,
    Part,
    Protocol,
    benchmark,
    play,
    play_all,
)

__all__ = ["PARTS", "PROTOCOLS", "Areas", "Part", "Protocol", "benchmark", "play", "play_all"]
