"""The routes of the start page: a table is chosen or brought, looked at, and becomes a study."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from goalward.server.addresses import root
from goalward.server.desk import Desk
from goalward.server.messages import ChosenTable, NewStudy
from goalward.server.pages import page
from goalward.study import Study

__all__ = ["start"]


async def _desk(request: Request) -> Desk:
    desk: Desk = request.app.state.desk
    return desk


AtDesk = Annotated[Desk, Depends(_desk)]
start = APIRouter(include_in_schema=False)
"""The routes of a server that was started without a study."""


@start.get("/new")
def _new(request: Request, desk: AtDesk) -> Response:
    if request.app.state.served is not None:
        return RedirectResponse(f"{root(request)}/", 303)
    folder = desk.folder.resolve().name
    return page(request, "start.html", None, listed=desk.listed(), folder=folder)


@start.post("/api/start/upload")
async def _upload(
    request: Request, desk: AtDesk, name: Annotated[str, Query(min_length=1, max_length=300)]
) -> dict[str, int]:
    try:
        return {"table": await desk.bring(name, request.stream())}
    except TimeoutError:
        raise HTTPException(408, "The file stopped coming. Bring it again.") from None


@start.post("/api/start/look")
def _look(chosen: ChosenTable, desk: AtDesk) -> dict[str, Any]:
    return desk.look(chosen.table, chosen.sheet)


@start.post("/api/start/study")
async def _study(wanted: NewStudy, request: Request, desk: AtDesk) -> dict[str, str]:
    return await _begun(request, lambda: desk.begin(wanted))


@start.post("/api/start/sample")
async def _sample(request: Request, desk: AtDesk) -> dict[str, str]:
    return await _begun(request, desk.sample)


async def _begun(request: Request, make: Callable[[], Study]) -> dict[str, str]:
    """Make a study and serve it from now on; one server has one."""
    state, desk = request.app.state, request.app.state.desk
    async with desk.beginning:
        if state.served is not None:
            raise HTTPException(409, "A study is open here already; reload the page.")
        study = await run_in_threadpool(make)
        state.running.callback(study.close)
        # The rows before the page opens, not with its first answer.
        await run_in_threadpool(lambda: study.pool)
        await state.serve(desk.serving(study))
    return {"path": f"{root(request)}/"}
