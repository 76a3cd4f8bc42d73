"""Everything that can happen to a study; each event is data and goes to disk as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple

from goalward.errors import Damaged

Label = str | int | float | bool
"""What JSON gives back as it was."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened."""

    at: float
    """Seconds since 1970, for people to read. Order is that of the numbers: clocks jump."""


@dataclass(frozen=True, kw_only=True)
class Created(Event):
    """The study began: what it asks about, and how it chooses."""

    settings: dict[str, Any]
    pool: dict[str, Any]
    versions: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Asked(Event):
    """Rows were handed to an annotator until a time, because of the ranking with that number.

    A utility of None belongs to a row that no model chose: of the cold start, or a dev row.
    """

    rows: tuple[int, ...]
    by: str
    until: float
    utilities: tuple[float | None, ...]
    ranking: int | None
    dev: int


@dataclass(frozen=True, kw_only=True)
class OfRow(Event):
    """Something that an annotator did to a row."""

    row: int
    by: str


@dataclass(frozen=True, kw_only=True)
class Told(OfRow):
    """An annotator answered: a class or a number; or true, false or null for each of several labels."""

    label: Label | tuple[bool | None, ...]


class Skipped(OfRow):
    """An annotator could not or would not answer."""


class Withdrawn(OfRow):
    """A question, an answer or a skip was taken back."""


@dataclass(frozen=True, kw_only=True)
class Undone(OfRow):
    """An annotator's last answer, skip or withdrawal was undone; the row is theirs again."""

    until: float


@dataclass(frozen=True, kw_only=True)
class Noted(OfRow):
    """An annotator wrote something about a row."""

    text: str


@dataclass(frozen=True, kw_only=True)
class ClassAdded(Event):
    """There is one more class."""

    label: Label


@dataclass(frozen=True, kw_only=True)
class Described(Event):
    """A class got another name, a colour or a description; without a class, the guidelines changed.

    What is None stays as it is.
    """

    label: Label | None
    name: Label | None
    colour: str | None
    text: str | None


@dataclass(frozen=True, kw_only=True)
class Extended(Event):
    """The pool has more rows, after those it had; `pool` is what `Created` would say of it now."""

    pool: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Ranked(Event):
    """A model was fitted and the pool scored.

    Parameters
    ----------
    based_on, moves
        The number of the last event that was known, and of the changes of answers up to it.
    labels, dev_labels
        How many labels the model was fitted on, and how many measured it.
    recipe, seed, features, versions
        The strategy and what it was used on: with the events up to `based_on` they decide all this.
    queue, utilities
        The next rows, best first, with their scores.
    quantiles
        Of the scores of all open rows, at 0, 2.5, 5, ..., 100 %.
    metric
        "dev" or "cross-validated": where log_loss comes from, and in older journals accuracy.
    accuracy, low, high, on
        The share of rows predicted right, the ends of its interval, and the answers that speak for
        it; without the ends in older journals. Of several labels macro-F1, of numbers R².
    goal, gain
        τ and the mean score of the next batch, both per row of the goal.
    solver
        How the goal's direction was solved for.
    stop_set
        What stopping rules look at: predictions on rows drawn once, and how sure they are; None
        in journals older than these rules.
    goal_before
        The goal, on the same rows and labels, of the model of the last ranking with other training
        labels; None where there was none, and in older journals.
    C
        The inverse penalty of the model; None in older journals.
    guesses
        How many guesses were right, of how many that were answered, and whether the model uses them;
        None where there are none.
    also
        What else is told of a model, with the ends of its interval: the share of "right" yes and no, or
        the typical "error" of numbers; of classes the "commonest" one and its share.
    """

    based_on: int
    moves: int
    labels: int
    dev_labels: int
    recipe: str
    seed: int
    features: str
    versions: dict[str, str]
    queue: tuple[int, ...]
    utilities: tuple[float, ...]
    quantiles: tuple[float, ...]
    metric: str | None
    accuracy: float | None
    log_loss: float | None
    goal: float | None
    gain: float | None
    solver: str | None
    seconds: float
    stop_set: dict[str, Any] | None = None
    goal_before: float | None = None
    low: float | None = None
    high: float | None = None
    on: int | None = None
    C: float | None = None
    guesses: dict[str, Any] | None = None
    also: dict[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Changed(Event):
    """The owner changed settings of a study that is under way."""

    settings: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Exported(Event):
    """Somebody took something out of the study: "labels.csv", "predictions.parquet", ..."""

    by: str
    what: str


@dataclass(frozen=True, kw_only=True)
class Lost(Event):
    """An event that was damaged stood here; `text` is what could be read of it."""

    text: str


KINDS: dict[str, Callable[..., Event]] = {
    kind.__name__.lower(): kind
    for kind in (
        *(Created, Asked, Told, Skipped, Withdrawn, Undone, Noted, ClassAdded, Ranked),
        *(Changed, Lost, Described, Extended, Exported),
    )
}
SINCE: dict[type[Event], int] = {Changed: 4, Lost: 4, Described: 5, Extended: 5, Exported: 6}
"""The version of the journal from which on an event is known, where that is not the first."""


def since(event: Event) -> int:
    """Return the version of the journal from which on an event is understood."""
    kinds = isinstance(event, Created) and "kind" in event.settings
    return 7 if kinds else SINCE.get(type(event), 0)


class Mark(NamedTuple):
    """How far somebody has read: the number and the digest of the last event they know."""

    seq: int = 0
    digest: str = ""


START = Mark()
"""Before the first event."""


class Recorded(NamedTuple):
    """An event with its number, from 1, its digest, which stands for all before it too, and its text."""

    seq: int
    event: Event
    digest: str = ""
    body: str = ""


def canonical(event: Event) -> str:
    """Return an event as JSON: keys sorted, plain ASCII, so any database keeps it as it is."""
    body = {"kind": type(event).__name__.lower(), **vars(event)}
    return json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)


def parsed(seq: int, body: str) -> Event:
    """Return the event a text stands for."""
    try:
        values = json.loads(body)
        kind = KINDS[values.pop("kind")]
        return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Damaged(
            f"Event {seq} cannot be read ({type(error).__name__}: {error}); an event of this version "
            "was expected. Restore a backup of the study."
        ) from error


def chained(previous: str, seq: int, body: str) -> str:
    """Return the digest of an event: over its own text and everything before it."""
    return sha256(f"{previous}\n{seq}\n{body}".encode()).hexdigest()


# Everything that can happen to a team: who belongs to it, and who came in when.
#
# Of links and sessions only digests are kept, of passphrases only what scrypt makes of them: whoever
# reads this journal gets in nowhere.


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
