"""Rows as the page shows them: plain data, cut where it is long, one row or a list of answers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.metrics import pairwise_distances_argmin_min

from goalward.studio.server.messages import AnswerFilter, RowView
from goalward.studio.store.events import Label
from goalward.studio.study import State, Study
from goalward.studio.study.lines import Standing
from goalward.studio.study.pools import StudyPool
from goalward.studio.study.rounds import ready
from goalward.studio.study.settings import LONGEST_NOTE

__all__ = ["answered_rows", "legible", "own_answers", "preview", "row_name", "row_view", "searched"]

LONGEST = 20_000
"""Characters shown before somebody asks for all."""
LONGEST_CELL = 500
MOST_COLUMNS = 40
WORDS: WeakKeyDictionary[StudyPool, pl.Series] = WeakKeyDictionary()
PAGE = 50
"""Answers on one page of the list."""
NOTES = 20
"""Notes of a row on one page."""
UNLIKE = 5000
"""Rows that are compared with the answered ones; more follow in the order of the table."""


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
    """Return what a page needs of a row; long texts are cut unless `whole`, notes come in pages.

    Parameters
    ----------
    own
        Whose notes alone are shown; None: everybody's.
    """
    content = study.show(row)
    text = content.get("text")
    text = None if text is None else legible(str(text))
    utility, ranking = state.questions.get(row, (None, None))
    id = _id_column(content["columns"])
    cells = [(k, v) for k, v in content["columns"].items() if v not in (None, "") and k != id]
    return RowView(
        row=row,
        name=row_name(content),
        text=text if text is None or whole else text[:LONGEST],
        length=0 if text is None else len(text),
        image=_image(content, row),
        columns=[(legible(str(name)[:200]), _cut(str(v))) for name, v in cells[:MOST_COLUMNS]],
        utility=utility,
        ranking=ranking,
        guess=guess,
        **_notes(state, row, own, page),
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


def searched(pool: StudyPool) -> pl.Series:
    """Return all that each row can be found by, letters alike whether small or large; made once."""
    if pool not in WORDS:
        if pool.table is not None:
            cells = pool.table.words.to_list()
        elif pool.texts is not None:
            cells = pool.texts
        else:
            shown = map(pool.show, range(pool.n_rows))
            cells = [" ".join(map(str, one["columns"].values())) for one in shown]
        WORDS[pool] = pl.Series([legible(text.casefold()) for text in cells], dtype=pl.String)
    return WORDS[pool]


def answered_rows(
    study: Study, wanted: AnswerFilter, page: int, own: str | None = None
) -> dict[str, Any]:
    """Return one page of answered rows and how many there are in all.

    Newest first; likely mistakes by how much the model, without the answer, doubts it. Open rows are
    those that nobody answered, in their order; while a second class is missing, those least like the
    answered come first.
    """
    state = study.state
    doubted = _doubted(study) if wanted.only == "doubted" else {}
    kept = _kept(state, wanted, doubted)
    unlike = wanted.only == "open" and state.n_labels > 0 and not ready(state)
    unlike = unlike and len(kept) > 0 and study.pool.ready
    if unlike:
        kept = _unlike(study.pool, kept, state.used[0])
    if wanted.search:
        held = searched(study.pool).str.contains(wanted.search.casefold(), literal=True).to_numpy()
        kept = kept[held[kept]]
    shown = kept[page * PAGE : (page + 1) * PAGE].tolist()
    return {
        "total": len(kept),
        "page": page,
        "pages": -(-len(kept) // PAGE),
        "unlike": unlike,
        "rows": [_answer(study, state, row, own) | {"doubted": doubted.get(row)} for row in shown],
    }


def _unlike(pool: StudyPool, rows: NDArray[Any], answered: NDArray[Any]) -> NDArray[Any]:
    """Return rows, those least like the answered first: where a class was not met yet, it is there.

    Of 12 tables with a rare class, after 20 answers of the other, it was 2.8 times as frequent among
    the first 25 as in the table, at the median.
    """
    some = rows[:UNLIKE]
    _, far = pairwise_distances_argmin_min(pool.take(some), pool.take(answered[:UNLIKE]))
    return np.concatenate([some[np.argsort(-far, kind="stable")], rows[UNLIKE:]])


def own_answers(study: Study, wanted: AnswerFilter, page: int, by: str) -> dict[str, Any]:
    """Return one page of the rows that one person answered, without what others said of them."""
    found = answered_rows(study, wanted.model_copy(update={"by": by}), page, by)
    for line in found["rows"]:
        said = [one for one in line["answers"] if one["by"] == by]
        line |= {"answers": said, "label": said[0]["label"] if said else None}
    return found


def _kept(state: State, wanted: AnswerFilter, doubted: dict[int, Any]) -> NDArray[Any]:
    """Return the rows that are wanted, whatever their words, in the order they are shown."""
    lines, (labelled, codes) = state.columns, state.used
    if wanted.only == "open":
        unanswered = np.ones(state.n_rows, dtype=bool)
        unanswered[labelled] = unanswered[list(state.copies)] = False
        return np.flatnonzero(unanswered)
    rows = np.array(list(doubted), dtype=np.int64) if wanted.only == "doubted" else lines.newest
    among = None
    if wanted.only == "skipped":
        rows = rows[~np.isin(rows, labelled)]
    elif wanted.only == "disagreeing":
        answers = lines.row[lines.answers]
        several = lines.answers[np.bincount(answers, minlength=1)[answers] > 1]
        K = len(lines.names)
        of = np.unique(lines.row[several].astype(np.int64) * K + lines.label[several]) // K
        among = of[1:][of[1:] == of[:-1]]
    elif wanted.only == "noted":
        among = np.array(list(state.notes), dtype=np.int64)
    elif wanted.only == "dev":
        among = labelled[state.settings.is_dev(labelled)]
    rows = rows if among is None else rows[np.isin(rows, among)]
    if wanted.label:
        fits, known = state.settings.answer.fits, enumerate(state.used_labels)
        named = [k for k, said in known if fits(said, wanted.label, state.classes)]
        rows = rows[np.isin(rows, labelled[np.isin(codes, named)])]
    if wanted.by:
        theirs = [a for a, by in enumerate(lines.people) if by == wanted.by]
        rows = rows[np.isin(rows, lines.row[lines.stands & np.isin(lines.by, theirs)])]
    return rows


def _doubted(study: Study) -> dict[int, dict[str, Any]]:
    """Return the rows that the model, without their answer, takes for mistakes, worst first."""
    state = study.state
    if not ready(state):
        return {}
    kind, classes, found = state.settings.answer, state.classes, {}
    for row, doubt, says, *_ in zip(*study.doubts(last=True), strict=True):
        if row in state.labels and kind.mistaken(state.labels[row], says, doubt, classes):
            words, chance = kind.doubted(says, doubt, classes)
            found[row] = {"says": words, "doubt": doubt, "chance": chance}
    return found


def _answer(study: Study, state: State, row: int, own: str | None) -> dict[str, Any]:
    content, said = study.show(row), state.said(row)
    words = state.settings.answer.words

    def says(standing: Standing) -> str:
        skip = standing.label is None
        return "skipped" if skip else words(standing.label, state.classes)

    when = [datetime.fromtimestamp(s.at, UTC).isoformat(timespec="seconds") for s in said.values()]
    return {
        "row": row,
        "name": row_name(content),
        "preview": preview(content, 240),
        "image": _image(content, row),
        "label": state.label(row),
        "answers": [{"by": n, "label": said[n].label, "says": says(said[n])} for n in sorted(said)],
        **_notes(state, row, own),
        "at": max(when, default=None),
        "dev": state.settings.measures(row),
    }


def _image(content: dict[str, Any], row: int) -> str | None:
    return f"/api/images/{row}" if content.get("image") else None


def _notes(state: State, row: int, own: str | None, page: int = 0) -> dict[str, Any]:
    """Return one page of the notes of a row, the newest first of all, and how many there are."""
    said = [note for note in state.notes.get(row, ()) if own in (None, note.by)]
    end = max(len(said) - page * NOTES, 0)
    shown = [
        {"by": n.by, "text": _cut(n.text, LONGEST_NOTE)} for n in said[max(end - NOTES, 0) : end]
    ]
    return {"notes": shown, "n_notes": len(said)}


def _cut(text: str, longest: int = LONGEST_CELL) -> str:
    return legible(text if len(text) <= longest else text[: longest - 1] + "…")
