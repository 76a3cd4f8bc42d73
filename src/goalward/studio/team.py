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
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

from goalward.errors import BadParameter, NotAStudy
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

__all__ = ["ROLES", "Members", "Person", "Team"]

ROLES = ("annotator", "reviewer", "owner")
"""Each may do what those before it may."""
DAY = 86400.0
SHORTEST, LONGEST = 10, 1000
"""Characters of a passphrase."""
COST, BLOCK, PARALLEL = 2**15, 8, 3
"""scrypt's N, r and p as OWASP advises for 32 MB; about a quarter of a second."""


def hash_passphrase(passphrase: str) -> str:
    """Return the scrypt hash of a passphrase with its parameters, so that they can be raised later."""
    if not SHORTEST <= len(passphrase) <= LONGEST:
        raise BadParameter(
            f"A passphrase must have {SHORTEST} to {LONGEST} characters, got {len(passphrase)} "
            "characters. Four unrelated words are good and easy to remember."
        )
    salt = secrets.token_bytes(16)
    made = _scrypt(passphrase, salt, COST, BLOCK, PARALLEL)
    return f"scrypt${COST}${BLOCK}${PARALLEL}${salt.hex()}${made.hex()}"


def check_passphrase(passphrase: str, kept: str) -> bool:
    """Return whether a passphrase matches a hash; an empty hash never does, and takes as long."""
    nobody = f"scrypt${COST}${BLOCK}${PARALLEL}${'00' * 16}${'00' * 32}"
    _, cost, block, parallel, salt, made = (kept or nobody).split("$")
    found = _scrypt(passphrase[:LONGEST], bytes.fromhex(salt), int(cost), int(block), int(parallel))
    return secrets.compare_digest(found, bytes.fromhex(made)) and bool(kept)


def _scrypt(passphrase: str, salt: bytes, cost: int, block: int, parallel: int) -> bytes:
    # Another keyboard may type the same words as other code points.
    words = unicodedata.normalize("NFKC", passphrase).encode("utf-8", "surrogatepass")
    memory = 256 * cost * block
    return hashlib.scrypt(words, salt=salt, n=cost, r=block, p=parallel, maxmem=memory, dklen=32)


def name_key(name: str) -> str:
    """Return what tells people apart: "Ann" and "ann" are the same."""
    return unicodedata.normalize("NFKC", name).casefold()


def digest(token: str) -> str:
    """Return what is kept of a token; looked up by hash, so that timing reveals nothing."""
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
    """The state of a team: people by `name_key`, open sessions and invitations by digest.

    Shared between threads, so never changed: `after` returns another.
    """

    mark: Mark = START
    lasts: float = 0.0
    people: dict[str, Person] = field(default_factory=dict)
    sessions: dict[str, SignedIn] = field(default_factory=dict)
    invitations: dict[str, Invited] = field(default_factory=dict)

    def person(self, name: str) -> Person | None:
        """Return a member by name, in any spelling; None for a stranger."""
        return self.people.get(name_key(name))

    def require(self, name: str) -> Person:
        """Return a member by name, or raise."""
        person = self.person(name)
        if person is None:
            raise BadParameter(f"There is nobody called {name!r} in the team. Invite them first.")
        return person

    def open_sessions(self, now: float, name: str | None = None) -> list[SignedIn]:
        """Return sessions that have not expired, of one person or of all, newest first."""
        wanted = None if name is None else name_key(name)
        valid = (s for s in self.sessions.values() if s.until > now)
        theirs = [s for s in valid if wanted in (None, name_key(s.name))]
        return sorted(theirs, key=lambda session: session.at, reverse=True)

    def open_invitations(self, now: float) -> list[Invited]:
        """Return links that can still be used."""
        valid = (link for link in self.invitations.values() if link.until > now)
        return sorted(valid, key=lambda link: link.name)

    def invitation(self, token: str, now: float) -> Invited | None:
        """Return the invitation of a link; None if it was used, expired, or never existed."""
        link = self.invitations.get(digest(token))
        return link if link is not None and link.until > now else None

    def record(self, now: float, name: str | None = None) -> dict[str, Any]:
        """Return people, sessions and links as plain data; with a name, theirs alone."""
        shown = self.people.values() if name is None else [self.require(name)]
        people = [
            {
                "name": person.name,
                "role": person.role(),
                "seen": _iso(person.seen),
                "studies": {study[:12]: r for study, r in sorted(person.roles.items()) if study},
                "sessions": [
                    {"id": s.session[:16], "place": s.place, "since": _iso(s.at)}
                    | {"until": _iso(s.until)}
                    for s in self.open_sessions(now, person.name)
                ],
            }
            for person in sorted(shown, key=lambda person: name_key(person.name))
        ]
        links = self.open_invitations(now) if name is None else []
        invited = [
            {"id": i.invite[:16], "name": i.name, "role": i.role, "until": _iso(i.until)}
            for i in links
        ]
        return {"people": people, "invited": invited}

    def after(self, events: Iterable[Recorded], now: float) -> Members:
        """Return the state after more events, without sessions and links that expired."""
        team = Members(
            self.mark, self.lasts, {**self.people}, {**self.sessions}, {**self.invitations}
        )
        for recorded in events:
            team.mark = Mark(recorded.seq, recorded.digest)
            team._apply(recorded.event)
        team.sessions = {id: s for id, s in team.sessions.items() if s.until > now}
        team.invitations = {id: i for id, i in team.invitations.items() if i.until > now}
        return team

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
                _drop(self.sessions, event.name)
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
                _drop(self.sessions, event.name)
                _drop(self.invitations, event.name)
            case _:
                raise BadParameter(
                    f"The journal of a team was expected, got one with {type(event).__name__} "
                    "events. Name the file that `goalward team create` made."
                )


def _drop(table: dict[str, SignedIn] | dict[str, Invited], name: str) -> None:
    for id in [id for id, entry in table.items() if name_key(entry.name) == name_key(name)]:
        del table[id]


def _iso(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


Clock = Callable[[], float]
Decide = Callable[[Members, float], list[Event]]


class Team:
    """Who may work on studies, and who is signed in.

    Studies hold nothing of it: a copy of a study reveals no passphrase. Several processes may use
    a team at once; a change is on disk when its call returns, and others see it at their next call.

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
        """Return a new team at a path or in a database; a sign-in lasts so many seconds."""
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
        """The state of the team now, including what other processes did."""
        with self._lock:
            if news := self.store.read(self._known.mark):
                self._known = self._known.after(news, self.clock())
            return self._known

    def _write(self, decide: Decide) -> Members:
        """Store the events that `decide` returns for the present state, in one transaction."""

        def held(transaction: Transaction) -> Members:
            now = self.clock()
            members = self._known.after(transaction.news, now)
            return members.after([transaction.append(e) for e in decide(members, now)], now)

        with self._lock:
            self._known = self.store.write(self._known.mark, held)
            return self._known

    def invite(
        self, name: str, role: str | None = None, *, by: str = "", study: str = "", days: float = 7
    ) -> str:
        """Return a token that opens /join once, where the invited person chooses a passphrase.

        Parameters
        ----------
        role
            One of `ROLES`, in the study of that identity or in all; None keeps the role of a member
            who lost their passphrase.
        by
            Who invites.
        """
        name, token = _checked_name(name), secrets.token_urlsafe(32)
        if not 0 < days <= 400:
            raise BadParameter(f"days must be more than 0 and at most 400, got {days!r}.")

        def decide(members: Members, now: float) -> list[Event]:
            person = members.person(name)
            if role is None:
                members.require(name)
            else:
                _check_role(role)
                _refuse_takeover(person)
            return [
                Invited(
                    at=now,
                    by=by,
                    name=person.name if person else name,
                    invite=digest(token),
                    role=role,
                    study=study,
                    until=now + days * DAY,
                )
            ]

        self._write(decide)
        return token

    def invitation(self, token: str) -> Invited | None:
        """Return the invitation of a link; None if it was used, expired, or never existed."""
        return self.members.invitation(token, self.clock())

    def join(self, token: str, passphrase: str) -> str:
        """Use up an invitation, set the passphrase, and return the person's name."""

        def decide(members: Members, now: float) -> list[Event]:
            link = _usable(members.invitation(token, now))
            if link.role is not None:
                _refuse_takeover(members.person(link.name))
            return [Joined(at=now, name=link.name, invite=link.invite, secret=secret)]

        # Before anything is hashed, and again when it is written.
        name = _usable(self.invitation(token)).name
        secret = hash_passphrase(passphrase)
        self._write(decide)
        return name

    def sign_in(self, name: str, passphrase: str, place: str = "", before: str = "") -> str | None:
        """Return a new session, or None for a wrong name or passphrase, after the same time.

        Parameters
        ----------
        place
            The address and browser, for people to read.
        before
            The previous session of this browser, which ends.
        """
        kept = self.members.person(name)
        if not check_passphrase(passphrase, kept.secret if kept else ""):
            return None
        token = secrets.token_urlsafe(32)

        def decide(members: Members, now: float) -> list[Event]:
            person = members.person(name)
            if person is None or kept is None or person.secret != kept.secret:
                return []  # removed or changed while the passphrase was checked
            old = members.sessions.get(digest(before))
            ended = [Revoked(at=now, by=person.name, what=old.session)] if old else []
            until = now + members.lasts
            new = SignedIn(
                at=now, name=person.name, session=digest(token), until=until, place=place
            )
            return [*ended, new]

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
        valid = session is not None and session.until > self.clock()
        return members.person(session.name) if session and valid else None

    def from_proxy(self, name: str, place: str = "") -> Person | None:
        """Return the member whom a proxy names; a visit is recorded as often as a sign-in would be.

        The name must match exactly: to the proxy, "Ann" and "ann" may be two people.
        """
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
        """End a session or a link by the first 8 characters or more of its id.

        With a `name`, one of their own sessions only.
        """

        def decide(members: Members, now: float) -> list[Event]:
            ids = [session.session for session in members.open_sessions(now, name)]
            if name is None:
                ids += [link.invite for link in members.open_invitations(now)]
            matching = [one for one in ids if len(id) >= 8 and one.startswith(id)]
            if len(matching) != 1:
                raise BadParameter(
                    f"The first 8 or more characters of a session's or link's id were expected, got "
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
            ended = members.open_sessions(now, session.name) if everywhere else [session]
            return [Revoked(at=now, by=session.name, what=one.session) for one in ended]

        self._write(decide)


def _checked_name(name: str) -> str:
    name = unicodedata.normalize("NFC", name.strip())
    if not 1 <= len(name) <= 200 or not name.isprintable():
        raise BadParameter(f"A name must have 1 to 200 printable characters, got {name[:80]!r}.")
    return name


def _usable(link: Invited | None) -> Invited:
    if link is None:
        raise BadParameter(
            "This link was used already, is too old, or is not ours. Ask for a new one."
        )
    return link


def _check_role(role: str | None) -> None:
    if role not in ROLES:
        raise BadParameter(f"The role must be one of {', '.join(ROLES)}, got {role!r}.")


def _refuse_takeover(person: Person | None) -> None:
    """Raise where a link for somebody new would open an existing account."""
    if person is not None and person.secret:
        raise BadParameter(
            f"{person.name} belongs to the team already. Invite without a role for a new passphrase, "
            "or set the role by itself."
        )


def _keep_an_owner(members: Members, person: Person) -> None:
    others = (p for p in members.people.values() if name_key(p.name) != name_key(person.name))
    if person.role() == "owner" and not any(p.role() == "owner" for p in others):
        raise BadParameter(f"{person.name} is the only owner. Make somebody else an owner first.")
