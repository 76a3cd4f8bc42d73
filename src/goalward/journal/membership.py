"""Everything that can happen to a team: who belongs to it, and who came in when.

Of links and sessions only digests are kept, of passphrases only what scrypt makes of them: whoever
reads this journal gets in nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass

from goalward.journal.events import KINDS, SINCE, Event

__all__ = ["Appointed", "Founded", "Invited", "Joined", "Removed", "Revoked", "SignedIn"]


@dataclass(frozen=True, kw_only=True)
class Founded(Event):
    """The team began; a sign-in lasts so many seconds."""

    lasts: float


@dataclass(frozen=True, kw_only=True)
class Appointed(Event):
    """Somebody has a role in a study, by its identity, or in all ("") where no other is said.

    Without a role they have that of all studies again. A name that was not known is from now on.
    """

    by: str
    name: str
    role: str | None
    study: str


@dataclass(frozen=True, kw_only=True)
class Invited(Event):
    """There is a link that lets somebody choose a passphrase, once, until a time."""

    by: str
    name: str
    invite: str
    role: str | None
    study: str
    until: float


@dataclass(frozen=True, kw_only=True)
class Joined(Event):
    """Somebody used their link and chose a passphrase; sessions with an earlier one are over."""

    name: str
    invite: str
    secret: str


@dataclass(frozen=True, kw_only=True)
class SignedIn(Event):
    """Somebody came in: by a passphrase, or named by a proxy, which needs no session."""

    name: str
    session: str
    until: float
    place: str


@dataclass(frozen=True, kw_only=True)
class Revoked(Event):
    """A session or a link is over."""

    by: str
    what: str


@dataclass(frozen=True, kw_only=True)
class Removed(Event):
    """Somebody does not belong to the team any more; what they answered stays."""

    by: str
    name: str


_KINDS = (Founded, Appointed, Invited, Joined, SignedIn, Revoked, Removed)
KINDS.update({kind.__name__.lower(): kind for kind in _KINDS})
SINCE.update(dict.fromkeys(_KINDS, 6))
