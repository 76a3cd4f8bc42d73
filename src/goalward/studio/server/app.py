"""The application: security checks, then the pages and the HTTP interface of one or more studies."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from goalward import errors
from goalward.studio.server.accounts import sign_in, team_pages
from goalward.studio.server.api import api
from goalward.studio.server.auth import Auth, allowed
from goalward.studio.server.monitoring import monitoring
from goalward.studio.server.new_study import NewStudy, start
from goalward.studio.server.pages import BELOW, page, pages, study_list
from goalward.studio.server.security import DIRECT, ProxyConfig, SecurityMiddleware
from goalward.studio.server.served_study import ServedStudy
from goalward.studio.server.shown_rows import encodable

STATUS: dict[type[errors.GoalwardError], int] = {
    errors.DataMissing: 404,
    errors.BadInput: 422,
    # The present labels allow no number that can be trusted; later ones may.
    errors.NotConverged: 409,
    errors.Separable: 409,
    errors.PoolChanged: 409,
    # Nothing was stored: the page keeps the answer until the study is back.
    errors.NotWritten: 507,
    errors.Replaced: 507,
    errors.Locked: 503,
    errors.GoalwardError: 500,
}
"""The status of an error; the nearest of its classes decides."""


def create_app(
    studies: Mapping[str, ServedStudy],
    auth: Auth,
    *,
    unopened: Mapping[str, str] | None = None,
    new: NewStudy | None = None,
    proxy: ProxyConfig = DIRECT,
) -> FastAPI:
    """Return the application over studies by name, or over a new one; see `serve`."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as running:
            app.state.running = running
            for served in studies.values():
                await running.enter_async_context(served.open())
            yield
            for served in studies.values():
                served.refitter.end()

    alone = new is not None or "" in studies
    app = _application(auth, studies.get(""), lifespan)
    app.state.unopened, app.state.new = unopened or {}, new
    app.state.studies = {"": None} if alone else {}
    app.state.studies |= {**studies, **dict.fromkeys(app.state.unopened)}
    secured: dict[str, Any] = {"auth": auth, "proxy": proxy}
    app.add_middleware(SecurityMiddleware, **secured, uploads=new is not None)
    routers = [sign_in, monitoring, *([team_pages] if auth.team else [])]
    routers += [pages, api, *([start] if new else [])] if alone else [study_list]
    for router in routers:
        app.include_router(router)
    for name, served in {} if alone else studies.items():
        below = _application(auth, served)
        below.include_router(pages)
        below.include_router(api)
        app.mount(f"{BELOW}/{name}", below)
    return app


def _application(auth: Auth, served: ServedStudy | None, lifespan: Any = None) -> FastAPI:
    app = FastAPI(
        title="goalward",
        description="Ask and tell over a durable study. Rows are numbers, names are annotators'.",
        # The stock pages load scripts from outside; /docs is our own.
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        dependencies=[Depends(allowed)],
        exception_handlers={
            **{kind: partial(_failed, status) for kind, status in STATUS.items()},
            HTTPException: _refused,
            RequestValidationError: _invalid,
        },
    )
    app.state.auth, app.state.team, app.state.served = auth, auth.team, served
    return app


async def _failed(status: int, request: Request, error: Exception) -> JSONResponse:
    return _problem(str(error), status)


async def _refused(request: Request, error: HTTPException) -> Response:
    reason = str(error.detail)
    if error.status_code == 403 and "text/html" in request.headers.get("accept", ""):
        return page(request, "refused.html", None, 403, reason=encodable(reason))
    if error.status_code == 400 and error.__cause__ is not None:
        # Too deep, a number of thousands of digits, not UTF-8: FastAPI only says that it failed.
        reason = "The body must be a JSON object as described on /docs; it could not be parsed."
    return _problem(reason, error.status_code, error.headers)


async def _invalid(request: Request, error: RequestValidationError) -> JSONResponse:
    # The input is not repeated: it may be long, or not valid JSON.
    reasons = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:5]]
    return _problem("; ".join(reasons), 422)


def _problem(text: str, status: int, headers: Any = None) -> JSONResponse:
    return JSONResponse({"error": encodable(text)}, status, headers=headers)
