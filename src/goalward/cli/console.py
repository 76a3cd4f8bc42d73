"""How commands speak: texts as they are, so that no row, name or message steers the terminal."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    import polars as pl


LONGEST = 4000
"""Characters of a row that are shown."""


class Terminal(Console):
    """A console for texts of others: no markup, no emoji codes, nothing that moves the cursor.

    What should look special says so: `style=`, or a `Text` of `visible` words.
    """

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


def reply(words: str, data: Any, *, as_json: bool) -> None:
    """Print a command's result: in words, or as data for a program."""
    if as_json:
        print(in_json(data))
    else:
        console.print(words, soft_wrap=True)


def _finite(data: Any) -> Any:
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, dict):
        return {name: _finite(value) for name, value in data.items()}
    return [_finite(value) for value in data] if isinstance(data, (list, tuple)) else data


class Spinner:
    """A spinner on the terminal; what it is called with says what is being done."""

    def __init__(self) -> None:
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self.progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
            console=Terminal(stderr=True),
            transient=True,
        )
        self.task = self.progress.add_task("starting")

    def __enter__(self) -> Spinner:
        self.progress.start()
        return self

    def __call__(self, message: str) -> None:
        """Say what is being done."""
        self.progress.update(self.task, description=visible(message))

    def __exit__(self, *error: object) -> None:
        self.progress.stop()


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
    """Return what a person reads of a row, as `Study.show` gives it."""
    text = row.get("text") or row.get("image") or in_json(row["columns"])
    return visible(str(text), longest=LONGEST)
