"""Who may do what: the least role that each route needs, whose name counts, whose answers are seen.

The table in docs/how-to/accounts.md is this one; what stands in no list is an owner's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Depends, Request
from starlette.exceptions import HTTPException

from goalward.studio.server.guard import OPEN
from goalward.studio.server.keys import Keys, Speaker
from goalward.studio.server.messages import AnswerFilter
from goalward.studio.server.rows import answered_rows, own_answers
from goalward.studio.study import Study
from goalward.studio.team import ROLES

__all__ = ["Own", "Who", "allowed", "least", "may", "seen_answers", "sees_others", "still_allowed"]

MEMBER = frozenset(
    {
        *("/people", "/logout", "/static/{name}", "/api/studies"),
        *("/api/team", "/api/team/revoke", "/api/team/passphrase"),
    }
)
"""Whoever is signed in: their own account, and a list of their own studies."""
ANNOTATOR = frozenset(
    {
        *("/", "/review", "/docs", "/api/events", "/api/refresh"),
        *("/api/ask", "/api/tell", "/api/skip", "/api/undo", "/api/withdraw", "/api/note"),
        *("/api/rows/{row}", "/api/images/{row}", "/api/why/{row}", "/api/words/{row}"),
        *("/api/status", "/api/curve", "/api/utilities", "/api/stop", "/api/answers"),
    }
)
"""Answer, and look; of what people said at their own answers only."""
REVIEWER = frozenset(
    {
        *("/scores", "/api/scores", "/api/agreement", "/api/classes"),
        *("/api/export", "/api/predictions"),
    }
)
"""See what others said, correct it, keep the guidelines, take results away."""


def least(path: str) -> str:
    """Return the least role that a route needs.

    Examples
    --------
    >>> least("/api/tell"), least("/api/export"), least("/api/team/invite")
    ('annotator', 'reviewer', 'owner')
    """
    return "annotator" if path in ANNOTATOR else "reviewer" if path in REVIEWER else "owner"


def may(person: Speaker, path: str, study: str = "") -> bool:
    """Return whether somebody may use a route, in a study."""
    if path in MEMBER or (path == "/" and not study):
        return True
    # Owners of one study own neither the others nor the team.
    role = person.role("" if path.startswith("/api/team") else study)
    return role is not None and ROLES.index(role) >= ROLES.index(least(path))


def study_of(request: Request) -> str:
    """Return the identity of the study that a request is about; "" where there is none."""
    served = getattr(request.app.state, "served", None)
    return "" if served is None else str(served.id)


async def allowed(request: Request) -> None:
    """Refuse what somebody's role does not reach."""
    path, study = request.scope["route"].path, study_of(request)
    if path in OPEN or may(request.state.person, path, study):
        return
    person: Speaker = request.state.person
    raise HTTPException(
        403,
        f"{person.name} is {person.role(study) or 'nobody'} here, and this is for the role "
        f"{least(path)}. Ask an owner of the team.",
    )


async def still_allowed(request: Request) -> bool:
    """Return whether who opened a stream may go on hearing it: they may be signed out meanwhile."""
    keys: Keys = request.app.state.keys
    if keys.team is None:
        return True
    try:
        person = await keys.speaker(request)
    except HTTPException:
        return False
    return person is not None and may(person, request.scope["route"].path, study_of(request))


def sees_others(request: Request) -> bool:
    """Return whether somebody may see what others answered."""
    return may(request.state.person, "/api/agreement", study_of(request))


def seen_answers(request: Request, study: Study, wanted: AnswerFilter, page: int) -> dict[str, Any]:
    """Return one page of answered rows: everybody's, or of an annotator of a team their own."""
    if sees_others(request):
        return answered_rows(study, wanted, page)
    name: str = request.state.person.name
    # Which label was used, and whether others disagree, would tell what they said.
    if wanted.label or wanted.by not in ("", name) or wanted.only not in ("all", "open"):
        said = (
            f"{name} is annotator here: answers of others are for reviewers. Leave the filter out."
        )
        raise HTTPException(403, said)
    return own_answers(study, wanted, page, name)


async def _who(request: Request) -> Callable[[str | None], str]:
    """Return what makes of a claimed name the one that counts: whoever signed in has theirs."""
    name: str | None = request.state.person.name

    def counts(claimed: str | None) -> str:
        if name is not None and claimed in (None, name):
            return name
        if name is None and claimed is not None:
            return claimed
        if claimed is None:
            raise HTTPException(422, "body.by: the name of who answers was expected.")
        raise HTTPException(
            403,
            f"{name} is signed in here, and cannot answer for {claimed}; nothing was stored. Answers "
            f"that were not sent stay in this browser until {claimed} signs in again.",
            {"x-goalward-person": "other"},
        )

    return counts


async def _own(request: Request) -> str | None:
    return None if sees_others(request) else request.state.person.name


Who = Annotated[Callable[[str | None], str], Depends(_who)]
"""Whose name stands beside what is stored."""
Own = Annotated[str | None, Depends(_own)]
"""Whose notes and answers alone may be seen; None: everybody's."""
