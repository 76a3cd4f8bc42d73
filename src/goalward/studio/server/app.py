"""The application: a guard at the door, pages and interface behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from goalward.errors import (
    BadInput,
    BadParameter,
    DataMissing,
    GoalwardError,
    Locked,
    NotConverged,
    NotWritten,
    PoolChanged,
    Replaced,
    Separable,
)
from goalward.studio.server.api import api
from goalward.studio.server.desk import Desk
from goalward.studio.server.files import files
from goalward.studio.server.guard import Guard
from goalward.studio.server.house import BELOW, house
from goalward.studio.server.keys import Keys
from goalward.studio.server.operation import operation
from goalward.studio.server.outside import DIRECT, Outside
from goalward.studio.server.pages import page, pages, start
from goalward.studio.server.people import door, people
from goalward.studio.server.roles import allowed
from goalward.studio.server.rows import legible
from goalward.studio.server.served_study import ServedStudy

__all__ = ["create_app", "create_house"]

STATUS: dict[type[GoalwardError], int] = {
    DataMissing: 404,
    BadInput: 422,
    # The present labels allow no number that can be trusted; later ones may.
    NotConverged: 409,
    Separable: 409,
    PoolChanged: 409,
    # Nothing was stored: the page keeps the answer until the study is back.
    NotWritten: 507,
    Replaced: 507,
    Locked: 503,
    GoalwardError: 500,
}
"""What an error is answered with; the nearest of its classes decides."""


def create_app(
    served: ServedStudy | None = None,
    *,
    desk: Desk | None = None,
    hosts: Iterable[str] = (),
    remote: bool = False,
    outside: Outside = DIRECT,
) -> FastAPI:
    """Return the application over a study, or a desk where one begins; see `Guard` for the others."""
    first = served or desk
    if first is None:
        raise BadParameter("Neither a study nor a desk came; one of them was expected.")

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as running:

            async def serve(study: ServedStudy) -> None:
                await running.enter_async_context(study.open())
                app.state.served = study

            app.state.running, app.state.serve = running, serve
            if served is not None:
                await serve(served)
            yield

    app = _application(lifespan)
    app.state.served, app.state.desk, app.state.keys = served, desk, first.keys
    app.state.listed = lambda: {"": app.state.served}
    _guarded(app, first.keys, hosts, remote, outside, uploads=desk is not None)
    for router in (pages, operation, api, files, *([start] if desk else [])):
        app.include_router(router)
    return app


def create_house(
    studies: Mapping[str, ServedStudy],
    troubles: Mapping[str, str],
    *,
    keys: Keys,
    hosts: Iterable[str] = (),
    remote: bool = False,
    outside: Outside = DIRECT,
) -> FastAPI:
    """Return the application over several studies, each an application below one guard.

    Parameters
    ----------
    troubles
        Why others could not be opened; the list says so.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as running:
            for served in studies.values():
                await running.enter_async_context(served.open())
            yield
            for served in studies.values():
                served.refitter.end()

    app = _application(lifespan)
    app.state.keys, app.state.troubles = keys, troubles
    app.state.listed = lambda: {**studies, **dict.fromkeys(troubles)}
    _guarded(app, keys, hosts, remote, outside)
    for router in (house, operation):
        app.include_router(router)
    for name, served in studies.items():
        one = _application()
        one.state.served, one.state.keys = served, keys
        for router in (pages, api, files):
            one.include_router(router)
        app.mount(f"{BELOW}/{name}", one)
    return app


def _guarded(
    app: FastAPI,
    keys: Keys,
    hosts: Iterable[str],
    remote: bool,
    outside: Outside,
    *,
    uploads: bool = False,
) -> None:
    replies = app.state.replies = Counter[int]()
    app.add_middleware(
        Guard,
        keys=keys,
        hosts=hosts,
        remote=remote,
        uploads=uploads,
        replies=replies,
        outside=outside,
    )
    for router in (door, *([people] if keys.team else [])):
        app.include_router(router)


def _application(lifespan: Any = None) -> FastAPI:
    return FastAPI(
        title="goalward",
        description="Ask and tell over a durable study. Rows are numbers, names are annotators'.",
        # The stock pages load scripts from outside; /docs is our own.
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        dependencies=[Depends(allowed)],
        exception_handlers={
            **{kind: partial(_on_purpose, status) for kind, status in STATUS.items()},
            HTTPException: _refused,
            RequestValidationError: _unfit,
        },
    )


async def _on_purpose(status: int, request: Request, error: Exception) -> JSONResponse:
    return _problem(str(error), status)


async def _refused(request: Request, error: HTTPException) -> Response:
    said = str(error.detail)
    if error.status_code == 403 and "text/html" in request.headers.get("accept", ""):
        return page(request, "refused.html", None, 403, said=legible(said))
    if error.status_code == 400 and error.__cause__ is not None:
        # Too deep, a number of thousands of digits, not UTF-8: FastAPI only says that it failed.
        said = "The body could not be read; a JSON object as /docs describes it was expected."
    return _problem(said, error.status_code, error.headers)


async def _unfit(request: Request, error: RequestValidationError) -> JSONResponse:
    # What came is not repeated: it may be long, or nothing that JSON can say.
    said = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:5]]
    return _problem("; ".join(said), 422)


def _problem(text: str, status: int, headers: Any = None) -> JSONResponse:
    return JSONResponse({"error": legible(text)}, status, headers=headers)
