"""The answers of a study as a list that can be filtered."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from goalward.server.shown import preview
from goalward.study import State, Study

__all__ = ["PAGE", "answered"]

PAGE = 50


def answered(
    study: Study,
    *,
    label: str | None = None,
    by: str | None = None,
    only: str = "all",
    search: str = "",
    page: int = 0,
) -> dict[str, Any]:
    """Return one page of answered rows, newest first, and how many there are in all.

    Parameters
    ----------
    label, by
        The label used (as text), and an annotator who said something.
    only
        "all", "skipped", "disagreeing", "noted" or "dev".
    search
        Words the row's text must hold.
    """
    state = study.state
    rows = sorted(state.standings, key=lambda row: -_newest(state, row))
    dev = set(state.dev)
    kept = [
        row
        for row in rows
        if (label is None or str(state.label(row)) == label)
        and (by is None or by in state.standings[row])
        and _is(state, row, only, dev)
        and (not search or search.casefold() in _text(study, row))
    ]
    lines = [_line(study, state, row, dev) for row in kept[page * PAGE : (page + 1) * PAGE]]
    return {"total": len(kept), "page": page, "pages": -(-len(kept) // PAGE), "rows": lines}


def _line(study: Study, state: State, row: int, dev: set[int]) -> dict[str, Any]:
    said = state.standings[row]
    return {
        "row": row,
        "preview": preview(study, row, 240),
        "image": f"/api/images/{row}" if study.show(row).get("image") else None,
        "label": state.label(row),
        "dev": row in dev,
        "answers": [{"by": name, "label": said[name].label} for name in sorted(said)],
        "notes": [{"by": n.by, "text": n.text} for n in state.notes.get(row, ())],
        "at": _when(max(s.at for s in said.values())),
    }


def _newest(state: State, row: int) -> int:
    return max(s.seq for s in state.standings[row].values())


def _is(state: State, row: int, only: str, dev: set[int]) -> bool:
    if only == "skipped":
        return state.label(row) is None
    if only == "disagreeing":
        said = {s.label for s in state.standings[row].values() if s.label is not None}
        return len(said) > 1
    if only == "noted":
        return row in state.notes
    return row in dev if only == "dev" else True


def _text(study: Study, row: int) -> str:
    found = study.show(row)
    parts = [found.get("text"), found.get("image"), *found["columns"].values()]
    return " ".join(str(part) for part in parts if part is not None).casefold()


def _when(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")
