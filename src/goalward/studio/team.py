"""A team on disk: a journal of its own, beside the studies it works on."""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import reduce
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

from rpds import HashTrieMap

from goalward.errors import BadParameter, NotAStudy
from goalward.studio.store import events as membership
from goalward.studio.store.events import (
    START,
    Appointed,
    Event,
    Founded,
    Invited,
    Joined,
    Mark,
    Recorded,
    Removed,
    Revoked,
    SignedIn,
)
from goalward.studio.store.store import Store, Transaction

__all__ = [
    "ROLES",
    "Invitation",
    "Members",
    "Person",
    "SignIn",
    "Team",
    "advance",
    "hashed",
    "key",
    "matches",
]


# Passphrases as they are kept: what scrypt makes of them, with the numbers it was made by.
#
# scrypt of Python's own library (OpenSSL's), because it needs no other package, is hard for hardware
# that guesses (32 MB a try), and takes its cost as parameters, which stand in every hash: they can be
# raised later, and older hashes still serve.


SHORTEST, LONGEST = 10, 1000
COST, BLOCK, PARALLEL = 2**15, 8, 3
"""N, r and p as OWASP advises for 32 MB; about a quarter of a second."""


def hashed(passphrase: str) -> str:
    """Return what may be kept of a passphrase, or refuse one that is too short.

    Examples
    --------
    >>> matches("plenty of words", hashed("plenty of words"))
    True
    """
    if not SHORTEST <= len(passphrase) <= LONGEST:
        raise BadParameter(
            f"The passphrase has {len(passphrase)} characters; at least {SHORTEST} were expected, and "
            f"at most {LONGEST}. Four words that do not belong together are good, and easy to keep."
        )
    salt = secrets.token_bytes(16)
    made = _scrypt(passphrase, salt, COST, BLOCK, PARALLEL)
    return f"scrypt${COST}${BLOCK}${PARALLEL}${salt.hex()}${made.hex()}"


def matches(passphrase: str, kept: str) -> bool:
    """Return whether a passphrase is the one that was kept; as slow where none was ("")."""
    _, cost, block, parallel, salt, made = (kept or _NOBODY).split("$")
    found = _scrypt(passphrase[:LONGEST], bytes.fromhex(salt), int(cost), int(block), int(parallel))
    return secrets.compare_digest(found, bytes.fromhex(made)) and bool(kept)


def _scrypt(passphrase: str, salt: bytes, cost: int, block: int, parallel: int) -> bytes:
    # The same words from another keyboard may be other code points.
    words = unicodedata.normalize("NFKC", passphrase).encode("utf-8", "surrogatepass")
    room = 256 * cost * block
    return hashlib.scrypt(words, salt=salt, n=cost, r=block, p=parallel, maxmem=room, dklen=32)


_NOBODY = f"scrypt${COST}${BLOCK}${PARALLEL}${'00' * 16}${'00' * 32}"
"""Compared with where a name is not known: that must take as long."""


# Who belongs to a team: a fold over its journal.


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


DAY = 86400.0
LASTS = 7 * DAY
"""How long a sign-in and a link last unless another time was asked for."""
Clock = Callable[[], float]
Decide = Callable[[Members, float], list[Event]]


class Team:
    """Who may work on studies, and who is signed in.

    Nothing of it is in a study: a study of any version is given a team, and a copy of a study tells
    nobody's passphrase. Several processes may use a team at once; what a call returned for is on
    disk, and other processes know it at their next call.

    Examples
    --------
    >>> import tempfile
    >>> team = Team.create(f"{tempfile.mkdtemp()}/team.db")
    >>> link = team.invite("Ann", "owner")
    >>> _ = team.join(link, "four words of mine")
    >>> session = team.sign_in("ann", "four words of mine")
    >>> team.who(session).role()
    'owner'
    >>> team.sign_in("ann", "something else") is None
    True
    """

    def __init__(self, store: Store, clock: Clock = time.time) -> None:
        self.store, self.clock = store, clock
        self._lock = threading.RLock()
        self._known = Members()
        if self.members.lasts == 0:
            raise NotAStudy(
                f"There is no team at {store.name}; one was expected. Make one with `goalward team create`."
            )

    @classmethod
    def create(cls, place: str | Path, *, lasts: float = LASTS, clock: Clock = time.time) -> Self:
        """Return a new team at a path or in a database; a sign-in lasts so many seconds."""
        if not 60 <= lasts <= 400 * DAY:
            raise BadParameter(f"lasts={lasts!r}; 60 seconds to 400 days were expected.")
        founded = Founded(at=clock(), lasts=float(lasts))
        return cls(Store.create(place, lambda held: held.append(founded)), clock)

    @classmethod
    def open(cls, place: str | Path, *, clock: Clock = time.time) -> Self:
        """Return a team that is there, every event checked."""
        return cls(Store.open(place), clock)

    def close(self) -> None:
        """Let go of the database; nothing needs to be saved."""
        self.store.close()

    @property
    def members(self) -> Members:
        """Where the team stands now, with what other processes did."""
        with self._lock:
            if news := self.store.read(self._known.mark):
                self._known = reduce(advance, news, self._known).without_old(self.clock())
            return self._known

    def _write(self, decide: Decide) -> None:
        def held(transaction: Transaction) -> Members:
            members = reduce(advance, transaction.news, self._known)
            for event in decide(members, self.clock()):
                members = advance(members, transaction.append(event))
            return members.without_old(self.clock())

        with self._lock:
            self._known = self.store.write(self._known.mark, held)

    def invite(
        self, name: str, role: str | None = None, *, by: str = "", study: str = "", days: float = 7
    ) -> str:
        """Return what opens /join once, for somebody who then chooses a passphrase.

        Parameters
        ----------
        role
            One of `ROLES`, in the study of that identity, or in all; None: as it is, for somebody
            who belongs to the team and lost their passphrase.
        by
            Who invites.
        """
        name, token = _checked_name(name), secrets.token_urlsafe(32)
        if not 0 < days <= 400:
            raise BadParameter(f"days={days!r}; more than 0 and at most 400 were expected.")

        def decide(members: Members, now: float) -> list[Event]:
            person = members.person(name)
            if role is None:
                members.known(name)
            else:
                _checked_role(role)
                _refuse_takeover(person)
            called, until = person.name if person else name, now + days * DAY
            invite = digest(token)
            return [
                Invited(
                    at=now, by=by, name=called, invite=invite, role=role, study=study, until=until
                )
            ]

        self._write(decide)
        return token

    def invitation(self, token: str) -> Invitation | None:
        """Return what a link is for; None if it was used, is too old, or never was."""
        found = self.members.invitations.get(digest(token))
        return found if found is not None and found.until > self.clock() else None

    def join(self, token: str, passphrase: str) -> str:
        """Take up an invitation, which is used up then, and return whose it was."""
        # Before anything is hashed, and again when it is written down.
        _checked_link(self.members, token, self.clock())
        secret, names = hashed(passphrase), list[str]()

        def decide(members: Members, now: float) -> list[Event]:
            link = _checked_link(members, token, now)
            if link.role is not None:
                _refuse_takeover(members.person(link.name))
            names.append(link.name)
            return [Joined(at=now, name=link.name, invite=link.id, secret=secret)]

        self._write(decide)
        return names[-1]

    def sign_in(self, name: str, passphrase: str, place: str = "", before: str = "") -> str | None:
        """Return a new session, or None where name and passphrase do not belong together.

        It takes the same time whether there is such a name or not.

        Parameters
        ----------
        place
            Where somebody sits, for people to read.
        before
            The session that this browser had, which is over then.
        """
        kept = self.members.person(name)
        if not matches(passphrase, kept.secret if kept else ""):
            return None
        token = secrets.token_urlsafe(32)

        def decide(members: Members, now: float) -> list[Event]:
            person = members.person(name)
            if person is None or kept is None or person.secret != kept.secret:
                return []  # removed, or given another passphrase, while this one was looked at
            old = members.sessions.get(digest(before))
            over = [Revoked(at=now, by=person.name, what=old.id)] if old else []
            session, until = digest(token), now + members.lasts
            came = SignedIn(at=now, name=person.name, session=session, until=until, place=place)
            return [*over, came]

        self._write(decide)
        return token if digest(token) in self._known.sessions else None

    def change(self, name: str, old: str, new: str) -> bool:
        """Give somebody another passphrase, which ends all their sessions; False: the old is wrong."""
        kept = self.members.known(name)
        if not matches(old, kept.secret):
            return False
        secret = hashed(new)

        def decide(members: Members, now: float) -> list[Event]:
            if members.known(name).secret != kept.secret:
                raise BadParameter(f"The passphrase of {name} was changed meanwhile. Try again.")
            return [Joined(at=now, name=kept.name, invite="", secret=secret)]

        self._write(decide)
        return True

    def who(self, token: str) -> Person | None:
        """Return whose session this is; None where it is nobody's, or over."""
        members = self.members
        session = members.sessions.get(digest(token))
        if session is None or session.until <= self.clock():
            return None
        return members.person(session.name)

    def named(self, name: str, place: str = "") -> Person | None:
        """Return who a proxy says is there, noted as often as a sign-in would be needed.

        The name counts letter by letter: to the proxy, "Ann" and "ann" may be two people.
        """
        members, now = self.members, self.clock()
        person = members.person(name)
        if person is None or person.name != name:
            return None
        if (person.seen or 0) + members.lasts > now:
            return person
        came = SignedIn(at=now, name=person.name, session="", until=now, place=place)
        self._write(lambda known, _: [came] if known.person(name) else [])
        return self._known.person(name)

    def appoint(self, name: str, role: str | None, *, by: str = "", study: str = "") -> None:
        """Give somebody a role; a name that is not known belongs to the team from now on.

        None takes a role in one study back, so that the one in all of them counts again.
        """
        name = _checked_name(name)
        if role is not None or not study:
            _checked_role(role)

        def decide(members: Members, now: float) -> list[Event]:
            person = members.person(name)
            called = person.name if person else name
            event = Appointed(at=now, by=by, name=called, role=role, study=study)
            if person is not None and person.role() == "owner" and role != "owner" and not study:
                _keep_an_owner(members, person)
            return [event]

        self._write(decide)

    def remove(self, name: str, *, by: str = "") -> None:
        """Let somebody in no longer; what they answered stays theirs."""

        def decide(members: Members, now: float) -> list[Event]:
            person = members.known(name)
            _keep_an_owner(members, person)
            return [Removed(at=now, by=by, name=person.name)]

        self._write(decide)

    def revoke(self, id: str, *, by: str = "", name: str | None = None) -> None:
        """End a session, or a link that was not used, by the first characters of its id.

        With a `name`, one of their own sessions only.
        """

        def decide(members: Members, now: float) -> list[Event]:
            theirs = [s.id for s in members.open(now, name)]
            links = [i.id for i in members.invited(now)] if name is None else []
            found = [one for one in (*theirs, *links) if len(id) >= 8 and one.startswith(id)]
            if len(found) != 1:
                raise BadParameter(
                    f"There is no session or link {id[:80]!r} that may be ended here; the first 8 or more "
                    "characters of one were expected."
                )
            return [Revoked(at=now, by=by, what=found[0])]

        self._write(decide)

    def sign_out(self, token: str, *, everywhere: bool = False) -> None:
        """End a session by its own token, or all sessions of whose it is."""

        def decide(members: Members, now: float) -> list[Event]:
            session: SignIn | None = members.sessions.get(digest(token))
            if session is None:
                return []
            over = members.open(now, session.name) if everywhere else [session]
            return [Revoked(at=now, by=session.name, what=one.id) for one in over]

        self._write(decide)


def digest(token: str) -> str:
    """Return what is kept of a token; looked up by hash, so that time says nothing about it."""
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _checked_name(name: str) -> str:
    name = unicodedata.normalize("NFC", name.strip())
    if not 1 <= len(name) <= 200 or not name.isprintable():
        raise BadParameter(
            f"The name {name[:80]!r} came; 1 to 200 characters that can be printed were expected."
        )
    return name


def _checked_link(members: Members, token: str, now: float) -> Invitation:
    link = members.invitations.get(digest(token))
    if link is None or link.until <= now:
        raise BadParameter(
            "This link was used already, is too old, or is not ours. Ask who sent it for another."
        )
    return link


def _checked_role(role: str | None) -> None:
    if role not in ROLES:
        raise BadParameter(f"The role {role!r} came; one of {', '.join(ROLES)} was expected.")


def _refuse_takeover(person: Person | None) -> None:
    """Raise where a link for somebody new would open somebody's account."""
    if person is not None and person.secret:
        raise BadParameter(
            f"{person.name} belongs to the team already; a new name was expected. Give another role by "
            "itself, or invite without a role for a new passphrase."
        )


def _keep_an_owner(members: Members, person: Person) -> None:
    others = (p for p in members.people.values() if key(p.name) != key(person.name))
    if person.role() == "owner" and not any(p.role() == "owner" for p in others):
        raise BadParameter(
            f"{person.name} is the only owner; a team needs one. Make somebody else an owner first."
        )
