"""The pages: label, review, scores, and the interface's documentation."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, HTTPException, Query, Request
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, RedirectResponse, Response

from goalward.studio.server.api import Served
from goalward.studio.server.desk import Desk
from goalward.studio.server.guard import home, origin, root
from goalward.studio.server.keys import Speaker, TokenHolder
from goalward.studio.server.messages import AnswerFilter, ChosenTable, NewStudy, PageNumber
from goalward.studio.server.roles import may, seen_answers, sees_others, study_of
from goalward.studio.server.rows import legible, row_name
from goalward.studio.server.served_study import ServedStudy
from goalward.studio.study.pools import told
from goalward.studio.study.rounds import ready
from goalward.studio.study.scores import wilson
from goalward.studio.study.study import Study

__all__ = ["page", "pages", "start"]


TEMPLATES = Environment(
    loader=PackageLoader("goalward.studio.server"), autoescape=True, undefined=StrictUndefined
)

pages = APIRouter(include_in_schema=False)
"""The routes that people open."""


def page(
    request: Request, name: str, served: ServedStudy | None, status: int = 200, **values: Any
) -> HTMLResponse:
    """Return a page; without a study it has nothing to lead to."""
    values |= {"root": root(request), "home": home(request), "page": name}
    person: Speaker = getattr(request.state, "person", None) or TokenHolder()
    values |= {"person": person, "may": lambda path: may(person, path, study_of(request))}
    body = TEMPLATES.get_template(name).render(served=served, **values)
    return HTMLResponse(body, status)


@pages.get("/")
def _label(request: Request, served: Served) -> Response:
    said = [legible(line) for line in told(served.study.state.pool)]
    return page(request, "label.html", served, summary=served.summary(), told=said)


class _ReviewWanted(AnswerFilter):
    at: PageNumber = 0


@pages.get("/review")
def _review(
    request: Request, wanted: Annotated[_ReviewWanted, Query()], served: Served
) -> Response:
    at, state = wanted.at, served.study.state
    kept = wanted.model_dump(exclude_defaults=True)
    return page(
        request,
        "review.html",
        served,
        found=seen_answers(request, served.study, wanted, at),
        everybody=sees_others(request),
        chosen=wanted.model_dump(),
        classes=list(state.classes),
        annotators=state.annotators,
        kind=state.settings.kind,
        links={n: "?" + urlencode({**kept, "at": n}) for n in (at - 1, at + 1)},
        at=at,
    )


@pages.get("/scores")
def _scores(request: Request, served: Served) -> Response:
    study = served.study
    found = study.scores(last=True) if ready(study.state) else None
    pairs = [*study.agreement(), *study.reliability()]
    values: dict[str, Any] = {
        "scores": found,
        "summary": served.summary(),
        "pairs": pairs,
        "share": wilson,
    }
    largest = getattr(found, "largest", ())
    names = {one.row: row_name(study.show(one.row)) for one in largest}
    return page(request, "scores.html", served, **values, names=names)


@pages.get("/docs")
def _docs(request: Request, served: Served) -> Response:
    described = _endpoints(request.app.openapi())
    here = origin(request) + root(request)
    return page(
        request, "docs.html", served, endpoints=described, cookie=served.keys.cookie, here=here
    )


def _endpoints(openapi: dict[str, Any]) -> list[dict[str, Any]]:
    """Return method, path, words and parameters of every call of an OpenAPI description."""
    schemas = openapi["components"]["schemas"]
    described = []
    for path, calls in openapi["paths"].items():
        for method, call in calls.items():
            takes = [
                _taken(one["name"], one["in"], one["schema"], one.get("required", False))
                for one in call.get("parameters", [])
            ]
            if "requestBody" in call:
                (content,) = call["requestBody"]["content"].values()
                body = schemas[content["schema"]["$ref"].rpartition("/")[2]]
                takes += [
                    _taken(name, "body", schema, name in body.get("required", ()))
                    for name, schema in body["properties"].items()
                ]
            words = call["description"]
            described.append(
                {"method": method.upper(), "path": path, "words": words, "takes": takes}
            )
    return described


def _taken(name: str, where: str, schema: dict[str, Any], needed: bool) -> dict[str, Any]:
    kinds = [one.get("type", "anything") for one in schema.get("anyOf", [schema])]
    kind = " or ".join(dict.fromkeys(schema.get("enum", kinds)))
    if "default" in schema:
        kind += f", {json.dumps(schema['default'])} by default"
    words = schema.get("description", "")
    return {"name": name, "where": where, "kind": kind, "needed": needed, "words": words}


# The routes of the start page: a table is chosen or brought, looked at, and becomes a study.


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
