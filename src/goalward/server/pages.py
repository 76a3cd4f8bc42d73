"""The pages: label, review, scores, and the interface's documentation."""

from __future__ import annotations

import json
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse, Response

from goalward.server.addresses import home, origin, root
from goalward.server.api import Served
from goalward.server.keys import Speaker, TokenHolder
from goalward.server.messages import AnswerFilter, PageNumber
from goalward.server.roles import may, seen_answers, sees_others, study_of
from goalward.server.rows import legible, row_name
from goalward.server.served_study import ServedStudy
from goalward.study.pools import told
from goalward.study.rounds import ready
from goalward.study.scores import wilson

__all__ = ["page", "pages"]

TEMPLATES = Environment(
    loader=PackageLoader("goalward.server"), autoescape=True, undefined=StrictUndefined
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
