"""Authorization: the role that each route needs, whose name counts, whose answers are visible.

The table in docs/how-to/accounts.md is this one; a route in no list is for owners.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Self

from fastapi import Depends, Request
from starlette.exceptions import HTTPException

from goalward.studio.server.auth import Auth, Principal
from goalward.studio.server.security import OPEN
from goalward.studio.team import ROLES, Person

MEMBER = {
    *("/people", "/logout", "/static/{name}", "/api/studies"),
    *("/api/team", "/api/team/revoke", "/api/team/passphrase"),
}
"""For everybody who is signed in: their own account, and the list of their studies."""
ANNOTATOR = {
    *("/", "/review", "/docs", "/api/events", "/api/refresh"),
    *("/api/ask", "/api/tell", "/api/skip", "/api/undo", "/api/withdraw", "/api/note"),
    *("/api/rows/{row}", "/api/images/{row}", "/api/why/{row}", "/api/words/{row}"),
    *("/api/status", "/api/curve", "/api/utilities", "/api/stop", "/api/answers"),
}
REVIEWER = {
    *("/scores", "/api/scores", "/api/agreement", "/api/classes"),
    *("/api/export", "/api/predictions"),
}
NEEDED = dict.fromkeys(ANNOTATOR, "annotator") | dict.fromkeys(REVIEWER, "reviewer")


@dataclass(frozen=True)
class Caller:
    """Who sends a request, and the identity of the study it is about ("" for none)."""

    principal: Principal
    study: str

    @classmethod
    def of(cls, request: Request) -> Self:
        """Return the caller of a request; nobody has to be signed in for the routes of `OPEN`."""
        served = getattr(request.app.state, "served", None)
        return cls(request.state.principal or Person(""), "" if served is None else served.id)

    def may(self, path: str) -> bool:
        """Return whether the caller may use a route."""
        if path in MEMBER or (path == "/" and not self.study):
            return True
        # Owners of one study own neither the others nor the team.
        role = self.principal.role("" if path.startswith("/api/team") else self.study)
        return role is not None and ROLES.index(role) >= ROLES.index(NEEDED.get(path, "owner"))

    @property
    def own(self) -> str | None:
        """The name of a caller who sees only their own answers and notes; None for all others."""
        return None if self.may("/api/agreement") else self.principal.name

    def annotator(self, claimed: str | None) -> str:
        """Return the name that is stored: of whoever signed in, or the one a program claims."""
        name = self.principal.name
        if name is not None and claimed not in (None, name):
            raise HTTPException(
                403,
                f"{name} is signed in here and cannot answer for {claimed}; nothing was stored. "
                f"Unsent answers stay in this browser until {claimed} signs in again.",
                {"x-goalward-person": "other"},
            )
        if name is None and claimed is None:
            raise HTTPException(422, "body.by: the name of the annotator is needed.")
        return str(name or claimed)


async def _caller(request: Request) -> Caller:
    return Caller.of(request)


CallerOf = Annotated[Caller, Depends(_caller)]


async def allowed(request: Request, caller: CallerOf) -> None:
    """Refuse a request that needs a higher role."""
    path = request.scope["route"].path
    if path not in OPEN and not caller.may(path):
        role = caller.principal.role(caller.study) or "nobody"
        raise HTTPException(
            403,
            f"{caller.principal.name} is {role} here, and this needs the role "
            f"{NEEDED.get(path, 'owner')}. Ask an owner of the team.",
        )


async def still_allowed(request: Request, caller: Caller) -> bool:
    """Return whether the listener of a stream is still signed in and allowed."""
    auth: Auth = request.app.state.auth
    if auth.team is None:
        return True
    try:
        principal = await auth.principal(request)
    except HTTPException:
        return False
    path = request.scope["route"].path
    return principal is not None and Caller(principal, caller.study).may(path)
