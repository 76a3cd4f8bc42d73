"""Several studies in one server: a list of links, and each below a path of its own.

A path holds a name that was given at the start and is looked up as it is; no request names a file.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from goalward.errors import BadParameter, GoalwardError
from goalward.studio.server.pages import page
from goalward.studio.server.roles import CallerOf
from goalward.studio.server.rows import encodable
from goalward.studio.server.served_study import ServedStudy
from goalward.studio.store.places import shown
from goalward.studio.store.store import studies_at
from goalward.studio.study import Study
from goalward.studio.study.ledger import WAIT

BELOW = "/s"
"""The path of studies, each by its name."""
study_list = APIRouter()
"""Routes of a server with several studies."""


class StudyList(ExitStack):
    """Open studies by name, and why others could not be opened.

    Parameters
    ----------
    places
        Paths or addresses of studies; of a database or a folder, all that are there.
    tick
        Called with what is being done.
    """

    def __init__(
        self, places: Iterable[str], tick: Callable[[str], None] = lambda message: None
    ) -> None:
        super().__init__()
        self.studies: dict[str, Study] = {}
        self.unopened: dict[str, str] = {}
        every = [one for place in places for one in _studies_at(place)]
        alike = Counter(map(path_name, every))
        for place in every:
            name = path_name(place)
            tick(f"opening {shown(place)}")
            try:
                study = self.enter_context(Study.open(place, tick=tick, timeout=WAIT))
                # The rows too, before the page opens, not with its first answer.
                study.pool  # noqa: B018
            except GoalwardError as error:
                # Strangers need not know the folders of this machine.
                reason = str(error).replace(f"{Path(place).absolute().parent}/", "")
                self.unopened[self._free(name)] = reason
            else:
                # A name of several leads to none of them: tomorrow it might lead to another.
                name = name if alike[name] == 1 else f"{name}-{study.identity[:8]}"
                self.studies[self._free(name)] = study
        if not self.studies:
            self.close()
            reasons = " ".join(self.unopened.values()) or "No study was named."
            raise BadParameter(f"There is nothing to serve. {reasons}")

    def _free(self, name: str) -> str:
        names = (f"{name}-{n}" if n > 1 else name for n in count(1))
        return next(free for free in names if free not in {*self.studies, *self.unopened})


def _studies_at(place: str) -> list[str]:
    try:
        return studies_at(place)
    except GoalwardError:
        return [place]  # opening it says why


def path_name(place: str) -> str:
    """Return the name of a study in paths.

    Examples
    --------
    >>> path_name("data/Reviews 2026.labels.db"), path_name("postgresql://me@host/db?study=mails")
    ('reviews-2026', 'mails')
    """
    return re.sub(r"[^a-z0-9]+", "-", _title(shown(place)).lower()).strip("-") or "study"


def _title(place: str) -> str:
    return re.sub(r".*[/=]|(\.labels)?\.db$", "", place)


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
        else {"name": name, "title": _title(served.name), **_progress(served)}
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
