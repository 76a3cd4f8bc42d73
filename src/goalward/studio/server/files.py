"""What goes out as files: pictures, exports, and the live stream."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, HTTPException, Request
from starlette.background import BackgroundTask
from starlette.responses import FileResponse, Response, StreamingResponse

from goalward.errors import DataMissing
from goalward.studio.server.api import ERRORS, PathRow, Served, known
from goalward.studio.server.live_updates import EACH, MOST
from goalward.studio.server.roles import still_allowed
from goalward.studio.server.served_study import ServedStudy

__all__ = ["files"]

SEALED = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox"}
"""For files that are shown inside the page or opened by themselves: no scripts at all."""
TYPES = {
    "csv": "text/csv; charset=utf-8",
    "tsv": "text/tab-separated-values; charset=utf-8",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "jsonl": "application/x-ndjson",
    "parquet": "application/vnd.apache.parquet",
}
Format = Literal["csv", "tsv", "xlsx", "jsonl", "parquet"]

files = APIRouter(prefix="/api", responses=ERRORS)
"""The routes that answer with files."""


def _answers(*kinds: str) -> dict[str, Any]:
    content = {200: {"content": {kind: {} for kind in kinds}, "description": "The file."}}
    return {"response_class": Response, "responses": content}


@files.get("/images/{row}", **_answers("image/*"))
def images(row: PathRow, served: Served) -> Response:
    """Return the picture of a row."""
    table = served.study.pool.table
    if table is None:
        raise DataMissing(f"Row {row} has no picture.")
    content, kind = table.picture(known(served, row), served.images)
    return Response(content, media_type=kind, headers=SEALED)


@files.get("/export", **_answers(*(kind.partition(";")[0] for kind in TYPES.values())))
def export(
    request: Request, served: Served, format: Format = "csv", raw: bool = False, every: bool = False
) -> Response:
    """Return the labels with the table's columns; formula-like cells escaped unless `raw`."""
    return _download(
        request,
        served,
        f"labels.{format}",
        lambda path: served.study.export(path, raw=raw, every=every),
    )


@files.get("/predictions", **_answers(*(kind.partition(";")[0] for kind in TYPES.values())))
def predictions(
    request: Request, served: Served, format: Format = "csv", raw: bool = False
) -> Response:
    """Return every row of the table with its label: a person's, or the model's and how sure it is."""
    return _download(
        request,
        served,
        f"predictions.{format}",
        lambda path: served.read().write_predictions(path, raw=raw),
    )


def _download(
    request: Request, served: ServedStudy, name: str, write: Callable[[Path], Any]
) -> Response:
    """Return a file that is written now, under the table's name and its own."""
    folder = TemporaryDirectory()
    path = Path(folder.name) / name
    try:
        write(path)
        if served.keys.team is not None:
            # Before a byte is sent.
            served.study.exported(name, by=request.state.person.name or "token")
    except BaseException:
        folder.cleanup()
        raise
    stem = re.sub(r"(\.labels)?\.\w+(\.gz)?$", "", served.title) or "table"
    kind, done = TYPES[path.suffix[1:]], BackgroundTask(folder.cleanup)
    # Sent in pieces: a large table is never in memory for it.
    return FileResponse(path, media_type=kind, filename=f"{stem}-{name}", background=done)


@files.get("/events", include_in_schema=False)
async def events(
    request: Request,
    served: Served,
    last_event_id: Annotated[str | None, Header(max_length=100)] = None,
) -> StreamingResponse:
    """Push a summary whenever something changed (server-sent events)."""
    name: str | None = request.state.person.name
    if served.live.listeners >= MOST:
        raise HTTPException(503, f"{MOST} pages are open already; close some.")
    if name is not None and served.live.by[name] >= EACH:
        raise HTTPException(503, f"{EACH} pages of {name} are open already; close some.")

    async def summaries() -> AsyncIterator[str]:
        async with aclosing(served.live.listen(last_event_id, name)) as messages:
            async for message in messages:
                if not await still_allowed(request):
                    break
                yield message

    return StreamingResponse(
        summaries(),
        media_type="text/event-stream",
        headers={"x-accel-buffering": "no"},
    )
