"""Rows as pages show them: plain data, cut where it is long, one row or a page of answers."""

from collections.abc import Callable
from datetime import UTC, datetime
from threading import Lock
from typing import Any, Literal
from weakref import WeakKeyDictionary

import numpy as np
import polars as pl
import sqlalchemy as sa
from numpy.typing import NDArray
from pydantic import BaseModel, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from goalward.studio.store.events import Label
from goalward.studio.store.tables import ANSWERS, NOTES, ROWS
from goalward.studio.study import State, Study
from goalward.studio.study.pools import StudyPool
from goalward.studio.study.reader import WITHDRAWN
from goalward.studio.study.rounds import ready
from goalward.studio.study.settings import LONGEST_NOTE
from goalward.studio.study.state import Standing

LONGEST, LONGEST_CELL, MOST_COLUMNS = 20_000, 500, 100
"""Characters of a text, characters of a cell, and cells that are shown at first."""
PAGE, NOTED = 50, 20
"""Answers on one page of the list, and notes of a row on one page."""
BLOCK = 10_000
"""Rows that are made searchable at once."""
COMPARED = 5000
"""Rows that are compared with the answered ones; more follow in the order of the table."""
SEARCHABLE: WeakKeyDictionary[StudyPool, pl.Series] = WeakKeyDictionary()
SEARCHING = Lock()
JsonLabel = StrictBool | StrictInt | StrictFloat | StrictStr


class AnswerFilter(BaseModel):
    """Which answers to list; an empty text means any."""

    label: str = Field("", max_length=1000, description="The label used, as text.")
    by: str = Field("", max_length=1000, description="An annotator who answered.")
    only: Literal["all", "open", "sure", "doubted", "skipped", "disagreeing", "noted", "dev"] = (
        "all"
    )
    search: str = Field("", max_length=1000, description="Words the row must contain.")


class RowView(BaseModel):
    """A row as a person sees it."""

    row: int
    name: str = Field(description="Its id in the table, or its number.")
    text: str | None
    length: int = Field(description="Characters of the whole text; more than shown if cut.")
    image: str | None = Field(description="The path of its picture.")
    columns: list[tuple[str, str]]
    left: str = Field("", description="What is left out of it here, in words.")
    utility: float | None = Field(description="The score that led to it being asked.")
    ranking: int | None = Field(description="The number of the ranking it was asked from.")
    notes: list[dict[str, str]] = Field(description="A page of 20, beginning with the newest 20.")
    n_notes: int = Field(description="How many notes there are.")
    guess: tuple[JsonLabel, float] | None = Field(
        None, description="A guess, or the model's prediction, and its probability."
    )
    likely: list[int] = Field([], description="Of many classes, the likely ones, by number.")


def row_view(
    study: Study,
    state: State,
    row: int,
    own: str | None,
    *,
    whole: bool = False,
    page: int = 0,
    guess: tuple[Label, float] | None = None,
) -> RowView:
    """Return a row as a page shows it; with `own`, only that person's notes."""
    content = study.show(row)
    text = content.get("text")
    text = None if text is None else encodable(str(text))
    utility, ranking = state.question(row)
    id = _id_column(content["columns"])
    cells = [(k, str(v)) for k, v in content["columns"].items() if v not in (None, "") and k != id]
    shown, longest = (cells, LONGEST) if whole else (cells[:MOST_COLUMNS], LONGEST_CELL)
    cut = [len(cells) - len(shown), sum(len(cell) > longest for _, cell in shown)]
    names = ("more columns", "long cells")
    parts = [
        f"{n} {what[: -1 if n == 1 else None]}" for n, what in zip(cut, names, strict=True) if n
    ]
    if text is not None and not whole and len(text) > LONGEST:
        parts.insert(0, f"{len(text):,} characters")
    return RowView(
        row=row,
        name=row_name(content),
        text=text if text is None or whole else text[:LONGEST],
        length=0 if text is None else len(text),
        image=f"/api/images/{row}" if content.get("image") else None,
        columns=[(encodable(str(name)[:200]), _cut(cell, longest)) for name, cell in shown],
        left=", ".join(parts),
        utility=utility,
        ranking=ranking,
        guess=guess,
        likely=[k for part in state.view.get("predicted", {}).get(str(row), ())[2:] for k in part],
        **_notes(state, row, own, page),
    )


def row_name(content: dict[str, Any]) -> str:
    """Return the name of a row: its id in the table, or its number."""
    own = _id_column(content["columns"])
    return f"Row {content['row']}" if own is None else _cut(f"{own} {content['columns'][own]}", 60)


def _id_column(columns: dict[str, Any]) -> str | None:
    named = (name for name in columns if name.strip().casefold() == "id")
    return next((name for name in named if columns[name] not in (None, "")), None)


def preview(content: dict[str, Any], longest: int = 160) -> str:
    """Return one line of a row's content, as `Study.show` returns it."""
    text = content.get("text") or content.get("image")
    if text is None:
        text = ", ".join(f"{name}: {v}" for name, v in list(content["columns"].items())[:6])
    return _cut(" ".join(str(text)[: 4 * longest].split()), longest)


def encodable(text: str) -> str:
    """Return a text that UTF-8 can encode: lone surrogates as escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


def searchable_text(pool: StudyPool) -> pl.Series:
    """Return the text that each row is searched in, without case; made once for a pool."""
    with SEARCHING:
        if pool in SEARCHABLE:
            return SEARCHABLE[pool]
        # In blocks: a list of all would take more memory than the table.
        blocks = [_folded(_words(pool, first)) for first in range(0, pool.n_rows, BLOCK)]
        SEARCHABLE[pool] = pl.concat([pl.Series([], dtype=pl.String), *blocks])
        return SEARCHABLE[pool]


def _folded(words: pl.Series) -> pl.Series:
    # Of ASCII nothing is left to fold in lower case, and that is made without Python.
    if (words.str.len_bytes() == words.str.len_chars()).all():
        return words.str.to_lowercase()
    return pl.Series([text.casefold() for text in words])


def _words(pool: StudyPool, first: int) -> pl.Series:
    """Return each of some rows as one text."""
    if pool.table is not None:
        return pool.table.words(first, BLOCK)
    rows = range(first, min(first + BLOCK, pool.n_rows))
    if pool.texts is not None:
        return pl.Series([encodable(pool.texts[row]) for row in rows], dtype=pl.String)
    cells = (pool.show(row)["columns"].values() for row in rows)
    return pl.Series([encodable(" ".join(map(str, row))) for row in cells], dtype=pl.String)


def answered_rows(
    study: Study,
    wanted: AnswerFilter,
    page: int,
    own: str | None = None,
    compute: Callable[..., Any] | None = None,
) -> dict[str, Any]:
    """Return one page of rows and the total; with `own`, only that person's answers.

    Where no model can be fitted yet, open rows come least like the answered first, as `compute` says.
    """
    if own is not None:
        wanted = wanted.model_copy(update={"by": own})
    state, doubted, unlike = study.state, {}, False
    sure: dict[int, Any] = {}
    text = searchable_text(study.pool) if wanted.search else None
    # Which rows have the words; None is any.
    matching = None if text is None else text.str.contains(wanted.search.casefold(), literal=True)
    mask = None if matching is None else matching.to_numpy()
    if wanted.only == "open":
        free = np.ones(state.n_rows, dtype=bool) if mask is None else mask.copy()
        free[state.counted_rows[0] > 0] = free[list(state.copies)] = False
        rows: list[int] = np.flatnonzero(free).tolist()
        if rows and state.n_labels and compute is not None and not ready(state):
            rows[:COMPARED], unlike = compute("unlike", rows=rows[:COMPARED]), True
        total, shown = len(rows), rows[page * PAGE : (page + 1) * PAGE]
    elif wanted.only == "sure":
        surest = compute("sure") if compute is not None and ready(state) else []
        for row, place, chance in surest:
            label = state.classes[place]
            if (mask is None or mask[row]) and wanted.label in ("", str(label)):
                sure[row] = {"label": label, "place": place, "chance": chance}
        total, shown = len(sure), list(sure)[page * PAGE : (page + 1) * PAGE]
    else:
        if wanted.only == "doubted":
            doubted = _doubted(state)
        total, shown = _listed(state, wanted, mask, doubted, page)
    state.lines(shown)
    return {
        "total": total,
        "page": page,
        "pages": -(-total // PAGE),
        "unlike": unlike,
        "rows": [
            _answer(study, state, row, own) | {"doubted": doubted.get(row), "sure": sure.get(row)}
            for row in shown
        ],
    }


def _listed(
    state: State, wanted: AnswerFilter, mask: NDArray[Any] | None, doubted: Any, page: int
) -> tuple[int, list[int]]:
    """Return how many answered or skipped rows match, and one page of them, newest first."""
    table, conditions = ROWS.c, _conditions(state, wanted)
    if (
        wanted.label and state.settings.label == "weighed"
    ):  # it follows from all answers to all rows
        labelled, codes = state.used
        places = [k for k, name in enumerate(state.classes) if str(name) == wanted.label]
        own = np.zeros(state.n_rows, dtype=bool)
        own[labelled[np.isin(codes, places)]] = True
        mask = own if mask is None else mask & own
    query = sa.select(table.row).where(*conditions).order_by(table.newest.desc())
    if wanted.only == "doubted":
        known = {row for (row,) in state.reader.rows(query.where(table.row.in_(list(doubted))))}
        rows = [row for row in doubted if row in known and (mask is None or mask[row])]
    elif mask is None:
        total = state.reader.rows(sa.select(sa.func.count()).select_from(ROWS).where(*conditions))
        paged = state.reader.rows(query.limit(PAGE).offset(page * PAGE))
        return total[0][0], [row for (row,) in paged]
    else:
        newest = state.counted_rows[1]
        found = np.flatnonzero(mask & (newest > 0))
        if conditions:
            meet = np.zeros(state.n_rows, dtype=bool)
            meet[[row for (row,) in state.reader.rows(query.order_by(None))]] = True
            found = found[meet[found]]
        rows = found[np.argsort(-newest[found])].tolist()
    return len(rows), rows[page * PAGE : (page + 1) * PAGE]


def _conditions(state: State, wanted: AnswerFilter) -> list[sa.ColumnElement[bool]]:
    """Return a filter, but for words and mistakes, as conditions of a query."""
    table, answer, only = ROWS.c, state.settings.answer, wanted.only
    conditions: list[sa.ColumnElement[bool]] = []
    if only == "skipped":
        conditions.append(table.n == 0)
    elif only == "disagreeing":
        conditions.append(table.mixed)
    elif only == "noted":
        conditions.append(table.row.in_(sa.select(NOTES.c.row)))
    elif only == "dev":
        conditions += [table.dev, table.n > 0]
    if wanted.label and state.settings.label != "weighed":
        texts = [str(k) for k in range(len(state.classes))]
        if answer.name != "class":
            distinct = sa.select(table.label).distinct().where(table.label.is_not(None))
            texts = [text for (text,) in state.reader.rows(distinct)]
        named = [t for t in texts if answer.fits(state.answer(t), wanted.label, state.classes)]
        conditions.append(table.label.in_(named))
    if wanted.by:
        theirs = sa.select(ANSWERS.c.row).where(
            ANSWERS.c.by == wanted.by, ANSWERS.c.ended.is_(None), ANSWERS.c.label != WITHDRAWN
        )
        conditions.append(table.row.in_(theirs))
    return conditions


def _doubted(state: State) -> dict[int, dict[str, Any]]:
    """Return the rows whose answers the newest model without them takes for mistakes, worst first."""
    mistakes = {row: given for row, *given in state.view.get("mistakes", ())}
    state.lines(mistakes)
    return {
        row: {"says": says, "doubt": doubt, "chance": chance}
        for row, (answer, says, chance, doubt) in mistakes.items()
        # Corrected since, it is no mistake any more.
        if (label := state.label(row)) is not None
        and state.settings.answer.coded(label, state.classes) == answer
    }


def _answer(study: Study, state: State, row: int, own: str | None) -> dict[str, Any]:
    """Return a row of the list of answers; with `own`, without those of others."""
    content, kind = study.show(row), state.settings.answer
    standings = {by: s for by, s in sorted(state.said(row).items()) if own in (None, by)}

    def says(standing: Standing) -> str:
        return "skipped" if standing.label is None else kind.words(standing.label, state.classes)

    label = state.label(row)
    if own is not None:
        label = standings[own].label if own in standings else None
    answers = [{"by": by, "label": s.label, "says": says(s)} for by, s in standings.items()]
    newest = max((s.at for s in standings.values()), default=None)
    return {
        "row": row,
        "name": row_name(content),
        "preview": preview(content, 240),
        "image": f"/api/images/{row}" if content.get("image") else None,
        "label": label,
        "answers": answers,
        **_notes(state, row, own),
        "at": newest and datetime.fromtimestamp(newest, UTC).isoformat(timespec="seconds"),
        "dev": state.settings.measures(row),
    }


def _notes(state: State, row: int, own: str | None, page: int = 0) -> dict[str, Any]:
    """Return one page of the notes of a row, page 0 with the newest, and how many there are."""
    notes = [note for note in state.notes_of(row) if own in (None, note.by)]
    end = max(len(notes) - page * NOTED, 0)
    shown = notes[max(end - NOTED, 0) : end]
    texts = [{"by": note.by, "text": _cut(note.text, LONGEST_NOTE)} for note in shown]
    return {"notes": texts, "n_notes": len(notes)}


def _cut(text: str, longest: int = LONGEST_CELL) -> str:
    return encodable(text if len(text) <= longest else text[: longest - 1] + "…")
