"""The pages: label, review, sign in, and the interface's documentation. All from our own files."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Annotated, Any
from urllib.parse import parse_qs, urlencode

from fastapi import APIRouter, HTTPException, Query, Request
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse, RedirectResponse, Response

from goalward.server.api import PageNumber, Served
from goalward.server.messages import AnswerFilter
from goalward.server.rows import answered_rows
from goalward.server.served_study import ServedStudy

__all__ = ["endpoints", "pages"]

TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
# All read at the start: a request can name a file, never a path.
STATIC = {
    file.name: file.read_bytes()
    for file in (files("goalward.server") / "static").iterdir()
    if file.name.rpartition(".")[2] in TYPES
}
TEMPLATES = Environment(
    loader=PackageLoader("goalward.server"), autoescape=True, undefined=StrictUndefined
)

pages = APIRouter(include_in_schema=False)
"""The routes that people open."""


def _page(name: str, served: ServedStudy, status: int = 200, **values: Any) -> HTMLResponse:
    body = TEMPLATES.get_template(name).render(served=served, page=name, **values)
    return HTMLResponse(body, status)


def _signed_in(served: ServedStudy, to: str) -> Response:
    response = RedirectResponse(to, 303)
    response.set_cookie(
        served.keys.cookie, served.keys.session, httponly=True, samesite="strict", path="/"
    )
    return response


@pages.get("/")
def label(served: Served) -> Response:
    """Return the page where rows are answered."""
    classes = list(served.study.state.classes)
    return _page("label.html", served, classes=classes, summary=served.summary())


class _ReviewWanted(AnswerFilter):
    at: PageNumber = 0


@pages.get("/review")
def review(wanted: Annotated[_ReviewWanted, Query()], served: Served) -> Response:
    """Return the list of answers."""
    at, only, search = wanted.at, wanted.only.value, wanted.search
    chosen = {"label": wanted.label or None, "by": wanted.by or None}
    listed = answered_rows(served.study, **chosen, only=only, search=search, page=at)
    chosen |= {"only": only, "search": search}
    kept = {name: value for name, value in chosen.items() if value and value != "all"}
    state = served.study.state
    return _page(
        "review.html",
        served,
        found=listed,
        chosen=chosen,
        classes=list(state.classes),
        annotators=state.annotators,
        links={n: "?" + urlencode({**kept, "at": n}) for n in (at - 1, at + 1)},
        at=at,
    )


@pages.get("/docs")
def docs(request: Request, served: Served) -> Response:
    """Return the documentation of the interface."""
    described = endpoints(request.app.openapi())
    here = str(request.base_url).rstrip("/")
    return _page("docs.html", served, endpoints=described, cookie=served.keys.cookie, here=here)


@pages.get("/start")
def start(request: Request, served: Served, token: str = "", who: str = "") -> Response:
    """Sign in who comes with a link, once."""
    # The redirect takes the token out of the address bar and the history.
    if served.keys.redeem(token):
        return _signed_in(served, "/?who=ask" if who == "ask" else "/")
    if served.keys.is_session(request.cookies.get(served.keys.cookie, "")):
        return RedirectResponse("/", 303)  # the link again, in the browser that used it
    return _page("login.html", served, 401, error="This link was used already, or is not ours.")


@pages.get("/login")
def login(served: Served) -> Response:
    """Ask for the token."""
    return _page("login.html", served, error=None)


@pages.post("/login")
async def log_in(request: Request, served: Served) -> Response:
    """Sign in who has the token."""
    form = parse_qs((await request.body()).decode("utf-8", "replace"))
    if served.keys.is_token("".join(form.get("token", [""]))):
        return _signed_in(served, "/?who=ask")
    return _page("login.html", served, 401, error="That is not the token.")


@pages.get("/static/{name}")
def asset(name: str) -> Response:
    """Return a style, script or picture of the pages."""
    if name not in STATIC:
        raise HTTPException(404, "There is no such file.")
    return Response(STATIC[name], media_type=TYPES[name.rpartition(".")[2]])


def endpoints(openapi: dict[str, Any]) -> list[dict[str, Any]]:
    """Return method, path, words and parameters of every call of an OpenAPI description."""
    schemas = openapi.get("components", {}).get("schemas", {})
    return [
        {
            "method": method.upper(),
            "path": path,
            "words": call.get("description", ""),
            "takes": [_query(one) for one in call.get("parameters", [])] + _body(call, schemas),
        }
        for path, calls in openapi["paths"].items()
        for method, call in calls.items()
    ]


def _query(parameter: dict[str, Any]) -> dict[str, Any]:
    schema = parameter["schema"]
    return {
        "name": parameter["name"],
        "where": parameter["in"],
        "kind": _kind(schema),
        "needed": parameter.get("required", False),
        "words": parameter.get("description", schema.get("description", "")),
    }


def _body(call: dict[str, Any], schemas: dict[str, Any]) -> list[dict[str, Any]]:
    if "requestBody" not in call:
        return []
    (content,) = call["requestBody"]["content"].values()
    schema = schemas[content["schema"]["$ref"].rpartition("/")[2]]
    return [
        {
            "name": name,
            "where": "body",
            "kind": _kind(one),
            "needed": name in schema.get("required", []),
            "words": one.get("description", ""),
        }
        for name, one in schema["properties"].items()
    ]


def _kind(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_kind(one) for one in schema["anyOf"]))
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2]).lower()
    kind = str(schema.get("type", "anything"))
    if "default" in schema:
        kind += f", {json.dumps(schema['default'])} by default"
    return kind
