"""The application that commands add themselves to, and how it speaks."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from importlib import metadata
from typing import Annotated, Any

import polars as pl
import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from goalward.cli.console import Terminal, console, visible
from goalward.core.extras import needing
from goalward.errors import GoalwardError, GoalwardWarning

__all__ = [
    "AsJson",
    "Force",
    "Spinner",
    "app",
    "console",
    "main",
    "show",
    "version_first",
    "warned",
]

app = typer.Typer(
    no_args_is_help=True,
    invoke_without_command=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="Goal-oriented active learning: the best model from the fewest labels.",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def version_first(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)
    ] = False,
) -> None:
    """Goal-oriented active learning: the best model from the fewest labels."""
    if version:
        typer.echo(f"goalward {metadata.version('goalward')}")
        raise typer.Exit


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that is there.")]


def main() -> None:
    """Run the command line; an error or warning on purpose is a message, not a traceback."""
    warnings.showwarning = partial(warned, otherwise=warnings.showwarning)
    try:
        with needing("This command"):
            app()
    except GoalwardError as error:
        Terminal(stderr=True).print(
            Text("Error:", "bold red"), str(error), highlight=False, soft_wrap=True
        )
        raise SystemExit(1) from None


def warned(
    message: Warning | str, category: type[Warning], *where: Any, otherwise: Callable[..., Any]
) -> None:
    """Print a warning of ours as a message, and leave others as they are."""
    if issubclass(category, GoalwardWarning):
        Terminal(stderr=True).print(
            Text("Warning:", "bold yellow"), str(message), highlight=False, soft_wrap=True
        )
    else:
        otherwise(message, category, *where)


class Spinner:
    """A spinner on the terminal; what it returns says what is being done."""

    def __init__(self) -> None:
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


def show(title: str, table: pl.DataFrame) -> None:
    """Print a table on the terminal."""
    shown = Table(title=title, title_justify="left")
    for name, kind in table.schema.items():
        shown.add_column(name.replace("_", " "), justify="right" if kind.is_numeric() else "left")
    for row in table.iter_rows():
        shown.add_row(*(_text(value) for value in row))
    console.print(shown)


def _text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.4g}"
    return str(value)
