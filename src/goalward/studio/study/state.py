"""Where a study stands at one moment: what annotators said, hold, did and wrote, row by row.

States are frozen, so a page may read one while another thread goes on. What happened lately is in
persistent maps (rpds): a new state shares all but a few nodes with the one before. All before is in
columns (`lines`), which states share whole.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from rpds import HashTrieMap

from goalward.studio.store import Mark, Ranked
from goalward.studio.store.events import Label
from goalward.studio.store.parts import Kept
from goalward.studio.study.answered import Answered
from goalward.studio.study.lines import AskedRows, ByRow


class Lease(NamedTuple):
    """A row in an annotator's hands until a time; `place` orders what they hold."""

    at: float
    until: float
    place: int

    def live(self, now: float) -> bool:
        """Return whether it still holds; a clock that jumped back ends it too."""
        return 0.0 < self.until - now <= self.until - self.at


class Description(NamedTuple):
    """How a class looks and what belongs to it."""

    colour: str = ""
    text: str = ""


class Note(NamedTuple):
    """What somebody wrote about a row."""

    by: str
    text: str
    at: float
    seq: int = 0


@dataclass(frozen=True, eq=False)
class State(Answered):
    """A study at one moment.

    Parameters
    ----------
    seq, digest
        The number of the last event, and its digest: how far the journal is known.
    identity
        The digest of the first event: that of every copy of the study, and of no other.
    asked, asked_since
        What was asked by the time of the base, and row -> (utility, number of the ranking) since.
    leases
        row -> annotator -> until when it is theirs.
    rounds
        (number, ranking), oldest first; only the newest has its queue.
    turns, dev_turns
        Questions handed out, and those of them for the dev set.
    moves
        How often what an annotator says of a row has changed.
    changed
        The number of the last change of the settings.
    described, guidelines
        Place of a class -> how it is described; what annotators should go by.
    renamed
        Earlier names of classes -> those of now.
    unsaved
        What could be kept, so that it need not be read again (`snapshots`).
    lost
        (number, what could be read of it) of the events that a recovery could not save.
    """

    seq: int = 0
    digest: str = ""
    identity: str = ""
    pool: Mapping[str, Any] = field(default_factory=dict)
    asked: AskedRows = AskedRows.of()
    asked_since: HashTrieMap[int, tuple[float | None, int | None]] = HashTrieMap()
    leases: HashTrieMap[int, HashTrieMap[str, Lease]] = HashTrieMap()
    notes: HashTrieMap[int, tuple[Note, ...]] = HashTrieMap()
    rounds: tuple[tuple[int, Ranked], ...] = ()
    turns: int = 0
    dev_turns: int = 0
    moves: int = 0
    changed: int = 0
    described: HashTrieMap[int, Description] = HashTrieMap()
    guidelines: str = ""
    renamed: HashTrieMap[Label, Label] = HashTrieMap()
    lost: tuple[tuple[int, str], ...] = ()
    unsaved: tuple[Kept, ...] = field(default=(), repr=False)

    def moved(self, **changes: Any) -> Self:
        """Return the state with other values; `replace` in a fifth of its time."""
        new = object.__new__(type(self))
        vars(new).update({name: vars(self)[name] for name in self.__dataclass_fields__}, **changes)
        return new

    @property
    def mark(self) -> Mark:
        """How far the journal is known."""
        return Mark(self.seq, self.digest)

    @cached_property
    def copies(self) -> Mapping[int, int]:
        """Row -> the row that it is a copy of; set aside, it has the answer of that one."""
        return dict(self.pool.get("copies", ()))

    @property
    def n_rows(self) -> int:
        """How many rows the pool has."""
        return int(self.pool["n_rows"])

    @property
    def questions(self) -> Mapping[int, tuple[float | None, int | None]]:
        """Row -> (utility, number of the ranking) that led to it being asked last."""
        since, asked = self.asked_since, self.asked
        rows = lambda: np.union1d(asked.row, np.array(list(since), "i4"))
        return ByRow(lambda row: since.get(row) or asked.get(row), rows)

    def held(self, row: int) -> HashTrieMap[str, Lease]:
        """Return annotator -> until when a row is theirs."""
        return self.leases.get(row, HashTrieMap())

    @property
    def pending(self) -> frozenset[int]:
        """Rows handed out and not answered yet; those whose time is over too."""
        return frozenset(self.leases)

    @property
    def ranking(self) -> Ranked | None:
        """The newest ranking."""
        return self.rounds[-1][1] if self.rounds else None

    @property
    def news(self) -> float:
        """How often answers changed since the newest ranking; no end if that is of other settings."""
        ranking = self.ranking
        if ranking is None or ranking.based_on < self.changed:
            return math.inf
        return self.moves - ranking.moves
