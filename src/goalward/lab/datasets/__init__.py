"""The data of the experiments: tasks with paired splits."""

from goalward.lab.datasets.dataset import Dataset, Split, Stratified, Thinned, with_dev
from goalward.lab.datasets.letter import letter
from goalward.lab.datasets.load import (
    DATASETS,
    as_dataset,
    breast_cancer,
    digits,
    digits_3v8,
    from_arrays,
    from_file,
    load,
    wine,
)
from goalward.lab.datasets.rt_polarity import rt_polarity, sentences
from goalward.lab.datasets.synth2 import synth2

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
