"""The pages: label, review, sign in, and the interface's documentation. All from our own files."""

from __future__ import annotations

from importlib.resources import files
from typing import Annotated, Any
from urllib.parse import parse_qs, urlencode

from fastapi import APIRouter, HTTPException, Query, Request
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse, RedirectResponse, Response

from goalward.server.api import Filter, Only, Page
from goalward.server.desk import Desk
from goalward.server.endpoints import endpoints
from goalward.server.review import answered

__all__ = ["pages"]

TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


def pages(desk: Desk) -> APIRouter:
    """Return the routes that people open."""
    router = APIRouter(include_in_schema=False)
    jinja = Environment(
        loader=PackageLoader("goalward.server"), autoescape=True, undefined=StrictUndefined
    )
    # All read at the start: a request can name a file, never a path.
    home = files("goalward.server") / "static"
    static = {f.name: f.read_bytes() for f in home.iterdir() if f.name.rpartition(".")[2] in TYPES}

    def page(name: str, status: int = 200, **values: Any) -> HTMLResponse:
        body = jinja.get_template(name).render(desk=desk, study=desk.study, page=name, **values)
        return HTMLResponse(body, status)

    def signed_in(to: str) -> Response:
        response = RedirectResponse(to, 303)
        response.set_cookie(
            desk.keys.cookie, desk.keys.session, httponly=True, samesite="strict", path="/"
        )
        return response

    @router.get("/")
    def label() -> Response:
        state = desk.study.state
        return page("label.html", classes=list(state.classes), summary=desk.summary())

    @router.get("/review")
    def review(
        label: Filter = None,
        by: Filter = None,
        only: Only = Only.all,
        search: Annotated[str, Query(max_length=1000)] = "",
        at: Page = 0,
    ) -> Response:
        chosen = {"label": label or None, "by": by or None, "only": only.value, "search": search}
        found = answered(desk.study, **chosen, page=at)  # type: ignore[arg-type]
        kept = {k: v for k, v in chosen.items() if v and v != "all"}
        links = {n: "?" + urlencode({**kept, "at": n}) for n in (at - 1, at + 1)}
        state = desk.study.state
        return page(
            "review.html",
            found=found,
            chosen=chosen,
            classes=list(state.classes),
            annotators=state.annotators,
            links=links,
            at=at,
        )

    @router.get("/docs")
    def docs(request: Request) -> Response:
        described = endpoints(request.app.openapi())
        here = str(request.base_url).rstrip("/")
        return page("docs.html", endpoints=described, cookie=desk.keys.cookie, here=here)

    @router.get("/start")
    def start(request: Request, token: str = "", who: str = "") -> Response:
        # The redirect takes the token out of the address bar and the history.
        if desk.keys.redeem(token):
            return signed_in("/?who=ask" if who == "ask" else "/")
        if desk.keys.is_session(request.cookies.get(desk.keys.cookie, "")):
            return RedirectResponse("/", 303)  # the link again, in the browser that used it
        return page("login.html", 401, error="This link was used already, or is not ours.")

    @router.get("/login")
    def login() -> Response:
        return page("login.html", error=None)

    @router.post("/login")
    async def log_in(request: Request) -> Response:
        form = parse_qs((await request.body()).decode("utf-8", "replace"))
        if desk.keys.is_token("".join(form.get("token", [""]))):
            return signed_in("/?who=ask")
        return page("login.html", 401, error="That is not the token.")

    @router.get("/static/{name}")
    def asset(name: str) -> Response:
        if name not in static:
            raise HTTPException(404, "There is no such file.")
        return Response(static[name], media_type=TYPES[name.rpartition(".")[2]])

    return router
