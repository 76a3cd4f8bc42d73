"""The HTTP interface. Types are strict: row 3 is neither "3", 3.0 nor true."""

import re
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

import fastapi
from fastapi import APIRouter, Depends, Header, HTTPException, Query, Request
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
)
from starlette.background import BackgroundTask
from starlette.responses import FileResponse, Response, StreamingResponse

from goalward.errors import BadParameter, DataMissing
from goalward.studio.server.auth import Caller, CallerOf, still_allowed
from goalward.studio.server.security import LOCAL, home, origin, root, route
from goalward.studio.server.served_study import EACH, HELD, MOST, ServedStudy
from goalward.studio.server.shown_rows import (
    AnswerFilter,
    JsonLabel,
    RowView,
    answered_rows,
    preview,
)
from goalward.studio.study.settings import LONGEST_NOTE
from goalward.studio.study.state import Description

SEALED = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox"}
"""For pictures, which may be opened by themselves: no scripts at all."""
FORMATS = {
    "csv": "text/csv; charset=utf-8",
    "tsv": "text/tab-separated-values; charset=utf-8",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "jsonl": "application/x-ndjson",
    "parquet": "application/vnd.apache.parquet",
}
Format = Literal["csv", "tsv", "xlsx", "jsonl", "parquet"]


def _written(pattern: str, expected: str) -> BeforeValidator:
    def check(text: Any) -> Any:
        if isinstance(text, str) and not re.fullmatch(pattern, text):
            raise ValueError(expected)
        return text

    return BeforeValidator(check)


def _storable(text: str) -> str:
    if "\0" in text:
        raise ValueError("must not contain a NUL character, which not every database can hold")
    return text


Digits = _written(r"0|[1-9][0-9]{0,15}", "must be a whole number in plain digits, such as 17")
Decimal = _written(r"[0-9.eE+-]{1,40}", "must be a number, such as 0.001 or 1e-3")
Text = Annotated[StrictStr, AfterValidator(_storable)]
Row = Annotated[StrictInt, Field(ge=0, le=2**53, description="The row's number, from 0.")]
RowInPath = Annotated[
    int, Digits, fastapi.Path(ge=0, le=2**53, description="The row's number, from 0.")
]
PageNumber = Annotated[int, Digits, Field(ge=0, le=10**6, description="Which page, from 0.")]
Price = Annotated[
    float,
    Decimal,
    Query(gt=0, allow_inf_nan=False, description="What a label costs: nats per row of the goal."),
]


class Body(BaseModel):
    """A JSON object without other fields than these."""

    model_config = ConfigDict(extra="forbid")


class Annotator(Body):
    """Who asks or answers."""

    by: Text | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="The annotator's name; of who is signed in by name, theirs or none.",
    )


class RowsWanted(Annotator):
    """How many rows an annotator wants."""

    n: StrictInt = Field(3, ge=1, le=100, description="How many rows to hold.")


class AboutRow(Annotator):
    """A row."""

    row: Row


class Answer(AboutRow):
    """A label for a row."""

    label: JsonLabel | list[Text] | dict[Text, StrictBool | None] = Field(
        description="One of the classes; the list of the labels that hold, or true, false or null for "
        "each; a number."
    )


class NewNote(AboutRow):
    """A remark about a row."""

    text: Text = Field(min_length=1, max_length=LONGEST_NOTE)


class ClassEdit(Body):
    """A new class, a change of one, or without a class the guidelines."""

    label: JsonLabel | None = Field(None, description="The class; none: guidelines.")
    name: Text | None = Field(None, min_length=1, max_length=1000, description="Its new name.")
    colour: Text | None = Field(None, max_length=20, description="#1b9e77, or empty for none.")
    text: Text | None = Field(None, max_length=100_000, description="What belongs to it.")


class AnswersWanted(AnswerFilter):
    """A page of answers."""

    page: PageNumber = 0


class NextRows(BaseModel):
    """The rows an annotator holds, the one to show first."""

    next: list[RowView]


class AnswerStored(NextRows):
    """An answer is on disk."""

    seq: int = Field(description="Its number in the journal.")


class RowUndone(NextRows):
    """The row whose last action was undone; None if there was nothing."""

    row: int | None


class ErrorMessage(BaseModel):
    """What went wrong, and what to do."""

    error: str


ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorMessage} for status in (400, 401, 403, 404, 409, 413, 415, 422, 503, 507)
}


async def served_study(request: Request) -> ServedStudy:
    """Return the study that a request is about."""
    served: ServedStudy | None = request.app.state.served
    if served is not None:
        return served
    if route(request).startswith("/api/"):
        raise HTTPException(409, "No study is open here yet. Choose a table on /new.")
    raise HTTPException(303, "Choose a table first.", headers={"location": f"{root(request)}/new"})


Served = Annotated[ServedStudy, Depends(served_study)]


async def _same_study(
    served: Served, x_goalward_study: Annotated[str | None, Header(include_in_schema=False)] = None
) -> None:
    """Refuse a request for another study: of a page that was left open while the server changed."""
    if x_goalward_study is not None and x_goalward_study != served.id:
        raise HTTPException(
            409,
            f"This page belongs to another study than {served.name}, which is served here now; "
            "nothing was stored. Reload the page. Unsent answers stay in this browser until their "
            "own study is served here again.",
            headers={"x-goalward-study": served.id},
        )


api = APIRouter(prefix="/api", responses=ERRORS, dependencies=[Depends(_same_study)])


@api.post("/ask")
def ask(wanted: RowsWanted, served: Served, caller: CallerOf) -> NextRows:
    """Hand out rows: those the annotator holds, then the best that are free."""
    return NextRows(next=served.next_rows(caller.annotator(wanted.by), caller.own, wanted.n))


@api.post("/tell")
def tell(answer: Answer, served: Served, caller: CallerOf) -> AnswerStored:
    """Store an answer; it is on disk when this returns. The same again changes nothing."""
    by = caller.annotator(answer.by)
    seq, rows = served.study.tell_and_ask(answer.row, answer.label, HELD, by=by)
    served.changed()
    return AnswerStored(seq=seq, next=served.views(rows, caller.own))


@api.post("/skip")
def skip(about: AboutRow, served: Served, caller: CallerOf) -> NextRows:
    """Leave a row unanswered; nobody is asked it again."""
    by = caller.annotator(about.by)
    served.study.skip(about.row, by=by)
    served.changed()
    return NextRows(next=served.next_rows(by, caller.own))


@api.post("/undo")
def undo(annotator: Annotator, served: Served, caller: CallerOf) -> RowUndone:
    """Undo the annotator's last answer, skip or withdrawal; the row is theirs again."""
    by = caller.annotator(annotator.by)
    row = served.study.undo(by=by)
    served.changed()
    return RowUndone(row=row, next=served.next_rows(by, caller.own))


@api.post("/withdraw")
def withdraw(about: AboutRow, served: Served, caller: CallerOf) -> NextRows:
    """Take back the annotator's answer to a row, or give back the question; 409 for others'."""
    by = caller.annotator(about.by)
    if not served.study.withdraw(about.row, by=by):
        raise HTTPException(
            409,
            f"{by} has no answer to row {about.row} to take back. An answer of somebody else stays: "
            "give another one under your own name.",
        )
    served.changed()
    return NextRows(next=served.next_rows(by, caller.own))


@api.post("/note")
def note(remark: NewNote, served: Served, caller: CallerOf) -> RowView:
    """Write a note about a row."""
    served.study.note(remark.row, remark.text, by=caller.annotator(remark.by))
    served.live.changed()
    return served.views([remark.row], caller.own)[0]


@api.post("/classes")
def classes(edit: ClassEdit, served: Served) -> dict[str, Any]:
    """Name, colour or describe a class, or write guidelines; a name without a class adds one."""
    if edit.label is None and edit.name is not None:
        served.study.add_class(edit.name)
        edit = edit.model_copy(update={"label": edit.name, "name": None})
    served.study.describe(**edit.model_dump())
    served.changed()
    return served.summary()


@api.post("/refresh", status_code=202)
def refresh(served: Served) -> dict[str, bool]:
    """Fit and rank in the background if any answer is new; returns at once."""
    served.refitter.nudge(now=True)
    return {"started": True}


@api.post("/invite")
def invite(request: Request, served: Served) -> dict[str, str | None]:
    """Return the `path` of a link that opens the page once, for somebody else."""
    if served.auth.team is not None:
        raise HTTPException(409, "This server has accounts. Invite people by name on /people.")
    path = f"{home(request)}/start?token={served.auth.new_link()}&who=ask"
    # Others reach the page where the caller did, but not by the names of the loopback.
    address = served.address if request.url.hostname in LOCAL else origin(request)
    says = f"It works once, for everybody who can reach {address}."
    if address is None:
        says = (
            "It opens once, on this computer only, for example in another browser. For other "
            "computers start with --host 0.0.0.0 --token and a token of your own."
        )
    return {"path": path, "address": address, "says": says}


@api.get("/rows/{row}")
def one(
    row: RowInPath, served: Served, caller: CallerOf, whole: bool = False, notes: PageNumber = 0
) -> RowView:
    """Return a row, its whole text with `whole`, and a page of its notes."""
    return served.views([_known(served, row)], caller.own, whole=whole, page=notes)[0]


@api.get("/why/{row}")
def why(row: RowInPath, served: Served, caller: CallerOf) -> dict[str, Any]:
    """Return what each label of a row would do to the goal, and to which dev rows most.

    A team's annotators do not see the dev rows, whose labels are others' answers.
    """
    reasons: dict[str, Any] = served.with_features().compute("why", row=_known(served, row))
    described = served.study.seen.described
    for place, label in enumerate(reasons["labels"]):
        label["colour"] = described.get(place, Description()).colour
        for name in ("helps", "hurts"):
            shown = label[name] if caller.own is None else []
            label[name] = [{**e, "preview": preview(served.study.show(e["row"]))} for e in shown]
    return reasons


@api.get("/words/{row}")
def words(row: RowInPath, served: Served) -> list[dict[str, Any]]:
    """List a row's words, strongest first: what each adds to the labels' logits, in their order."""
    weights: list[dict[str, Any]] = served.refitter.compute("words", row=_known(served, row))
    return weights


@api.get("/status")
def status(served: Served) -> dict[str, Any]:
    """Return the state of the study: labels, classes, annotators, the newest ranking."""
    return served.summary()


@api.get("/curve")
def curve(served: Served) -> list[dict[str, Any]]:
    """Return one line per ranking: labels, accuracy, log-loss, goal, predicted gain."""
    return served.study.curve()


@api.get("/scores")
def scores(served: Served) -> dict[str, Any]:
    """Return scores of every class or label, or errors of numbers, with intervals."""
    state = served.study.state
    if (found := state.view.get("scores")) is None:
        raise BadParameter(f"There is no model yet: {state.settings.answer.waits}.")
    return dict(found)


@api.get("/agreement")
def agreement(served: Served) -> list[dict[str, Any]]:
    """Return how far every two annotators agree on the rows that both answered."""
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
    """Return whether the next label is worth its price, what was spent, and other stopping rules."""
    return served.study.stop(price).record()


@api.get("/answers")
def answers(
    wanted: Annotated[AnswersWanted, Query()], served: Served, caller: CallerOf
) -> dict[str, Any]:
    """List answered rows, newest first, 50 a page; a team's annotators see their own answers."""
    return visible_answers(served, caller, wanted, wanted.page)


def visible_answers(
    served: ServedStudy, caller: Caller, wanted: AnswerFilter, page: int
) -> dict[str, Any]:
    """Return one page of answered rows: everybody's, or an annotator's own."""
    own = caller.own
    # Which label was used, and whether others disagree, would tell what they said.
    hidden = wanted.label or wanted.by not in ("", own) or wanted.only not in ("all", "open")
    if own is not None and hidden:
        raise HTTPException(
            403,
            f"{own} is annotator here: answers of others are for reviewers. Leave the filter out.",
        )
    compute = served.refitter.compute if served.refitter.ready else None
    return answered_rows(served.study, wanted, page, own, compute)


def _known(served: ServedStudy, row: int) -> int:
    """Return a row's number; 404 if there is no such row."""
    last = served.study.state.n_rows - 1
    if not 0 <= row <= last:
        raise HTTPException(404, f"There is no row {row}; the last is {last}.")
    return row


def _replies(*kinds: str) -> dict[str, Any]:
    content = {200: {"content": {kind: {} for kind in kinds}, "description": "The file."}}
    return {"response_class": Response, "responses": content}


@api.get("/images/{row}", **_replies("image/*"))
def images(row: RowInPath, served: Served) -> Response:
    """Return the picture of a row."""
    table = served.study.pool.table
    if table is None:
        raise DataMissing(f"Row {row} has no picture.")
    content, kind = table.picture(_known(served, row), served.images)
    return Response(content, media_type=kind, headers=SEALED)


@api.get("/export", **_replies(*(kind.partition(";")[0] for kind in FORMATS.values())))
def export(
    served: Served, caller: CallerOf, format: Format = "csv", raw: bool = False, every: bool = False
) -> Response:
    """Return the labels with the table's columns; formula-like cells escaped unless `raw`."""
    write = partial(served.refitter.compute, "export", raw=raw, every=every)
    return _download(served, caller, f"labels.{format}", write)


@api.get("/predictions", **_replies(*(kind.partition(";")[0] for kind in FORMATS.values())))
def predictions(
    served: Served, caller: CallerOf, format: Format = "csv", raw: bool = False
) -> Response:
    """Return every row of the table with its label: a person's, or the model's with probability."""
    write = partial(served.with_features().compute, "predictions", raw=raw)
    return _download(served, caller, f"predictions.{format}", write)


def _download(
    served: ServedStudy, caller: Caller, name: str, write: Callable[..., int]
) -> Response:
    folder = TemporaryDirectory()
    path = Path(folder.name) / name
    try:
        write(path=str(path))
        if served.auth.team is not None:
            # Before a byte is sent.
            served.study.exported(name, by=caller.signature)
    except BaseException:
        folder.cleanup()
        raise
    stem = re.sub(r"(\.labels)?\.\w+(\.gz)?$", "", served.title) or "table"
    kind, done = FORMATS[path.suffix[1:]], BackgroundTask(folder.cleanup)
    # Sent in pieces: a large table is never in memory for it.
    return FileResponse(path, media_type=kind, filename=f"{stem}-{name}", background=done)


@api.get("/events", include_in_schema=False)
async def events(
    request: Request,
    served: Served,
    caller: CallerOf,
    last_event_id: Annotated[str | None, Header(max_length=100)] = None,
) -> StreamingResponse:
    """Send a summary whenever something changed (server-sent events)."""
    name = caller.principal.name
    if served.live.listeners >= MOST:
        raise HTTPException(503, f"{MOST} pages are open already. Close some.")
    if name is not None and served.live.by[name] >= EACH:
        raise HTTPException(503, f"{EACH} pages of {name} are open already. Close some.")

    async def summaries() -> AsyncIterator[str]:
        async with aclosing(served.live.listen(last_event_id, name)) as messages:
            async for message in messages:
                if not await still_allowed(request, caller):
                    break
                yield message

    return StreamingResponse(
        summaries(), media_type="text/event-stream", headers={"x-accel-buffering": "no"}
    )
