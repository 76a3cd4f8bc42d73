"""The pages: label, review, scores, the list of studies, and the documentation of the interface."""

from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse, Response

from goalward.errors import GoalwardError
from goalward.studio.server.api import PageNumber, Served, visible_answers
from goalward.studio.server.auth import Caller, CallerOf
from goalward.studio.server.security import home, origin, root
from goalward.studio.server.served_study import ServedStudy, title
from goalward.studio.server.shown_rows import AnswerFilter, encodable, row_name
from goalward.studio.study.rounds import ready
from goalward.studio.study.scores import wilson
from goalward.studio.study.state import Description

TEMPLATES = Environment(
    loader=PackageLoader("goalward.studio.server"), autoescape=True, undefined=StrictUndefined
)
pages = APIRouter(include_in_schema=False)
study_list = APIRouter()
"""Routes of a server with several studies, each below `BELOW`/NAME."""
BELOW = "/s"


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
        colours=[state.described.get(k, Description()).colour for k in range(len(state.classes))],
        annotators=state.annotators,
        kind=state.settings.kind,
        links={n: "?" + urlencode({**kept, "at": n}) for n in (at - 1, at, at + 1)},
        at=at,
    )


@pages.get("/scores")
def _scores(request: Request, served: Served) -> Response:
    study = served.study
    view = study.state.view if ready(study.state) else {}
    scores, people = view.get("scores"), view.get("people")
    if people is None:
        people = [person.says for person in study.reliability()]
    largest = (scores or {}).get("largest", ())
    return page(
        request,
        "scores.html",
        served,
        scores=scores,
        summary=served.summary(),
        agree=[*(pair.says for pair in study.agreement()), *people],
        share=wilson,
        names={off["row"]: row_name(study.show(off["row"])) for off in largest},
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
            takes = [{**taken, **taken["schema"]} for taken in call.get("parameters", [])]
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


@study_list.get("/", include_in_schema=False)
def _list(request: Request, caller: CallerOf, who: str = "") -> Response:
    asked = "?who=ask" if who == "ask" else ""
    listed = studies(request, caller)
    return page(request, "studies.html", None, studies=listed, below=BELOW, asked=asked)


@study_list.get("/api/studies")
def studies(request: Request, caller: CallerOf) -> list[dict[str, Any]]:
    """List the studies in which the caller has a role: their progress, and the model's accuracy."""
    every: dict[str, ServedStudy | None] = request.app.state.studies
    unopened: dict[str, str] = request.app.state.unopened
    return [
        {"name": name, "title": name, "trouble": encodable(unopened[name])}
        if served is None
        else {"name": name, "title": title(served.name), **_progress(served)}
        for name, served in sorted(every.items(), key=lambda item: (item[1] is None, item[0]))
        if caller.principal.role("" if served is None else served.id)
    ]


def _progress(served: ServedStudy) -> dict[str, Any]:
    """Return the progress of a study, or why it cannot be read just now."""
    try:
        summary = served.summary()
    except GoalwardError as error:
        return {"trouble": encodable(str(error))}
    return {name: summary[name] for name in ("rows", "labels", "skipped", "accuracy", "trouble")}
