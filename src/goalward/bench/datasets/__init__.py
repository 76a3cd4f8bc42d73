"""The data of the experiments: tasks with paired splits."""

from goalward.bench.datasets.bundled import breast_cancer, digits, digits_3v8, wine
from goalward.bench.datasets.dataset import Dataset, Split, stratified

__all__ = ["Dataset", "Split", "breast_cancer", "digits", "digits_3v8", "stratified", "wine"]
