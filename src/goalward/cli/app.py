"""The application that commands add themselves to, and the options that several of them take."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib import metadata
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from goalward.cli.console import Terminal, reply
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

FIRST = ("label", "status", "predict", "export", "import", "rank")
"""Shown first by `goalward --help`, in this order."""
MORE = "More commands"

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that is there.")]

Result = tuple[str | Callable[[], None], Any]  # text, or a function that prints it; data
Command = TypeVar("Command", bound=Callable[..., Any])


def command(name: str | None = None, group: typer.Typer = app) -> Callable[[Command], Command]:
    """Add a command that returns a `Result` or yields several, printed as text or with --json."""

    def add(function: Command) -> Command:
        hints = get_type_hints(function, include_extras=True)
        options = hints.get("options")

        def run(*, as_json: bool = False, **given: Any) -> None:
            result = function(options(**given)) if options else function(**given)
            results = result if isinstance(result, Iterator) else filter(None, [result])
            for words, data in results:
                reply(words, data, as_json=as_json)

        # A field's type is read where its class was written, which may be another file.
        kinds = get_type_hints(options, include_extras=True) if options else hints
        parameters = inspect.signature(options or function).parameters.items()
        fields = [field.replace(annotation=kinds[name]) for name, field in parameters]
        if hints["return"] is not type(None):
            kind = inspect.Parameter.KEYWORD_ONLY
            fields.append(inspect.Parameter("as_json", kind, default=False, annotation=AsJson))
        run.__signature__ = inspect.Signature(fields)  # type: ignore[attr-defined]
        run.__name__, run.__doc__ = function.__name__, function.__doc__
        called = name or function.__name__
        panel = None if group is not app or called in FIRST else MORE
        group.command(called, rich_help_panel=panel)(run)
        known = group.registered_commands
        known.sort(key=lambda one: FIRST.index(one.name) if one.name in FIRST else len(FIRST))
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
