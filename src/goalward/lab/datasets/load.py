"""Datasets by name, for the command line."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from goalward.errors import BadParameter
from goalward.lab.datasets.bundled import breast_cancer, digits, digits_3v8, wine
from goalward.lab.datasets.dataset import Dataset
from goalward.lab.datasets.files import from_file
from goalward.lab.datasets.keel import KEEL, keel
from goalward.lab.datasets.letter import letter
from goalward.lab.datasets.rt_polarity import rt_polarity
from goalward.lab.datasets.synth2 import synth2

__all__ = ["DATASETS", "load"]

DATASETS: dict[str, Callable[[], Dataset]] = {
    "synth2": synth2,
    "letter": letter,
    "rt-polarity": rt_polarity,
    "rt-polarity:minilm": partial(rt_polarity, "minilm"),
    "rt-polarity:smollm2": partial(rt_polarity, "smollm2"),
    "digits": digits,
    "digits-3v8": digits_3v8,
    "breast-cancer": breast_cancer,
    "wine": wine,
    **{name: partial(keel, name) for name in KEEL},
}


def load(name: str, *, label: str = "label", C: float | None = None) -> Dataset:
    """Return a dataset by its name, or a user's table by its path.

    Examples
    --------
    >>> load("digits").X.shape
    (1797, 64)
    """
    if name in DATASETS:
        return DATASETS[name]()
    if Path(name).is_file():
        return from_file(Path(name), label=label, C=1.0 if C is None else C)
    raise BadParameter(
        f"{name!r} is neither a dataset nor a file; one of {', '.join(DATASETS)}, or the path of a "
        ".csv, .parquet or .npz file, was expected. Check the spelling."
    )
