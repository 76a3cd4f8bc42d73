"""What goes out as files: charts, pictures, exports, and the live stream."""

from __future__ import annotations

from collections.abc import AsyncIterator
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from fastapi import APIRouter, Header, HTTPException
from starlette.responses import Response, StreamingResponse

from goalward.server.api import SAID, Number, known
from goalward.server.charts import Chart, Look
from goalward.server.desk import Desk
from goalward.server.images import picture
from goalward.server.live import MOST

__all__ = ["Format", "files"]

SEALED = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
"""For files that are shown inside the page or opened by themselves: no scripts at all."""


class Format(StrEnum):
    """How labels are written."""

    csv = "csv"
    tsv = "tsv"
    jsonl = "jsonl"
    parquet = "parquet"


TYPES = {
    Format.csv: "text/csv; charset=utf-8",
    Format.tsv: "text/tab-separated-values; charset=utf-8",
    Format.jsonl: "application/x-ndjson",
    Format.parquet: "application/vnd.apache.parquet",
}


def _answers(*kinds: str) -> dict[int | str, dict[str, Any]]:
    return {200: {"content": {kind: {} for kind in kinds}, "description": "The file."}}


def files(desk: Desk) -> APIRouter:
    """Return the routes under /api that answer with files."""
    router = APIRouter(prefix="/api", responses=SAID)

    @router.get("/charts/{chart}.svg", response_class=Response, responses=_answers("image/svg+xml"))
    def charts(chart: Chart, look: Look = Look.light) -> Response:
        """Return a chart of the newest ranking."""
        content = desk.charts.draw(desk.study.state, chart, look)
        return Response(
            content, media_type="image/svg+xml", headers={"content-security-policy": SEALED}
        )

    @router.get("/images/{row}", response_class=Response, responses=_answers("image/*"))
    def images(row: Number) -> Response:
        """Return the picture of a row."""
        content, kind = picture(desk.study, known(desk, row), desk.images)
        return Response(content, media_type=kind, headers={"content-security-policy": SEALED})

    @router.get(
        "/export",
        response_class=Response,
        responses=_answers(*(kind.partition(";")[0] for kind in TYPES.values())),
    )
    def export(format: Format = Format.csv, raw: bool = False, every: bool = False) -> Response:
        """Return the labels with the table's columns; formula-like cells escaped unless `raw`."""
        with TemporaryDirectory() as folder:
            path = Path(folder) / f"labels.{format.value}"
            desk.study.export(path, raw=raw, every=every)
            content = path.read_bytes()
        headers = {"content-disposition": f'attachment; filename="labels.{format.value}"'}
        return Response(content, media_type=TYPES[format], headers=headers)

    @router.get("/events", include_in_schema=False)
    async def events(
        last_event_id: Annotated[str | None, Header(max_length=100)] = None,
    ) -> StreamingResponse:
        """Push a summary whenever something changed (server-sent events)."""
        if desk.live.listeners >= MOST:
            raise HTTPException(503, f"{MOST} pages are open already; close some.")
        stream: AsyncIterator[str] = desk.live.listen(last_event_id)
        return StreamingResponse(
            stream, media_type="text/event-stream", headers={"x-accel-buffering": "no"}
        )

    return router
