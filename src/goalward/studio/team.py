"""Teams: people, roles, sessions and invitations, kept as events in a store of their own."""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Self, TypeVar

from goalward.errors import BadParameter, NotAStudy
from goalward.studio.store.events import START, Event, Mark, Recorded
from goalward.studio.store.store import Store, Transaction

__all__ = ["ROLES", "Members", "Person", "Team"]

ROLES = ("annotator", "reviewer", "owner")
"""Each includes the rights of those before it."""
DAY = 86400.0
SHORTEST, LONGEST = 10, 1000
"""Characters of a passphrase."""
COST, BLOCK, PARALLEL = 2**15, 8, 3
"""scrypt's N, r and p as OWASP advises for 32 MB; about a quarter of a second."""


# What can happen to a team. Of links and sessions only digests are kept, of passphrases only scrypt's
# hash: whoever reads this journal gets in nowhere.


class Founded(Event):
    """The team began; a sign-in lasts so many seconds."""

    lasts: float


class Appointed(Event):
    """Somebody has a role in a study, by its identity, or in all (""); None is that of all studies."""

    by: str
    name: str
    role: str | None
    study: str


class Invited(Event):
    """There is a link that lets somebody choose a passphrase, once, until a time."""

    by: str
    name: str
    invite: str
    role: str | None
    study: str
    until: float


class Joined(Event):
    """Somebody used their link and chose a passphrase; sessions with an earlier one are over."""

    name: str
    invite: str
    secret: str


class SignedIn(Event):
    """Somebody came in: by a passphrase, or named by a proxy, which needs no session."""

    name: str
    session: str
    until: float
    place: str


class Revoked(Event):
    """A session or a link is over."""

    by: str
    what: str


class Removed(Event):
    """Somebody does not belong to the team any more; what they answered stays."""

    by: str
    name: str


def hash_passphrase(passphrase: str) -> str:
    """Return the scrypt hash of a passphrase with its parameters, so that they can be raised later."""
    if not SHORTEST <= len(passphrase) <= LONGEST:
        raise BadParameter(
            f"A passphrase must have {SHORTEST} to {LONGEST} characters, got {len(passphrase)} "
            "characters. Four unrelated words are good and easy to remember."
        )
    return _scrypt(passphrase, f"scrypt${COST}${BLOCK}${PARALLEL}${secrets.token_hex(16)}")


def check_passphrase(passphrase: str, kept: str) -> bool:
    """Return whether a passphrase matches a hash; an empty hash never does, and takes as long."""
    parameters = kept.rpartition("$")[0] or f"scrypt${COST}${BLOCK}${PARALLEL}${'00' * 16}"
    return secrets.compare_digest(_scrypt(passphrase[:LONGEST], parameters), kept)


def _scrypt(passphrase: str, parameters: str) -> str:
    _, cost, block, parallel, salt = parameters.split("$")
    n, r, p = int(cost), int(block), int(parallel)
    # Another keyboard may type the same words as other code points.
    words = unicodedata.normalize("NFKC", passphrase).encode("utf-8", "surrogatepass")
    made = hashlib.scrypt(
        words, salt=bytes.fromhex(salt), n=n, r=r, p=p, maxmem=256 * n * r, dklen=32
    )
    return f"{parameters}${made.hex()}"


def name_key(name: str) -> str:
    """Return the key of a name: "Ann" and "ann" are the same person."""
    return unicodedata.normalize("NFKC", name).casefold()


def digest(token: str) -> str:
    """Return the hash by which a token is stored and looked up, so that timing reveals nothing."""
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class Person:
    """A member of a team: roles by a study's identity ("" for all others), hash of a passphrase.

    Examples
    --------
    >>> ann = Person("Ann", {"": "annotator", "4f": "owner"})
    >>> ann.role("4f"), ann.role("00")
    ('owner', 'annotator')
    """

    name: str
    roles: Mapping[str, str] = field(default_factory=dict)
    secret: str = field(default="", repr=False)
    seen: float | None = None

    def role(self, study: str = "") -> str | None:
        """Return the role in a study, None without one."""
        return self.roles.get(study) or self.roles.get("")

    def with_role(self, role: str | None, study: str) -> Person:
        """Return the person with another role in a study; None removes it."""
        roles = {name: kept for name, kept in self.roles.items() if name != study}
        return replace(self, roles={**roles, study: role} if role else roles)


@dataclass
class Members:
    """The state of a team: people by `name_key`, open sessions and invitations by digest. Immutable."""

    mark: Mark = START
    lasts: float = 0.0
    people: dict[str, Person] = field(default_factory=dict)
    sessions: dict[str, SignedIn] = field(default_factory=dict)
    invitations: dict[str, Invited] = field(default_factory=dict)

    def person(self, name: str) -> Person | None:
        """Return a member by name, in any spelling; None for a stranger."""
        return self.people.get(name_key(name))

    def require(self, name: str) -> Person:
        person = self.person(name)
        if person is None:
            raise BadParameter(f"There is nobody called {name!r} in the team. Invite them first.")
        return person

    def sessions_of(self, name: str | None = None) -> list[SignedIn]:
        """Return the sessions of one person or of all, newest first."""
        key = None if name is None else name_key(name)
        theirs = [s for s in self.sessions.values() if key in (None, name_key(s.name))]
        return sorted(theirs, key=lambda session: session.at, reverse=True)

    def link(self, token: str) -> Invited:
        """Return the invitation of a link, or raise."""
        link = self.invitations.get(digest(token))
        if link is None:
            raise BadParameter(
                "This link was used already, is too old, or is not valid. Ask for a new one."
            )
        return link

    def record(self, name: str | None = None) -> dict[str, Any]:
        """Return people, sessions and links as plain data; with a name, theirs alone."""
        shown = self.people.values() if name is None else [self.require(name)]
        people = [
            {
                "name": person.name,
                "role": person.role(),
                "seen": person.seen and _iso(person.seen),
                "studies": {study[:12]: r for study, r in sorted(person.roles.items()) if study},
                "sessions": [
                    {"id": s.session[:16], "place": s.place}
                    | {"since": _iso(s.at), "until": _iso(s.until)}
                    for s in self.sessions_of(person.name)
                ],
            }
            for person in sorted(shown, key=lambda person: name_key(person.name))
        ]
        links = sorted(self.invitations.values(), key=lambda i: i.name) if name is None else []
        invited = [
            {"id": i.invite[:16], "name": i.name, "role": i.role, "until": _iso(i.until)}
            for i in links
        ]
        return {"people": people, "invited": invited}

    def after(self, news: Iterable[Recorded], now: float) -> Members:
        """Return the state after more events, without sessions and links that expired."""
        later = replace(
            self,
            people={**self.people},
            sessions={**self.sessions},
            invitations={**self.invitations},
        )
        for recorded in news:
            later.mark = Mark(recorded.seq, recorded.digest)
            later._apply(recorded.event)
        later.sessions = {id: s for id, s in later.sessions.items() if s.until > now}
        later.invitations = {id: i for id, i in later.invitations.items() if i.until > now}
        return later

    def _apply(self, event: Event) -> None:
        match event:
            case Founded():
                self.lasts = event.lasts
            case Appointed():
                person = self.person(event.name) or Person(event.name)
                self.people[name_key(event.name)] = person.with_role(event.role, event.study)
            case Invited():
                self.invitations[event.invite] = event
            case Joined():
                person = replace(self.person(event.name) or Person(event.name), secret=event.secret)
                link = self.invitations.pop(event.invite, None)
                if link is not None and link.role is not None:
                    person = person.with_role(link.role, link.study)
                self.people[name_key(event.name)] = person
                self.sessions = _without(self.sessions, event.name)
            case SignedIn():
                if event.session:
                    self.sessions[event.session] = event
                if name_key(event.name) in self.people:
                    person = replace(self.require(event.name), seen=event.at)
                    self.people[name_key(event.name)] = person
            case Revoked():
                self.sessions.pop(event.what, None)
                self.invitations.pop(event.what, None)
            case Removed():
                self.people.pop(name_key(event.name), None)
                self.sessions = _without(self.sessions, event.name)
                self.invitations = _without(self.invitations, event.name)
            case _:
                raise BadParameter(
                    f"This must be the journal of a team, got one with {type(event).__name__}  "
                    "Name the file that `goalward team create` made."
                )


Entry = TypeVar("Entry", SignedIn, Invited)


def _without(entries: dict[str, Entry], name: str) -> dict[str, Entry]:
    return {id: e for id, e in entries.items() if name_key(e.name) != name_key(name)}


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


Clock = Callable[[], float]
Decide = Callable[[Members, float], list[Event]]


class Team:
    """Who may work on studies, and who is signed in.

    Studies store nothing of it, and several processes may share a team: a change is on disk when its
    call returns, and others see it at their next call.

    Examples
    --------
    >>> import tempfile
    >>> team = Team.create(f"{tempfile.mkdtemp()}/team.db")
    >>> link = team.invite("Ann", "owner")
    >>> _ = team.join(link, "four words of mine")
    >>> session = team.sign_in("ann", "four words of mine")
    >>> team.signed_in(session).role()
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
                f"There is no team at {store.name}. Create one with `goalward team create`."
            )

    @classmethod
    def create(cls, place: str | Path, *, lasts: float = 7 * DAY, clock: Clock = time.time) -> Self:
        """Return a new team at a path or in a database; a sign-in `lasts` so many seconds."""
        if not 60 <= lasts <= 400 * DAY:
            raise BadParameter(f"lasts must be 60 seconds to 400 days, got {lasts!r}.")
        founded = Founded(at=clock(), lasts=float(lasts))
        return cls(Store.create(place, lambda held: held.append(founded)), clock)

    @classmethod
    def open(cls, place: str | Path, *, clock: Clock = time.time) -> Self:
        """Return an existing team, every event checked."""
        return cls(Store.open(place), clock)

    def close(self) -> None:
        """Close the database; nothing needs to be saved."""
        self.store.close()

    @property
    def members(self) -> Members:
        """The state of the team now, including changes by other processes."""
        with self._lock:
            self._known = self._known.after(self.store.read(self._known.mark), self.clock())
            return self._known

    def _write(self, decide: Decide) -> Members:
        """Store the events that `decide` returns for the present state, in one transaction."""

        def held(transaction: Transaction) -> Members:
            now = self.clock()
            members = self._known.after(
                self.store.events(transaction.connection, self._known.mark), now
            )
            return members.after([transaction.append(e) for e in decide(members, now)], now)

        with self._lock:
            self._known = self.store.write(self._known.mark, held)
            return self._known

    def invite(
        self, name: str, role: str | None = None, *, by: str = "", study: str = "", days: float = 7
    ) -> str:
        """Return a token that opens /join once, where the invited person chooses a passphrase.

        The role holds in one study, or in all; None keeps that of a member who lost their passphrase.
        """
        name, token = _checked_name(name), secrets.token_urlsafe(32)
        if not 0 < days <= 400:
            raise BadParameter(f"days must be more than 0 and at most 400, got {days!r}.")

        def decide(members: Members, now: float) -> list[Event]:
            if role is None:
                called = members.require(name).name
            else:
                _check_role(role)
                called = _refuse_takeover(members, name)
            invited, until = partial(Invited, invite=digest(token), study=study), now + days * DAY
            return [invited(at=now, by=by, name=called, role=role, until=until)]

        self._write(decide)
        return token

    def invitation(self, token: str) -> Invited | None:
        """Return the invitation of a link; None if it was used, expired, or never existed."""
        return self.members.invitations.get(digest(token))

    def join(self, token: str, passphrase: str) -> str:
        """Use up an invitation, set the passphrase, and return the person's name."""

        def decide(members: Members, now: float) -> list[Event]:
            link = members.link(token)
            if link.role is not None:
                _refuse_takeover(members, link.name)
            return [Joined(at=now, name=link.name, invite=link.invite, secret=secret)]

        # Before anything is hashed, and again when it is written.
        name = self.members.link(token).name
        secret = hash_passphrase(passphrase)
        self._write(decide)
        return name

    def sign_in(self, name: str, passphrase: str, place: str = "", before: str = "") -> str | None:
        """Return a new session, ending `before`; None, after the same time, for a wrong passphrase."""
        kept = self.members.person(name)
        if not check_passphrase(passphrase, kept.secret if kept else ""):
            return None
        token = secrets.token_urlsafe(32)

        def decide(members: Members, now: float) -> list[Event]:
            person = members.person(name)
            if person is None or kept is None or person.secret != kept.secret:
                return []  # removed or changed while the passphrase was checked
            session, until = digest(token), now + members.lasts
            new = SignedIn(at=now, name=person.name, session=session, until=until, place=place)
            if digest(before) in members.sessions:
                return [Revoked(at=now, by=person.name, what=digest(before)), new]
            return [new]

        return token if digest(token) in self._write(decide).sessions else None

    def change_passphrase(self, name: str, old: str, new: str) -> bool:
        """Change a passphrase, which ends all sessions of the person; False if the old is wrong."""
        kept = self.members.require(name)
        if not check_passphrase(old, kept.secret):
            return False
        secret = hash_passphrase(new)

        def decide(members: Members, now: float) -> list[Event]:
            if members.require(name).secret != kept.secret:
                raise BadParameter(f"The passphrase of {name} was changed meanwhile. Try again.")
            return [Joined(at=now, name=kept.name, invite="", secret=secret)]

        self._write(decide)
        return True

    def signed_in(self, token: str) -> Person | None:
        """Return the person of a session; None if it has ended or never existed."""
        members = self.members
        session = members.sessions.get(digest(token))
        return members.person(session.name) if session else None

    def from_proxy(self, name: str, place: str = "") -> Person | None:
        """Return the member whom a proxy names, spelt exactly so; visits are recorded like sign-ins."""
        members, now = self.members, self.clock()
        person = members.person(name)
        if person is None or person.name != name:
            return None
        if (person.seen or 0) + members.lasts > now:
            return person
        visit = SignedIn(at=now, name=person.name, session="", until=now, place=place)
        return self._write(lambda known, _: [visit] if known.person(name) else []).person(name)

    def set_role(self, name: str, role: str | None, *, by: str = "", study: str = "") -> None:
        """Give somebody a role; a new name becomes a member. None removes the role in one study."""
        name = _checked_name(name)
        if role is not None or not study:
            _check_role(role)

        def decide(members: Members, now: float) -> list[Event]:
            person = members.person(name)
            if person is not None and role != "owner" and not study:
                _keep_an_owner(members, person)
            called = person.name if person else name
            return [Appointed(at=now, by=by, name=called, role=role, study=study)]

        self._write(decide)

    def remove(self, name: str, *, by: str = "") -> None:
        """Remove somebody from the team; their answers stay."""

        def decide(members: Members, now: float) -> list[Event]:
            person = members.require(name)
            _keep_an_owner(members, person)
            return [Removed(at=now, by=by, name=person.name)]

        self._write(decide)

    def revoke(self, id: str, *, by: str = "", name: str | None = None) -> None:
        """End a session or link by 8 or more characters of its id; with `name`, only their own."""

        def decide(members: Members, now: float) -> list[Event]:
            ids = [session.session for session in members.sessions_of(name)]
            ids += members.invitations if name is None else []
            matching = [known for known in ids if len(id) >= 8 and known.startswith(id)]
            if len(matching) != 1:
                raise BadParameter(
                    "The id must be the first 8 or more characters of a session's or link's, got "
                    f"{id[:80]!r}: there is no session or link of yours to end by it."
                )
            return [Revoked(at=now, by=by, what=matching[0])]

        self._write(decide)

    def sign_out(self, token: str, *, everywhere: bool = False) -> None:
        """End a session by its own token, or all sessions of that person."""

        def decide(members: Members, now: float) -> list[Event]:
            session = members.sessions.get(digest(token))
            if session is None:
                return []
            ended = members.sessions_of(session.name) if everywhere else [session]
            return [Revoked(at=now, by=session.name, what=s.session) for s in ended]

        self._write(decide)


def _checked_name(name: str) -> str:
    name = unicodedata.normalize("NFC", name.strip())
    if not 1 <= len(name) <= 200 or not name.isprintable():
        raise BadParameter(f"A name must have 1 to 200 printable characters, got {name[:80]!r}.")
    return name


def _check_role(role: str | None) -> None:
    if role not in ROLES:
        raise BadParameter(f"The role must be one of {', '.join(ROLES)}, got {role!r}.")


def _refuse_takeover(members: Members, name: str) -> str:
    """Return a name as the team knows it, or raise if a link would open an existing account."""
    person = members.person(name) or Person(name)
    if person.secret:
        raise BadParameter(
            f"{person.name} belongs to the team already. Invite without a role for a new passphrase, "
            "or set the role by itself."
        )
    return person.name


def _keep_an_owner(members: Members, person: Person) -> None:
    others = (p for p in members.people.values() if name_key(p.name) != name_key(person.name))
    if person.role() == "owner" and not any(p.role() == "owner" for p in others):
        raise BadParameter(f"{person.name} is the only owner. Make somebody else an owner first.")
