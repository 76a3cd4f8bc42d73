"""Output of commands, in which no row, name or message can control the terminal."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    import polars as pl

LONGEST = 4000  # characters of a row that are shown


class Terminal(Console):
    """A console for untrusted text: no markup, no emoji codes, nothing that moves the cursor."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False, highlight=False)

    def render_str(self, text: str, **look: Any) -> Text:
        """Return a text as it is printed; cells, titles and messages all come through here."""
        return super().render_str(visible(text), **look)


console = Terminal()


def visible(text: str, *, longest: int | None = None) -> str:
    """Return a text that cannot steer the terminal: controls and direction marks as escapes."""
    if longest is not None and len(text) > longest:
        text = f"{text[:longest]}... ({len(text):,} characters)"
    return "".join(
        c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text
    )


def in_json(data: Any) -> str:
    """Return data as JSON; NaN and infinite numbers, which it does not have, are null."""
    return json.dumps(_finite(data), allow_nan=False, default=str)


def reply(words: str | Callable[[], None], data: Any, *, as_json: bool) -> None:
    """Print a result: for people, or as data for a program."""
    if as_json:
        print(in_json(data))
    elif isinstance(words, str):
        console.print(words, soft_wrap=True)
    else:
        words()


def _finite(data: Any) -> Any:
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, dict):
        return {name: _finite(value) for name, value in data.items()}
    return [_finite(value) for value in data] if isinstance(data, (list, tuple)) else data


@contextmanager
def spinner(message: str = "starting") -> Iterator[Callable[[str], None]]:
    """Show a spinner with a message, and yield a function that changes the message."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    words = TextColumn("{task.description}", markup=False)
    columns, err = (SpinnerColumn(), words, TimeElapsedColumn()), Terminal(stderr=True)
    with Progress(*columns, console=err, transient=True) as progress:
        task = progress.add_task(visible(message))
        yield lambda text: progress.update(task, description=visible(text))


def show(title: str, table: pl.DataFrame | list[dict[str, Any]]) -> None:
    """Print a table on the terminal."""
    import polars as pl
    from rich.table import Table

    frame = pl.DataFrame(table, infer_schema_length=None)
    printed = Table(title=title, title_justify="left")
    for name, kind in frame.schema.items():
        printed.add_column(name.replace("_", " "), justify="right" if kind.is_numeric() else "left")
    for row in frame.iter_rows():
        printed.add_row(*(_cell(value) for value in row))
    console.print(printed)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.4g}"
    return str(value)


def row_text(row: dict[str, Any]) -> str:
    """Return the text of a row, as `Study.show` gives it."""
    text = row.get("text") or row.get("image") or in_json(row["columns"])
    return visible(str(text), longest=LONGEST)
