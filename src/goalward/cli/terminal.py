"""Labelling in a terminal: one row, one line of answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from goalward.cli.console import Spinner, console, row_text, visible
from goalward.errors import GoalwardError

if TYPE_CHECKING:
    from goalward.study import Study

__all__ = ["answer"]

HELP = "number or name: answer · s skip · u undo · n TEXT note · w why · ? help · q quit"


def answer(study: Study, by: str) -> int:
    """Ask rows until there are none or the person leaves; return how many were answered."""
    answered = 0
    console.print(HELP, style="dim")
    while True:
        with Spinner() as tick:
            tick("choosing the next row")
            rows = study.ask(1, by=by, resume=True, at_most=True)
        if not rows:
            console.print("Nothing is left to ask.")
            break
        row = rows[0]
        _show(study, row)
        line = _line(study)
        if line is None:
            break
        try:
            answered += _take(study, row, line, by)
        except GoalwardError as error:
            console.print(str(error), style="red")
    total = len(study.state.labels)
    console.print(f"{answered} answered now, {total} labels in {study.url}")
    return answered


def _take(study: Study, row: int, line: str, by: str) -> int:
    """Do what a line says; return 1 for an answer, -1 for one taken back."""
    word, _, rest = line.partition(" ")
    classes = study.state.classes
    names = {str(label): label for label in classes}
    if line in names:
        study.tell(row, names[line], by=by)
        return 1
    if line.isdecimal() and 1 <= int(line) <= len(classes):
        study.tell(row, classes[int(line) - 1], by=by)
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
        _explain(study, row)
    else:
        console.print(HELP, style="dim")
    return 0


def _show(study: Study, row: int) -> None:
    from rich.panel import Panel
    from rich.text import Text

    cells = study.show(row)
    columns = {name: cell for name, cell in cells["columns"].items() if cell not in (None, "")}
    body = row_text(cells | {"columns": columns})
    answers = "  ".join(f"{i}: {label}" for i, label in enumerate(study.state.classes, start=1))
    # A panel reads markup in its title where that is not a Text.
    below = Text(visible(answers))
    console.print(Panel(body, title=f"row {row}", subtitle=below))


def _line(study: Study) -> str | None:
    try:
        line = str(typer.prompt(f"{len(study.state.labels)} labels", prompt_suffix=" > ")).strip()
    except (typer.Abort, EOFError):
        return None
    return None if line == "q" else line


def _explain(study: Study, row: int) -> None:
    why = study.why(row)
    for label, change in why.utility.items():
        console.print(
            f"{label}: probability {why.proba[label]:.2f}, would move the goal by {change:+.3g}"
        )
