"""The application that commands add themselves to, and the options that several of them take."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from goalward.cli.console import Terminal
from goalward.core.arguments import needing
from goalward.errors import GoalwardError, GoalwardWarning

app = typer.Typer(
    no_args_is_help=True,
    invoke_without_command=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="Goal-oriented active learning: the best model from the fewest labels.",
    context_settings={"help_option_names": ["-h", "--help"]},
)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that is there.")]
Jobs = Annotated[int | None, typer.Option(help="Processes; all cores by default.")]
Out = Annotated[Path, typer.Option(help="Folder for results; a killed run goes on from there.")]

Options = TypeVar("Options")


def command(
    options: type[Options], name: str | None = None
) -> Callable[[Callable[[Options], None]], Callable[[Options], None]]:
    """Add a command that takes its options as one object.

    Parameters
    ----------
    options
        A dataclass. Each field is an option or argument of the command, as a parameter of a
        function would be: `seed: int = typer.Option(0, help="Decides everything random.")`.
    """

    def add(function: Callable[[Options], None]) -> Callable[[Options], None]:
        def run(**given: Any) -> None:
            function(options(**given))

        signature = inspect.signature(options)
        # A field's type is read where its class was written, which may be another file.
        kinds = get_type_hints(options, include_extras=True)
        fields = [one.replace(annotation=kinds[name]) for name, one in signature.parameters.items()]
        run.__signature__ = signature.replace(parameters=fields)  # type: ignore[attr-defined]
        run.__name__, run.__doc__ = function.__name__, function.__doc__
        app.command(name)(run)
        return function

    return add


@app.callback()
def _version(
    version: bool = typer.Option(False, "--version", help="Print the version.", is_eager=True),
) -> None:
    if version:
        typer.echo(f"goalward {metadata.version('goalward')}")
        raise typer.Exit


def main() -> None:
    """Run the command line; an error or warning on purpose is a message, not a traceback."""
    warnings.showwarning = partial(warned, otherwise=warnings.showwarning)
    try:
        with needing("This command"):
            app()
    except GoalwardError as error:
        _announce("Error:", "bold red", error)
        raise SystemExit(1) from None


def warned(
    message: Warning | str, category: type[Warning], *where: Any, otherwise: Callable[..., Any]
) -> None:
    """Print a warning of ours as a message, and leave others as they are."""
    if issubclass(category, GoalwardWarning):
        _announce("Warning:", "bold yellow", message)
    else:
        otherwise(message, category, *where)


def _announce(what: str, style: str, message: object) -> None:
    from rich.text import Text

    Terminal(stderr=True).print(Text(what, style), str(message), soft_wrap=True)
