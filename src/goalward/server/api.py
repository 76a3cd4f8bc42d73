"""The HTTP interface: answers in, rows out. Rows are numbers; no path is ever taken from a caller."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, HTTPException, Path, Query

from goalward.server.desk import HELD, Desk
from goalward.server.messages import (
    Answer,
    Asking,
    Because,
    Digits,
    Effects,
    Invitation,
    Mark,
    Next,
    Plain,
    Problem,
    Remark,
    Row,
    Told,
    Undone,
    Who,
)
from goalward.server.review import answered
from goalward.server.shown import preview, shown
from goalward.study import State
from goalward.study.why import Effect

__all__ = ["Filter", "Number", "Only", "Page", "api", "known"]

Number = Annotated[int, Digits, Path(ge=0, le=2**53, description="The row's number, from 0.")]
Price = Annotated[
    float,
    Plain,
    Query(gt=0, allow_inf_nan=False, description="What a label costs: nats per row of the goal."),
]
Filter = Annotated[str | None, Query(max_length=1000)]
Named = Annotated[str | None, Header(include_in_schema=False)]
Page = Annotated[int, Digits, Query(ge=0, le=10**6, description="Which page, from 0.")]
SAID: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem} for status in (400, 401, 403, 404, 409, 413, 415, 422, 503, 507)
}


class Only(StrEnum):
    """Which answers."""

    all = "all"
    skipped = "skipped"
    disagreeing = "disagreeing"
    noted = "noted"
    dev = "dev"


def known(desk: Desk, row: int) -> int:
    """Return a row's number; 404 where there is no such row."""
    if not 0 <= row < desk.study.n_rows:
        raise HTTPException(404, f"There is no row {row}; the last is {desk.study.n_rows - 1}.")
    return row


def same_study(desk: Desk) -> Any:
    """Return a check of the study that a request names, if it names one.

    A page that was left open sends what it holds when a server is back: it may be another study's.
    """

    def check(x_goalward_study: Named = None) -> None:
        if x_goalward_study is not None and x_goalward_study != desk.id:
            raise HTTPException(
                409,
                f"This page is of another study than {desk.name}, which is served here now; nothing "
                "was stored. Reload the page. Answers it has not sent stay in this browser, and are "
                "sent when their own study is served here again.",
                headers={"x-goalward-study": desk.id},
            )

    return Depends(check)


def api(desk: Desk) -> APIRouter:
    """Return the routes under /api that read and write answers."""
    router = APIRouter(prefix="/api", responses=SAID, dependencies=[same_study(desk)])
    study = desk.study

    @router.post("/ask")
    def ask(wish: Asking) -> Next:
        """Hand out rows: those the annotator has in hand, then the best that are free."""
        return Next(next=[Row(**row) for row in desk.next(wish.by, wish.n)])

    @router.post("/tell")
    def tell(answer: Answer) -> Told:
        """Store an answer; it is on disk when this returns. The same again changes nothing."""
        seq, rows = study.tell_and_ask(answer.row, answer.label, HELD, by=answer.by)
        desk.moved()
        return Told(seq=seq, next=[Row(**row) for row in desk.shown(rows)])

    @router.post("/skip")
    def skip(mark: Mark) -> Next:
        """Leave a row unanswered; nobody is asked it again."""
        study.skip(mark.row, by=mark.by)
        desk.moved()
        return Next(next=[Row(**row) for row in desk.next(mark.by)])

    @router.post("/undo")
    def undo(who: Who) -> Undone:
        """Undo the annotator's last answer, skip or withdrawal; the row is theirs again."""
        row = study.undo(by=who.by)
        desk.moved()
        return Undone(row=row, next=[Row(**row) for row in desk.next(who.by)])

    @router.post("/withdraw")
    def withdraw(mark: Mark) -> Next:
        """Take back the annotator's answer to a row, or give back the question; 409 for others'."""
        if not study.withdraw(mark.row, by=mark.by):
            raise HTTPException(409, _nothing_to_take_back(study.state, mark))
        desk.moved()
        return Next(next=[Row(**row) for row in desk.next(mark.by)])

    @router.post("/note")
    def note(remark: Remark) -> Row:
        """Write something about a row."""
        study.note(remark.row, remark.text, by=remark.by)
        desk.live.changed()
        return Row(**shown(study, study.state, remark.row))

    @router.post("/refresh", status_code=202)
    def refresh() -> dict[str, bool]:
        """Fit and rank in the background if any answer is new; returns at once."""
        desk.refitter.nudge(now=True)
        return {"started": True}

    @router.post("/invite")
    def invite() -> Invitation:
        """Return a link for somebody else; it opens the page once."""
        return Invitation(path=f"/start?token={desk.keys.link()}&who=ask")

    @router.get("/rows/{row}")
    def one(row: Number, whole: bool = False) -> Row:
        """Return a row, all of it if `whole`."""
        return Row(**shown(study, study.state, known(desk, row), whole=whole))

    @router.get("/why/{row}")
    def why(row: Number) -> Because:
        """Say what each label of a row would do to the goal, and to which dev rows most."""
        found = study.why(known(desk, row))
        effects = [
            Effects(
                label=label,
                probability=found.proba[label],
                utility=found.utility[label],
                helps=[_effect(desk, e) for e in found.helps.get(label, [])],
                hurts=[_effect(desk, e) for e in found.hurts.get(label, [])],
            )
            for label in found.utility
        ]
        return Because(row=row, gain=found.gain, recipe=found.recipe, labels=effects)

    @router.get("/status")
    def status() -> dict[str, Any]:
        """Say where the study stands: labels, classes, annotators, the newest ranking."""
        return desk.summary()

    @router.get("/curve")
    def curve() -> list[dict[str, Any]]:
        """Return one line per ranking: labels, accuracy, log-loss, goal, predicted gain."""
        return study.curve()

    @router.get("/stop")
    def stop(price: Price) -> dict[str, Any]:
        """Say whether the next label is worth its price, what was spent, and what other rules say."""
        return study.stop(price).record()

    @router.get("/answers")
    def answers(
        label: Filter = None,
        by: Filter = None,
        only: Only = Only.all,
        search: Annotated[str, Query(max_length=1000)] = "",
        page: Page = 0,
    ) -> dict[str, Any]:
        """List answered rows, newest first, 50 a page."""
        return answered(study, label=label, by=by, only=only, search=search, page=page)

    return router


def _nothing_to_take_back(state: State, mark: Mark) -> str:
    others = sorted(state.standings.get(mark.row, ()))
    said = f"{', '.join(others[:5])}{' and others' if len(others) > 5 else ''}" or "nobody"
    has = "have" if len(others) > 1 else "has"
    return (
        f"{mark.by} has no answer to row {mark.row}; {said} {has}. Only who gave an answer can take it "
        "back: write another answer instead, under your own name."
    )


def _effect(desk: Desk, effect: Effect) -> dict[str, Any]:
    return {**vars(effect), "preview": preview(desk.study, effect.row)}
