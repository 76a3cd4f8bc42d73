"""Rows as pages show them: plain data, cut where it is long, one row or a page of answers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal
from weakref import WeakKeyDictionary

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import BaseModel, Field, StrictBool, StrictFloat, StrictInt, StrictStr
from sklearn.metrics import pairwise_distances_argmin_min

from goalward.studio.store.events import Label
from goalward.studio.study import State, Study
from goalward.studio.study.pools import StudyPool
from goalward.studio.study.rounds import ready
from goalward.studio.study.settings import LONGEST_NOTE
from goalward.studio.study.state import Standing

LONGEST, LONGEST_CELL, MOST_COLUMNS = 20_000, 500, 40
"""Characters of a text, characters of a cell, and cells that are shown at first."""
PAGE, NOTES = 50, 20
"""Answers on one page of the list, and notes of a row on one page."""
COMPARED = 5000
"""Rows that are compared with the answered ones; more follow in the order of the table."""
SEARCHABLE: WeakKeyDictionary[StudyPool, pl.Series] = WeakKeyDictionary()
JsonLabel = StrictBool | StrictInt | StrictFloat | StrictStr


class AnswerFilter(BaseModel):
    """Which answers to list; an empty text means any."""

    label: str = Field("", max_length=1000, description="The label used, as text.")
    by: str = Field("", max_length=1000, description="An annotator who answered.")
    only: Literal["all", "open", "doubted", "skipped", "disagreeing", "noted", "dev"] = "all"
    search: str = Field("", max_length=1000, description="Words the row must contain.")


class RowView(BaseModel):
    """A row as a person sees it."""

    row: int
    name: str = Field(description="Its id in the table, or its number.")
    text: str | None
    length: int = Field(description="Characters of the whole text; more than shown if cut.")
    image: str | None = Field(description="The path of its picture.")
    columns: list[tuple[str, str]]
    utility: float | None = Field(description="The score that led to it being asked.")
    ranking: int | None = Field(description="The number of the ranking it was asked from.")
    notes: list[dict[str, str]] = Field(description="A page of 20, beginning with the newest 20.")
    n_notes: int = Field(description="How many notes there are.")
    guess: tuple[JsonLabel, float] | None = Field(
        None, description="A guess, or the model's prediction, and its probability."
    )


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
    cells = [(k, v) for k, v in content["columns"].items() if v not in (None, "") and k != id]
    return RowView(
        row=row,
        name=row_name(content),
        text=text if text is None or whole else text[:LONGEST],
        length=0 if text is None else len(text),
        image=f"/api/images/{row}" if content.get("image") else None,
        columns=[(encodable(str(name)[:200]), _cut(str(v))) for name, v in cells[:MOST_COLUMNS]],
        utility=utility,
        ranking=ranking,
        guess=guess,
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
    if pool not in SEARCHABLE:
        if pool.table is not None:
            cells = pool.table.words.to_list()
        elif pool.texts is not None:
            cells = pool.texts
        else:
            rows = map(pool.show, range(pool.n_rows))
            cells = [" ".join(map(str, row["columns"].values())) for row in rows]
        folded = [encodable(text.casefold()) for text in cells]
        SEARCHABLE[pool] = pl.Series(folded, dtype=pl.String)
    return SEARCHABLE[pool]


def answered_rows(
    study: Study, wanted: AnswerFilter, page: int, own: str | None = None
) -> dict[str, Any]:
    """Return one page of rows and the total; with `own`, only that person's answers."""
    if own is not None:
        wanted = wanted.model_copy(update={"by": own})
    state = study.state
    doubted = _doubted(study) if wanted.only == "doubted" else {}
    kept = _matching(state, wanted, doubted)
    unlike = wanted.only == "open" and state.n_labels > 0 and not ready(state)
    unlike = unlike and len(kept) > 0 and study.pool.ready
    if unlike:
        kept = _least_similar_first(study.pool, kept, state.used[0])
    if wanted.search:
        text = searchable_text(study.pool)
        kept = kept[text.str.contains(wanted.search.casefold(), literal=True).to_numpy()[kept]]
    shown = kept[page * PAGE : (page + 1) * PAGE].tolist()
    return {
        "total": len(kept),
        "page": page,
        "pages": -(-len(kept) // PAGE),
        "unlike": unlike,
        "rows": [_answer(study, state, row, own) | {"doubted": doubted.get(row)} for row in shown],
    }


def _least_similar_first(
    pool: StudyPool, rows: NDArray[Any], answered: NDArray[Any]
) -> NDArray[Any]:
    """Return rows, those least like the answered first: there a missing class is likeliest."""
    first = rows[:COMPARED]
    _, distance = pairwise_distances_argmin_min(pool.take(first), pool.take(answered[:COMPARED]))
    return np.concatenate([first[np.argsort(-distance, kind="stable")], rows[COMPARED:]])


def _matching(state: State, wanted: AnswerFilter, doubted: dict[int, Any]) -> NDArray[Any]:
    """Return the rows that match a filter but for its search, in the order they are shown."""
    lines, (labelled, codes) = state.columns, state.used
    if wanted.only == "open":
        unanswered = np.ones(state.n_rows, dtype=bool)
        unanswered[labelled] = unanswered[list(state.copies)] = False
        return np.flatnonzero(unanswered)
    rows = np.array(list(doubted), dtype=np.int64) if wanted.only == "doubted" else lines.newest
    among: Any = None
    if wanted.only == "skipped":
        rows = rows[~np.isin(rows, labelled)]
    elif wanted.only == "disagreeing":
        answers = lines.row[lines.answers]
        several = lines.answers[np.bincount(answers, minlength=1)[answers] > 1]
        K = len(lines.names)
        of = np.unique(lines.row[several].astype(np.int64) * K + lines.label[several]) // K
        among = of[1:][of[1:] == of[:-1]]
    elif wanted.only == "noted":
        among = list(state.notes)
    elif wanted.only == "dev":
        among = labelled[state.settings.is_dev(labelled)]
    if among is not None:
        rows = rows[np.isin(rows, among)]
    if wanted.label:
        fits, known = state.settings.answer.fits, enumerate(state.used_labels)
        named = [k for k, label in known if fits(label, wanted.label, state.classes)]
        rows = rows[np.isin(rows, labelled[np.isin(codes, named)])]
    if wanted.by:
        theirs = [a for a, by in enumerate(lines.people) if by == wanted.by]
        rows = rows[np.isin(rows, lines.row[np.isin(lines.by, theirs)])]
    return rows


def _doubted(study: Study) -> dict[int, dict[str, Any]]:
    """Return the rows that a model without their answer takes for mistakes, worst first."""
    state = study.state
    if not ready(state):
        return {}
    kind, classes, doubted = state.settings.answer, state.classes, {}
    for row, doubt, says, *_ in zip(*study.doubts(last=True), strict=True):
        if row in state.labels and (
            mistake := kind.mistake(state.labels[row], says, doubt, classes)
        ):
            doubted[row] = {"says": mistake[0], "doubt": doubt, "chance": mistake[1]}
    return doubted


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
    notes = [note for note in state.notes.get(row, ()) if own in (None, note.by)]
    end = max(len(notes) - page * NOTES, 0)
    shown = notes[max(end - NOTES, 0) : end]
    texts = [{"by": note.by, "text": _cut(note.text, LONGEST_NOTE)} for note in shown]
    return {"notes": texts, "n_notes": len(notes)}


def _cut(text: str, longest: int = LONGEST_CELL) -> str:
    return encodable(text if len(text) <= longest else text[: longest - 1] + "…")
