"""Everything that can happen to a study; each event is data and goes to disk as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple, dataclass_transform

from goalward.errors import Damaged

Label = str | int | float | bool
"""What JSON gives back as it was."""


KINDS: dict[str, type[Any]] = {}
"""Events by the name that they have on disk."""


@dataclass_transform(kw_only_default=True, frozen_default=True)
class _Kind:
    """Makes every event a frozen dataclass, known by its name."""

    def __init_subclass__(cls) -> None:
        KINDS[cls.__name__.lower()] = dataclass(frozen=True, kw_only=True)(cls)


class Event(_Kind):
    """Something that happened."""

    at: float
    """Seconds since 1970, for people to read. Order is that of the numbers: clocks jump."""


class Created(Event):
    """The study began: what it asks about, and how it chooses."""

    settings: dict[str, Any]
    pool: dict[str, Any]
    versions: dict[str, str]


class Asked(Event):
    """Rows were handed to an annotator, by a ranking; rows that no model chose have no utility."""

    rows: tuple[int, ...]
    by: str
    until: float
    utilities: tuple[float | None, ...]
    ranking: int | None
    dev: int


class OfRow(Event):
    """Something that an annotator did to a row."""

    row: int
    by: str


class Told(OfRow):
    """An annotator answered: a class or a number; or true, false or null for each of several labels."""

    label: Label | tuple[bool | None, ...]


class Skipped(OfRow):
    """An annotator could not or would not answer."""


class Withdrawn(OfRow):
    """A question, an answer or a skip was taken back."""


class Undone(OfRow):
    """An annotator's last answer, skip or withdrawal was undone; the row is theirs again."""

    until: float


class Noted(OfRow):
    """An annotator wrote something about a row."""

    text: str


class ClassAdded(Event):
    """There is one more class."""

    label: Label


class Described(Event):
    """A class, or the guidelines if it is None, was described; what is None stays as it is."""

    label: Label | None
    name: Label | None
    colour: str | None
    text: str | None


class Extended(Event):
    """The pool has more rows, after those it had; `pool` is what `Created` would say of it now."""

    pool: dict[str, Any]


class Ranked(Event):
    """A model was fitted and the pool scored.

    Recipe, seed, features, versions and the events up to `based_on` decide all the rest. `moves` counts
    the changes of answers up to then. `quantiles` are of the scores of all open rows, at 0, 2.5, ..., 100 %.
    `accuracy` with `low` and `high`, of `on` answers, is macro-F1 of several labels and R² of numbers.
    `metric` is where log_loss is from: "dev" or "cross-validated". `goal` and `gain`, that of the next
    batch, are per row of the goal; `goal_before` is that of the last model with other labels. `made`
    says with what: "features" of rows before the model and a map of them, "C", "strategy"; more may come.
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
    made: dict[str, Any] | None = None


class Exported(Event):
    """Somebody took something out of the study: "labels.csv", "predictions.parquet", ..."""

    by: str
    what: str


class Lost(Event):
    """An event that was damaged stood here; `text` is what could be read of it."""

    text: str


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
        given = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
        event: Event = kind(**given)
        return event
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Damaged(
            f"Event {seq} cannot be read ({type(error).__name__}: {error}). Restore a backup of the study."
        ) from error


def chained(previous: str, seq: int, body: str) -> str:
    """Return the digest of an event: over its own text and everything before it."""
    return sha256(f"{previous}\n{seq}\n{body}".encode()).hexdigest()
