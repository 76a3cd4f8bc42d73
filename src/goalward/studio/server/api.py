"""The HTTP interface: answers in, rows out. Rows are numbers; no path is ever taken from a caller."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, HTTPException, Path, Query, Request

from goalward.studio.server.guard import LOCAL, home, origin, root, route
from goalward.studio.server.messages import (
    Annotator,
    AnswerFilter,
    AnswerRequest,
    AnswerStored,
    Classes,
    Digits,
    ErrorMessage,
    NextRows,
    NoteRequest,
    PageNumber,
    Plain,
    RowRequest,
    RowsRequest,
    RowView,
    UndoResult,
)
from goalward.studio.server.roles import Own, Who, seen_answers
from goalward.studio.server.rows import preview
from goalward.studio.server.served_study import HELD, ServedStudy
from goalward.studio.study.why import Effect

__all__ = ["ERRORS", "PathRow", "Served", "api", "known"]


async def _served(request: Request) -> ServedStudy:
    served: ServedStudy | None = request.app.state.served
    if served is not None:
        return served
    if route(request).startswith("/api/"):
        raise HTTPException(
            409, "No study is open here yet; a table was expected. Choose one on /new."
        )
    raise HTTPException(303, "Choose a table first.", headers={"location": f"{root(request)}/new"})


Served = Annotated[ServedStudy, Depends(_served)]
"""The study of the application that a request came to."""
PathRow = Annotated[int, Digits, Path(ge=0, le=2**53, description="The row's number, from 0.")]
Price = Annotated[
    float,
    Plain,
    Query(gt=0, allow_inf_nan=False, description="What a label costs: nats per row of the goal."),
]
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorMessage} for status in (400, 401, 403, 404, 409, 413, 415, 422, 503, 507)
}


async def _same_study(
    served: Served,
    x_goalward_study: Annotated[str | None, Header(include_in_schema=False)] = None,
) -> None:
    """Refuse a request that names another study.

    A page that was left open sends what it holds when a server is back: it may be another study's.
    """
    if x_goalward_study is not None and x_goalward_study != served.id:
        raise HTTPException(
            409,
            f"This page is of another study than {served.name}, which is served here now; nothing "
            "was stored. Reload the page. Answers it has not sent stay in this browser, and are "
            "sent when their own study is served here again.",
            headers={"x-goalward-study": served.id},
        )


api = APIRouter(prefix="/api", responses=ERRORS, dependencies=[Depends(_same_study)])
"""The routes that read and write answers."""


@api.post("/ask")
def ask(wish: RowsRequest, served: Served, who: Who, own: Own) -> NextRows:
    """Hand out rows: those the annotator has in hand, then the best that are free."""
    return NextRows(next=served.next_rows(who(wish.by), own, wish.n))


@api.post("/tell")
def tell(answer: AnswerRequest, served: Served, who: Who, own: Own) -> AnswerStored:
    """Store an answer; it is on disk when this returns. The same again changes nothing."""
    seq, rows = served.study.tell_and_ask(answer.row, answer.label, HELD, by=who(answer.by))
    served.changed()
    return AnswerStored(seq=seq, next=served.views(rows, own))


@api.post("/skip")
def skip(mark: RowRequest, served: Served, who: Who, own: Own) -> NextRows:
    """Leave a row unanswered; nobody is asked it again."""
    by = who(mark.by)
    served.study.skip(mark.row, by=by)
    served.changed()
    return NextRows(next=served.next_rows(by, own))


@api.post("/undo")
def undo(said: Annotator, served: Served, who: Who, own: Own) -> UndoResult:
    """Undo the annotator's last answer, skip or withdrawal; the row is theirs again."""
    by = who(said.by)
    row = served.study.undo(by=by)
    served.changed()
    return UndoResult(row=row, next=served.next_rows(by, own))


@api.post("/withdraw")
def withdraw(mark: RowRequest, served: Served, who: Who, own: Own) -> NextRows:
    """Take back the annotator's answer to a row, or give back the question; 409 for others'."""
    by = who(mark.by)
    if not served.study.withdraw(mark.row, by=by):
        others = sorted(served.study.state.standings.get(mark.row, ()))
        said = f"{', '.join(others[:5])}{' and others' if len(others) > 5 else ''}" or "nobody"
        raise HTTPException(
            409,
            f"{by} has no answer to row {mark.row}; {said} {'have' if len(others) > 1 else 'has'}. "
            "Only who gave an answer can take it back: write another answer instead, under your own "
            "name.",
        )
    served.changed()
    return NextRows(next=served.next_rows(by, own))


@api.post("/note")
def note(remark: NoteRequest, served: Served, who: Who, own: Own) -> RowView:
    """Write something about a row."""
    served.study.note(remark.row, remark.text, by=who(remark.by))
    served.live.changed()
    return served.views([remark.row], own)[0]


@api.post("/classes")
def classes(said: Classes, served: Served) -> dict[str, Any]:
    """Name, colour or describe a class, or write guidelines; a name without a class adds one."""
    if said.label is None and said.name is not None:
        served.study.add_class(said.name)
        said = said.model_copy(update={"label": said.name, "name": None})
    served.study.describe(**said.model_dump())
    served.changed()
    return served.summary()


@api.post("/refresh", status_code=202)
def refresh(served: Served) -> dict[str, bool]:
    """Fit and rank in the background if any answer is new; returns at once."""
    served.refitter.nudge(now=True)
    return {"started": True}


@api.post("/invite")
def invite(request: Request, served: Served) -> dict[str, str | None]:
    """Return the `path` of a link for somebody else, which opens the page once, and where it leads."""
    if served.keys.team is not None:
        raise HTTPException(409, "This server has accounts: invite people on /people, by name.")
    path = f"{home(request)}/start?token={served.keys.link()}&who=ask"
    # Where whoever asks found the page, others do too; but not by the loopback's names.
    here = request.url.hostname in LOCAL
    address = served.address if here else origin(request)
    if address is None:
        says = (
            "It opens on this computer only, once, in another browser, say. For other computers "
            "start with --host 0.0.0.0 --token and a token of your own."
        )
    else:
        says = f"It works once, for whoever can reach {address}: in the same network, say."
    return {"path": path, "address": address, "says": says}


@api.get("/rows/{row}")
def one(
    row: PathRow, served: Served, own: Own, whole: bool = False, notes: PageNumber = 0
) -> RowView:
    """Return a row, all of it if `whole`, with a page of its notes."""
    return served.views([known(served, row)], own, whole=whole, page=notes)[0]


@api.get("/why/{row}")
def why(row: PathRow, served: Served, own: Own) -> dict[str, Any]:
    """Say what each label of a row would do to the goal, and to which dev rows most.

    A team's annotators are not told of dev rows, whose labels are others' answers.
    """
    reasons = served.read().why(known(served, row))

    def effects(found: list[Effect]) -> list[dict[str, Any]]:
        shown = found if own is None else []
        return [{**vars(e), "preview": preview(served.study.show(e.row))} for e in shown]

    labels = [
        {
            "label": label,
            "probability": probability,
            "utility": reasons.utility.get(label),
            "helps": effects(reasons.helps.get(label, [])),
            "hurts": effects(reasons.hurts.get(label, [])),
        }
        for label, probability in reasons.proba.items()
    ]
    told = {"gain": reasons.gain, "recipe": reasons.recipe, "spread": reasons.spread}
    return {"row": row, **told, "labels": labels}


@api.get("/words/{row}")
def words(row: PathRow, served: Served) -> list[dict[str, Any]]:
    """List a row's words, strongest first: what each adds to the labels' logits, in their order."""
    found = served.study.why(known(served, row)).words()
    return [{"word": one.word, "push": list(one.push.values())} for one in found]


@api.get("/status")
def status(served: Served) -> dict[str, Any]:
    """Say where the study stands: labels, classes, annotators, the newest ranking."""
    return served.summary()


@api.get("/curve")
def curve(served: Served) -> list[dict[str, Any]]:
    """Return one line per ranking: labels, accuracy, log-loss, goal, predicted gain."""
    return served.study.curve()


@api.get("/scores")
def scores(served: Served) -> dict[str, Any]:
    """Return scores of every class or label, or how far numbers are off, with intervals."""
    return served.study.scores(last=True).record()


@api.get("/agreement")
def agreement(served: Served) -> list[dict[str, Any]]:
    """Say how far every two annotators agree on the rows that both answered."""
    return [pair.record() for pair in served.study.agreement()]


@api.get("/utilities")
def utilities(served: Served) -> dict[str, Any]:
    """Return quantiles of the scores of the open rows at equal steps, and the next rows' scores."""
    state = served.study.state
    if state.ranking is None:
        return {"quantiles": [], "next": []}
    upcoming = state.ranking.utilities[: state.settings.refit]
    return {"quantiles": state.ranking.quantiles, "next": upcoming}


@api.get("/stop")
def stop(price: Price, served: Served) -> dict[str, Any]:
    """Say whether the next label is worth its price, what was spent, and what other rules say."""
    return served.study.stop(price).record()


class _AnswersWanted(AnswerFilter):
    page: PageNumber = 0


@api.get("/answers")
def answers(
    request: Request, wanted: Annotated[_AnswersWanted, Query()], served: Served
) -> dict[str, Any]:
    """List answered rows, newest first, 50 a page; a team's annotators see their own answers."""
    return seen_answers(request, served.study, wanted, wanted.page)


def known(served: ServedStudy, row: int) -> int:
    """Return a row's number; 404 where there is no such row."""
    last = served.study.state.n_rows - 1
    if not 0 <= row <= last:
        raise HTTPException(404, f"There is no row {row}; the last is {last}.")
    return row
