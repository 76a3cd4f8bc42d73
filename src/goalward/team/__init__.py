"""Who works on studies together: names, roles, sign-ins."""

from goalward.team.members import ROLES, Invitation, Members, Person, Session
from goalward.team.team import Team

__all__ = ["ROLES", "Invitation", "Members", "Person", "Session", "Team"]
