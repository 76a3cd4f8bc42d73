"""Who works on studies together: names, roles, sign-ins."""

from goalward.team.members import ROLES, Person
from goalward.team.team import Team

__all__ = ["ROLES", "Person", "Team"]
