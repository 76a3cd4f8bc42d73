"""Tables of the documentation that scripts write, and a bar while they work."""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.progress import track

Item = TypeVar("Item")

DOCS = Path(__file__).parents[1] / "docs"


def write_table(page: str, script: str, table: str, summary: str | None = None) -> None:
    """Write a table beside a page, as CSV, and the part of it that the page shows.

    The page shows it between the comment that names the script and the one that ends it: the lines
    that begin with `summary`, or none if that is None.
    """
    path, begin, end = (
        DOCS / page,
        f"<!-- table: benchmarks/{script}.py -->",
        "<!-- end of table -->",
    )
    path.with_suffix(".csv").write_text(as_csv(table), "utf-8")
    if summary is None:
        return
    text = path.read_text("utf-8")
    if begin not in text:
        raise SystemExit(f"{path} has no line {begin}. Add it, and {end} after it.")
    head, rest = text.split(begin)
    lines = table.splitlines()
    shown = "\n".join([*lines[:2], *(line for line in lines[2:] if line.startswith(summary))])
    path.write_text(f"{head}{begin}\n\n{shown}\n\n{end}{rest.split(end)[1]}", "utf-8")


def as_csv(table: str) -> str:
    """Return a table in Markdown as CSV, without bold type and the line below its names."""
    text = io.StringIO()
    lines = [line.strip() for line in table.splitlines() if not line.startswith("|---")]
    rows = (re.split(r"(?<!\\)\|", line.replace("**", ""))[1:-1] for line in lines)
    cells = ([cell.strip().replace("\\|", "|") for cell in row] for row in rows)
    csv.writer(text, lineterminator="\n").writerows(cells)
    return text.getvalue()


def tracked(items: Sequence[Item], words: str) -> Iterable[Item]:
    """Yield items, with a progress bar on the terminal."""
    return track(items, words, console=Console(stderr=True))
