"""Who belongs to a team: a fold over its journal."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

from rpds import HashTrieMap

from goalward.errors import BadParameter
from goalward.journal import Mark, Recorded, membership
from goalward.journal.events import START

__all__ = ["ROLES", "Invitation", "Members", "Person", "SignIn", "advance", "key"]

T = TypeVar("T")
ROLES = ("annotator", "reviewer", "owner")
"""Each may do what those before it may."""


def key(name: str) -> str:
    """Return what tells people apart: "Ann" and "ann" are one."""
    return unicodedata.normalize("NFKC", name).casefold()


@dataclass(frozen=True)
class Person:
    """Somebody who belongs to a team.

    Parameters
    ----------
    roles
        By a study's identity; "" stands for all others.
    secret
        What is kept of their passphrase; empty if they have none.
    seen
        When they last signed in.

    Examples
    --------
    >>> ann = Person("Ann", HashTrieMap({"": "annotator", "4f": "owner"}))
    >>> ann.role("4f"), ann.role("00")
    ('owner', 'annotator')
    """

    name: str
    roles: HashTrieMap[str, str] = field(default_factory=HashTrieMap)
    secret: str = field(default="", repr=False)
    seen: float | None = None

    def role(self, study: str = "") -> str | None:
        """Return the role in a study; None where it is none of theirs."""
        return self.roles.get(study) or self.roles.get("")

    def given(self, role: str | None, study: str) -> Person:
        """Return them with another role in a study."""
        changed = self.roles.insert(study, role) if role else self.roles.discard(study)
        return replace(self, roles=changed)


class SignIn(NamedTuple):
    """A browser that somebody signed in with."""

    id: str
    name: str
    since: float
    until: float
    place: str


class Invitation(NamedTuple):
    """A link that was not used yet."""

    id: str
    name: str
    role: str | None
    study: str
    until: float


@dataclass(frozen=True)
class Members:
    """Where a team stands."""

    mark: Mark = START
    lasts: float = 0.0
    people: HashTrieMap[str, Person] = field(default_factory=HashTrieMap)
    sessions: HashTrieMap[str, SignIn] = field(default_factory=HashTrieMap)
    invitations: HashTrieMap[str, Invitation] = field(default_factory=HashTrieMap)

    def person(self, name: str) -> Person | None:
        """Return somebody by their name, however it is written."""
        return self.people.get(key(name))

    def known(self, name: str) -> Person:
        """Return somebody who belongs to the team, or say that they do not."""
        found = self.person(name)
        if found is None:
            raise BadParameter(
                f"There is nobody called {name!r}; one of the team was expected. Invite them first."
            )
        return found

    def open(self, now: float, name: str | None = None) -> list[SignIn]:
        """Return sessions that are not over, of one or of all, newest first."""
        found = (s for s in self.sessions.values() if s.until > now)
        ours = [s for s in found if name is None or key(s.name) == key(name)]
        return sorted(ours, key=lambda s: s.since, reverse=True)

    def record(self, now: float, name: str | None = None) -> dict[str, Any]:
        """Return people, their sessions and open links as data; with a name, theirs alone."""
        shown = self.people.values() if name is None else [self.known(name)]
        return {
            "people": [
                {
                    **{"name": one.name, "role": one.role(), "seen": _when(one.seen)},
                    "studies": {study[:12]: r for study, r in sorted(one.roles.items()) if study},
                    "sessions": [
                        {"id": s.id[:16], "place": s.place, "since": _when(s.since)}
                        | {"until": _when(s.until)}
                        for s in self.open(now, one.name)
                    ],
                }
                for one in sorted(shown, key=lambda one: key(one.name))
            ],
            "invited": [
                {"id": i.id[:16], "name": i.name, "role": i.role, "until": _when(i.until)}
                for i in (self.invited(now) if name is None else [])
            ],
        }

    def without_old(self, now: float) -> Members:
        """Return the same without what is over by its time."""
        sessions = [s.id for s in self.sessions.values() if s.until <= now]
        links = [i.id for i in self.invitations.values() if i.until <= now]
        return replace(
            self,
            sessions=_dropped(self.sessions, sessions),
            invitations=_dropped(self.invitations, links),
        )

    def invited(self, now: float) -> list[Invitation]:
        """Return links that can still be used."""
        return sorted((i for i in self.invitations.values() if i.until > now), key=lambda i: i.name)


def advance(team: Members, recorded: Recorded) -> Members:
    """Return where a team stands after an event."""
    team = replace(team, mark=Mark(recorded.seq, recorded.digest))
    match recorded.event:
        case membership.Founded(lasts=lasts):
            return replace(team, lasts=lasts)
        case membership.Appointed(name=name, role=role, study=study):
            return _with(team, (team.person(name) or Person(name)).given(role, study))
        case membership.Invited(name=name, role=role, study=study, until=until, invite=invite):
            link = Invitation(invite, name, role, study, until)
            return replace(team, invitations=team.invitations.insert(invite, link))
        case membership.Joined(name=name, invite=invite, secret=secret):
            used = team.invitations.get(invite)
            joined = replace(team.person(name) or Person(name), secret=secret)
            if used is not None and used.role is not None:
                joined = joined.given(used.role, used.study)
            team = _with(_without_sessions(team, name), joined)
            return replace(team, invitations=team.invitations.discard(invite))
        case membership.SignedIn(name=name, session=session, until=until, place=place, at=at):
            if session:
                new = SignIn(session, name, at, until, place)
                team = replace(team, sessions=team.sessions.insert(session, new))
            person = team.person(name)
            return team if person is None else _with(team, replace(person, seen=at))
        case membership.Revoked(what=what):
            sessions = team.sessions.discard(what)
            return replace(team, sessions=sessions, invitations=team.invitations.discard(what))
        case membership.Removed(name=name):
            team = _without_sessions(team, name)
            links = [i.id for i in team.invitations.values() if key(i.name) == key(name)]
            return replace(
                team,
                people=team.people.discard(key(name)),
                invitations=_dropped(team.invitations, links),
            )
    raise BadParameter(
        f"There is a {type(recorded.event).__name__} in it; the journal of a team was expected."
    )


def _when(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def _with(team: Members, person: Person) -> Members:
    return replace(team, people=team.people.insert(key(person.name), person))


def _without_sessions(team: Members, name: str) -> Members:
    theirs = [s.id for s in team.sessions.values() if key(s.name) == key(name)]
    return replace(team, sessions=_dropped(team.sessions, theirs))


def _dropped(found: HashTrieMap[str, T], names: list[str]) -> HashTrieMap[str, T]:
    for name in names:
        found = found.discard(name)
    return found
