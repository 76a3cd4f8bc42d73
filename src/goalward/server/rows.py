"""Rows as the page shows them: plain data, cut where it is long, one row or a list of answers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import polars as pl

from goalward.journal.events import Label
from goalward.server.messages import AnswerFilter, RowView
from goalward.study import State, Study
from goalward.study.rounds import ready
from goalward.tables.cells import as_text

__all__ = ["answered_rows", "legible", "own_answers", "preview", "row_name", "row_view"]

LONGEST = 20_000
"""Characters shown before somebody asks for all."""
LONGEST_CELL = 500
MOST_COLUMNS = 40
PAGE = 50
"""Answers on one page of the list."""


def row_view(
    study: Study,
    state: State,
    row: int,
    *,
    whole: bool = False,
    guess: tuple[Label, float] | None = None,
) -> RowView:
    """Return what a page needs of a row; long texts are cut unless `whole`."""
    content = study.show(row)
    text = content.get("text")
    text = None if text is None else legible(str(text))
    utility, ranking = state.questions.get(row, (None, None))
    own = _id_column(content["columns"])
    cells = [(k, v) for k, v in content["columns"].items() if v not in (None, "") and k != own]
    return RowView(
        row=row,
        name=row_name(content),
        text=text if text is None or whole else text[:LONGEST],
        length=0 if text is None else len(text),
        image=_image(content, row),
        columns=[(legible(str(name)[:200]), _cut(str(v))) for name, v in cells[:MOST_COLUMNS]],
        utility=utility,
        ranking=ranking,
        notes=_notes(state, row),
        guess=guess,
    )


def row_name(content: dict[str, Any]) -> str:
    """Return what a person calls a row: by the id its table gives it, so that both agree, or by number."""
    own = _id_column(content["columns"])
    return f"Row {content['row']}" if own is None else _cut(f"{own} {content['columns'][own]}", 60)


def _id_column(columns: dict[str, Any]) -> str | None:
    named = (name for name in columns if name.strip().casefold() == "id")
    return next((name for name in named if columns[name] not in (None, "")), None)


def preview(content: dict[str, Any], longest: int = 160) -> str:
    """Return a line that stands for a row, of what `Study.show` gives of it."""
    said = content.get("text") or content.get("image")
    if said is None:
        said = ", ".join(f"{name}: {v}" for name, v in list(content["columns"].items())[:6])
    return _cut(" ".join(str(said)[: 4 * longest].split()), longest)


def legible(text: str) -> str:
    """Return a text that can be sent: half of a character pair as its number."""
    return text.encode("utf-8", "backslashreplace").decode()


def answered_rows(study: Study, wanted: AnswerFilter, page: int) -> dict[str, Any]:
    """Return one page of answered rows and how many there are in all.

    Newest first; likely mistakes by how much the model, without the answer, doubts it.
    """
    state = study.state
    if wanted.only == "open":
        return _open_rows(study, wanted.search, page)
    doubted = _doubted(study) if wanted.only == "doubted" else {}
    dev, words = set(state.dev), wanted.search.casefold()

    def fits(row: int) -> bool:
        said = state.standings[row]
        return (
            (not wanted.label or str(state.label(row)) == wanted.label)
            and (not wanted.by or wanted.by in said)
            and {
                "all": True,
                "doubted": row in doubted,
                "skipped": state.label(row) is None,
                "disagreeing": len({s.label for s in said.values()} - {None}) > 1,
                "noted": row in state.notes,
                "dev": row in dev,
            }[wanted.only]
            and (not words or words in _words(study.show(row)))
        )

    newest = {row: max(s.seq for s in said.values()) for row, said in state.standings.items()}
    order = {row: place for place, row in enumerate(doubted)}
    kept = [row for row in newest if fits(row)]
    kept.sort(key=lambda row: order.get(row, -newest[row]))
    shown = kept[page * PAGE : (page + 1) * PAGE]
    return {
        "total": len(kept),
        "page": page,
        "pages": -(-len(kept) // PAGE),
        "rows": [
            _answer(study, state, row) | {"dev": row in dev, "doubted": doubted.get(row)}
            for row in shown
        ],
    }


def own_answers(study: Study, wanted: AnswerFilter, page: int, by: str) -> dict[str, Any]:
    """Return one page of the rows that one person answered, without what others said of them."""
    found = answered_rows(study, wanted.model_copy(update={"by": by}), page)
    for line in found["rows"]:
        said = [one for one in line["answers"] if one["by"] == by]
        line |= {"answers": said, "label": said[0]["label"] if said else None}
    return found


def _open_rows(study: Study, search: str, page: int) -> dict[str, Any]:
    """Return one page of the rows that nobody answered and that hold some words, in their order."""
    state = study.state
    found = _holding(study, search) if search else range(study.n_rows)
    kept = [row for row in found if state.label(row) is None]
    shown = kept[page * PAGE : (page + 1) * PAGE]
    dev = state.settings.is_dev(shown).tolist()
    return {
        "total": len(kept),
        "page": page,
        "pages": -(-len(kept) // PAGE),
        "rows": [
            _answer(study, state, row) | {"dev": measures, "doubted": None}
            for row, measures in zip(shown, dev, strict=True)
        ],
    }


def _holding(study: Study, search: str) -> list[int]:
    """Return the rows that hold some words, in whatever of their cells."""
    words, table = search.lower(), study.pool.table
    if table is None:
        rows = range(study.n_rows)
        return [row for row in rows if words in _words(study.show(row))]
    cells = pl.all().str.to_lowercase().str.contains(words, literal=True)
    found = as_text(table.frame).select(pl.any_horizontal(cells.fill_null(False)).alias("held"))
    return found["held"].arg_true().to_list()


def _doubted(study: Study) -> dict[int, dict[str, Any]]:
    """Return the rows with another label than the model would give without it, worst first."""
    labels = study.state.labels
    if not ready(study.state):
        return {}
    return {
        row: {"says": says, "doubt": doubt}
        for row, doubt, says, *_ in zip(*study.doubts(), strict=True)
        if says != labels.get(row)
    }


def _answer(study: Study, state: State, row: int) -> dict[str, Any]:
    content, said = study.show(row), state.said(row)
    when = [datetime.fromtimestamp(s.at, UTC).isoformat(timespec="seconds") for s in said.values()]
    return {
        "row": row,
        "name": row_name(content),
        "preview": preview(content, 240),
        "image": _image(content, row),
        "label": state.label(row),
        "answers": [{"by": name, "label": said[name].label} for name in sorted(said)],
        "notes": _notes(state, row),
        "at": max(when, default=None),
    }


def _words(content: dict[str, Any]) -> str:
    parts = [content.get("text"), content.get("image"), *content["columns"].values()]
    return " ".join(str(part) for part in parts if part is not None).casefold()


def _image(content: dict[str, Any], row: int) -> str | None:
    return f"/api/images/{row}" if content.get("image") else None


def _notes(state: State, row: int) -> list[dict[str, str]]:
    return [{"by": note.by, "text": note.text} for note in state.notes.get(row, ())]


def _cut(text: str, longest: int = LONGEST_CELL) -> str:
    return legible(text if len(text) <= longest else text[: longest - 1] + "…")
