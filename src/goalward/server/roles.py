"""Who may do what: the least role that each route needs, and `allowed`, which holds to it.

The table in docs/how-to/accounts.md is this one; what stands in no list is an owner's.
"""

from __future__ import annotations

from fastapi import Request
from starlette.exceptions import HTTPException

from goalward.server.guard import OPEN
from goalward.server.keys import Speaker
from goalward.team import ROLES

__all__ = ["ANNOTATOR", "MEMBER", "REVIEWER", "allowed", "least", "may", "sees_others", "study_of"]

MEMBER = frozenset(
    {"/people", "/logout", "/static/{name}", "/api/team", "/api/team/revoke", "/api/studies"}
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


def sees_others(request: Request) -> bool:
    """Return whether somebody may see what others answered."""
    return may(request.state.person, "/api/agreement", study_of(request))
