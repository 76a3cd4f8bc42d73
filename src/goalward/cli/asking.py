"""Labelling in the terminal: a row, a line of the person, and the next row."""

from __future__ import annotations

import typer

import goalward as gw
from goalward.cli.console import Spinner, console, row_text, visible
from goalward.errors import GoalwardError

__all__ = ["ask_here"]

KEYS = "s skip · u undo · n TEXT note · w why · ? help · q quit"


def ask_here(study: gw.Study, by: str) -> None:
    """Ask rows in the terminal until there are none or the person leaves."""
    answered = 0
    console.print(_help(study), style="dim")
    while True:
        with Spinner() as tick:
            tick("choosing the next row")
            rows = study.ask(1, by=by, resume=True, at_most=True)
        if not rows:
            console.print("Nothing is left to ask.")
            break
        _show(study, rows[0])
        try:
            line = typer.prompt(f"{len(study.state.labels)} labels", prompt_suffix=" > ").strip()
        except (typer.Abort, EOFError):
            break
        if line == "q":
            break
        try:
            answered += _take(study, rows[0], line, by)
        except GoalwardError as error:
            console.print(str(error), style="red")
    total = len(study.state.labels)
    console.print(f"{answered} answered now, {total} labels in {study.url}")


def _take(study: gw.Study, row: int, line: str, by: str) -> int:
    """Do what a line says; return 1 for an answer, -1 for one taken back."""
    word, _, rest = line.partition(" ")
    answer = study.state.settings.answer.typed(line, study.state.classes)
    if answer is not None:
        study.tell(row, answer, by=by)
        return 1
    if line == "s":
        study.skip(row, by=by)
    elif line == "u":
        labels = len(study.state.labels)
        back = study.undo(by=by)
        console.print("Nothing to undo." if back is None else f"Row {back} is open again.")
        return len(study.state.labels) - labels
    elif word == "n" and rest.strip():
        study.note(row, rest.strip(), by=by)
    elif line == "w":
        for said in study.why(row).says:
            console.print(said)
    else:
        console.print(_help(study), style="dim")
    return 0


def _help(study: gw.Study) -> str:
    return f"{study.state.settings.answer.typing} · {KEYS}"


def _show(study: gw.Study, row: int) -> None:
    from rich.panel import Panel
    from rich.text import Text

    cells = study.show(row)
    columns = {name: cell for name, cell in cells["columns"].items() if cell not in (None, "")}
    body = row_text(cells | {"columns": columns})
    answers = study.state.settings.answer.offered(study.state.classes)
    # A panel reads markup in its title where that is not a Text.
    below = Text(visible(answers))
    console.print(Panel(body, title=f"row {row}", subtitle=below))
