"""Several studies in one server: a list of them, and each below a path of its own.

A path holds a name that was given at the start and is looked up as it is; no request names a file.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, Self

from fastapi import APIRouter, Request
from starlette.responses import Response

from goalward.errors import BadParameter, GoalwardError
from goalward.studio.server.keys import Speaker
from goalward.studio.server.pages import page
from goalward.studio.server.rows import legible
from goalward.studio.server.served_study import ServedStudy
from goalward.studio.store.places import shown
from goalward.studio.store.store import studies_at
from goalward.studio.study import Study
from goalward.studio.study.ledger import WAIT

__all__ = ["BELOW", "House", "house"]

BELOW = "/s"
"""Where studies stand, each by its name."""

house = APIRouter()
"""The routes of a server with several studies, beside those of each."""


class House:
    """Studies by name, and what kept the others from being opened.

    Parameters
    ----------
    places
        Paths or addresses of the studies; of a database or a folder, all that are there.
    tick
        Called with what is being done.
    """

    def __init__(
        self, places: Iterable[str], tick: Callable[[str], None] = lambda message: None
    ) -> None:
        self.studies: dict[str, Study] = {}
        self.troubles: dict[str, str] = {}
        self._opened = ExitStack()
        found: list[tuple[str, Study | GoalwardError]] = []
        for place in places:
            try:
                found += [(one, self._open(one, tick)) for one in studies_at(place)]
            except GoalwardError as error:
                found.append((place, error))
        alike = Counter(named(place) for place, _ in found)
        for place, one in found:
            name = named(place)
            if isinstance(one, Study):
                # A name of several leads to none of them: tomorrow it might lead to another.
                name = self._free(name if alike[name] == 1 else f"{name}-{one.identity[:8]}")
                self.studies[name] = one
            else:
                # Where things lie on this machine is nobody's business.
                said = str(one).replace(f"{Path(place).absolute().parent}/", "")
                self.troubles[self._free(name)] = said
        if not self.studies:
            self.close()
            said = " ".join(self.troubles.values()) or "No study came."
            raise BadParameter(f"There is nothing to serve; studies were expected. {said}")

    def _open(self, place: str, tick: Callable[[str], None]) -> Study | GoalwardError:
        tick(f"opening {shown(place)}")
        try:
            study = self._opened.enter_context(Study.open(place, tick=tick, timeout=WAIT))
            # The rows too, before the page opens, not with its first answer.
            study.pool  # noqa: B018
        except GoalwardError as error:
            return error
        return study

    def _free(self, name: str) -> str:
        taken = {*self.studies, *self.troubles}
        names = (f"{name}-{n}" if n > 1 else name for n in count(1))
        return next(one for one in names if one not in taken)

    def close(self) -> None:
        """Let go of all studies."""
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def named(place: str) -> str:
    """Return what a study goes by in paths.

    Examples
    --------
    >>> named("data/Reviews 2026.labels.db"), named("postgresql://me@host/db?study=mails")
    ('reviews-2026', 'mails')
    """
    return re.sub(r"[^a-z0-9]+", "-", _title(shown(place)).lower()).strip("-") or "study"


def _title(place: str) -> str:
    return re.sub(r".*[/=]|(\.labels)?\.db$", "", place)


@house.get("/", include_in_schema=False)
def _list(request: Request, who: str = "") -> Response:
    asked = "?who=ask" if who == "ask" else ""
    return page(request, "studies.html", None, studies=studies(request), below=BELOW, asked=asked)


@house.get("/api/studies")
def studies(request: Request) -> list[dict[str, Any]]:
    """List the studies: how far each is, who labels now, how good the model is, the last answer.

    Of a server with accounts, those in which somebody has a role.
    """
    listed: dict[str, ServedStudy | None] = request.app.state.listed()
    person: Speaker = request.state.person
    troubles: dict[str, str] = request.app.state.troubles
    return [
        {"name": name, "title": name, "trouble": legible(troubles[name])}
        if served is None
        else {"name": name, "title": _title(served.name), **_standing(served)}
        for name, served in sorted(listed.items(), key=lambda one: (one[1] is None, one[0]))
        if person.role("" if served is None else served.id)
    ]


def _standing(served: ServedStudy) -> dict[str, Any]:
    """Return where a study stands, or why that cannot be said just now."""
    try:
        summary, state = served.summary(), served.study.state
    except GoalwardError as error:
        return {"trouble": legible(str(error))}
    now = time.time()
    held = (pair for row in state.leases.values() for pair in row.items())
    newest = (state.last_change(by) for by in state.annotators)
    answered = max((one.after.at for one in newest if one and one.after), default=None)
    return {
        **{name: summary[name] for name in ("rows", "labels", "skipped", "left", "accuracy")},
        "labelling": sorted({by for by, lease in held if lease.live(now)}),
        "last": answered and datetime.fromtimestamp(answered, UTC).isoformat(timespec="minutes"),
        "trouble": summary["trouble"],
    }
