"""The pages: label, review, scores, and the documentation of the HTTP interface."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse, Response

from goalward.studio.server.api import PageNumber, Served, visible_answers
from goalward.studio.server.roles import Caller, CallerOf
from goalward.studio.server.rows import AnswerFilter, encodable, row_name
from goalward.studio.server.security import home, origin, root
from goalward.studio.server.served_study import ServedStudy
from goalward.studio.study.rounds import ready
from goalward.studio.study.scores import wilson

TEMPLATES = Environment(
    loader=PackageLoader("goalward.studio.server"), autoescape=True, undefined=StrictUndefined
)
pages = APIRouter(include_in_schema=False)


def page(
    request: Request, name: str, served: ServedStudy | None, status: int = 200, **values: Any
) -> HTMLResponse:
    """Return a page; without a study it has no navigation."""
    caller = Caller.of(request)
    values |= {"root": root(request), "home": home(request), "page": name}
    values |= {"person": caller.principal, "may": caller.may}
    return HTMLResponse(TEMPLATES.get_template(name).render(served=served, **values), status)


@pages.get("/")
def _label(request: Request, served: Served) -> Response:
    remarks = [encodable(line) for line in served.study.pool_notes]
    return page(request, "label.html", served, summary=served.summary(), remarks=remarks)


class _ReviewWanted(AnswerFilter):
    at: PageNumber = 0


@pages.get("/review")
def _review(
    request: Request, wanted: Annotated[_ReviewWanted, Query()], served: Served, caller: CallerOf
) -> Response:
    at, state = wanted.at, served.study.state
    kept = wanted.model_dump(exclude_defaults=True)
    return page(
        request,
        "review.html",
        served,
        found=visible_answers(served, caller, wanted, at),
        everybody=caller.own is None,
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
    scores = study.scores(last=True) if ready(study.state) else None
    largest = getattr(scores, "largest", ())
    return page(
        request,
        "scores.html",
        served,
        scores=scores,
        summary=served.summary(),
        pairs=[*study.agreement(), *study.reliability()],
        share=wilson,
        names={error.row: row_name(study.show(error.row)) for error in largest},
    )


@pages.get("/docs")
def _docs(request: Request, served: Served) -> Response:
    openapi = request.app.openapi()
    here = origin(request) + root(request)
    return page(request, "docs.html", served, calls=_calls(openapi), here=here)


def _calls(openapi: dict[str, Any]) -> list[dict[str, Any]]:
    """Return method, path, description and parameters of every call of an OpenAPI description."""
    schemas = openapi["components"]["schemas"]
    calls = []
    for path, methods in openapi["paths"].items():
        for method, call in methods.items():
            takes = [{**one, **one["schema"]} for one in call.get("parameters", [])]
            if "requestBody" in call:
                (content,) = call["requestBody"]["content"].values()
                body = schemas[content["schema"]["$ref"].rpartition("/")[2]]
                takes += [
                    {"name": name, "in": "body", "required": name in body.get("required", ())}
                    | schema
                    for name, schema in body["properties"].items()
                ]
            calls.append({"method": method, "path": path, "takes": takes, **call})
    return calls
