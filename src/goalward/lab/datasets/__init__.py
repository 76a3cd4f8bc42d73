"""The data of the experiments: tasks with paired splits."""

from goalward.lab.datasets.dataset import Dataset, Split, Stratified, Thinned, with_dev
from goalward.lab.datasets.load import DATASETS, as_dataset, from_arrays, from_file, load
from goalward.lab.datasets.tables import breast_cancer, digits, digits_3v8, letter, synth2, wine
from goalward.lab.datasets.text import rt_polarity, sentences

__all__ = [
    "DATASETS",
    "Dataset",
    "Split",
    "Stratified",
    "Thinned",
    "as_dataset",
    "breast_cancer",
    "digits",
    "digits_3v8",
    "from_arrays",
    "from_file",
    "letter",
    "load",
    "rt_polarity",
    "sentences",
    "synth2",
    "wine",
    "with_dev",
]
