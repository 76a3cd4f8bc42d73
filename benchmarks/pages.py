"""Tables of the documentation that scripts write, and a bar while they work."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.progress import track

Item = TypeVar("Item")

DOCS = Path(__file__).parents[1] / "docs"


def write_table(page: str, script: str, table: str) -> None:
    """Put a table into a page, between the comment that names the script and the one that ends it."""
    path, begin, end = (
        DOCS / page,
        f"<!-- table: benchmarks/{script}.py -->",
        "<!-- end of table -->",
    )
    text = path.read_text("utf-8")
    if begin not in text:
        raise SystemExit(f"{path} has no line {begin}. Add it, and {end} after it.")
    head, rest = text.split(begin)
    path.write_text(f"{head}{begin}\n\n{table}\n\n{end}{rest.split(end)[1]}", "utf-8")


def tracked(items: Sequence[Item], words: str) -> Iterable[Item]:
    """Yield items, with a progress bar on the terminal."""
    return track(items, words, console=Console(stderr=True))
