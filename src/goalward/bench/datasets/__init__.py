"""The data of the experiments: tasks with paired splits."""

from goalward.bench.datasets.bundled import breast_cancer, digits, digits_3v8, wine
from goalward.bench.datasets.dataset import Apart, Dataset, Split, Stratified, Thinned
from goalward.bench.datasets.files import from_file
from goalward.bench.datasets.letter import letter
from goalward.bench.datasets.load import DATASETS, load
from goalward.bench.datasets.rt_polarity import rt_polarity, sentences
from goalward.bench.datasets.synth2 import synth2

__all__ = [
    "DATASETS",
    "Apart",
    "Dataset",
    "Split",
    "Stratified",
    "Thinned",
    "breast_cancer",
    "digits",
    "digits_3v8",
    "from_file",
    "letter",
    "load",
    "rt_polarity",
    "sentences",
    "synth2",
    "wine",
]
