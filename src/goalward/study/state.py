"""Where a study stands at one moment: what annotators said, hold, did and wrote, row by row.

States are frozen, so a page may read one while another thread goes on. The maps are persistent
(rpds): a new state shares all but a few nodes with the one before.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from rpds import HashTrieMap

from goalward.journal import Mark, Ranked
from goalward.journal.events import Label
from goalward.labels import Consensus, DawidSkene
from goalward.study.settings import Settings

__all__ = ["Change", "Description", "Lease", "Note", "Standing", "State", "position"]


class Standing(NamedTuple):
    """What an annotator last said about a row; a label of None is a skip."""

    label: Label | None
    seq: int
    at: float


class Lease(NamedTuple):
    """A row in an annotator's hands until a time; `place` orders what they hold."""

    at: float
    until: float
    place: int

    def live(self, now: float) -> bool:
        """Return whether it still holds; a clock that jumped back ends it too."""
        return 0.0 < self.until - now <= self.until - self.at


class Change(NamedTuple):
    """A row, what its annotator had said of it before, and their change before this one."""

    row: int
    before: Standing | None
    earlier: Change | None


class Description(NamedTuple):
    """How a class looks and what belongs to it."""

    colour: str = ""
    text: str = ""


class Note(NamedTuple):
    """What somebody wrote about a row."""

    by: str
    text: str
    at: float


def position(classes: Sequence[Label], label: Any) -> int | None:
    """Return the place of a label among classes; 1 and True are equal to Python, and two answers."""
    for place, known in enumerate(classes):
        if known == label and isinstance(known, bool) == isinstance(label, bool):
            return place
    return None


@dataclass(frozen=True, eq=False)
class State:
    """A study at one moment.

    Parameters
    ----------
    seq, digest
        The number of the last event, and its digest: how far the journal is known.
    identity
        The digest of the first event: that of every copy of the study, and of no other.
    standings
        row -> annotator -> what they last said.
    leases
        row -> annotator -> until when it is theirs.
    changes
        annotator -> what they did, newest first, each with what came before it.
    questions
        row -> (utility, number of the ranking) that led to it being asked last.
    rounds
        (number, ranking), oldest first.
    turns, dev_turns
        Questions handed out, and those of them for the dev set.
    moves
        How often what an annotator says of a row has changed.
    changed
        The number of the last change of the settings.
    aside
        Rows that are never asked: there is nothing in them to read.
    described, guidelines
        Place of a class -> how it is described; what annotators should go by.
    renamed
        Earlier names of classes -> those of now.
    lost
        (number, what could be read of it) of the events that a recovery could not save.
    """

    seq: int = 0
    digest: str = ""
    identity: str = ""
    settings: Settings = Settings()
    pool: Mapping[str, Any] = field(default_factory=dict)
    classes: tuple[Label, ...] = ()
    standings: HashTrieMap[int, HashTrieMap[str, Standing]] = HashTrieMap()
    leases: HashTrieMap[int, HashTrieMap[str, Lease]] = HashTrieMap()
    changes: HashTrieMap[str, Change | None] = HashTrieMap()
    notes: HashTrieMap[int, tuple[Note, ...]] = HashTrieMap()
    questions: HashTrieMap[int, tuple[float | None, int | None]] = HashTrieMap()
    rounds: tuple[tuple[int, Ranked], ...] = ()
    turns: int = 0
    dev_turns: int = 0
    moves: int = 0
    changed: int = 0
    aside: frozenset[int] = frozenset()
    described: HashTrieMap[int, Description] = HashTrieMap()
    guidelines: str = ""
    renamed: HashTrieMap[Label, Label] = HashTrieMap()
    lost: tuple[tuple[int, str], ...] = ()

    @property
    def mark(self) -> Mark:
        """How far the journal is known."""
        return Mark(self.seq, self.digest)

    @property
    def n_rows(self) -> int:
        """How many rows the pool has."""
        return int(self.pool["n_rows"])

    def said(self, row: int) -> HashTrieMap[str, Standing]:
        """Return annotator -> what they last said about a row."""
        return self.standings.get(row, HashTrieMap())

    def held(self, row: int) -> HashTrieMap[str, Lease]:
        """Return annotator -> until when a row is theirs."""
        return self.leases.get(row, HashTrieMap())

    def wants_answer(self, row: int, coming: int = 0) -> bool:
        """Return whether a row needs another answer, or is worth one more, with so many on their way."""
        return self.needs_answer(row, coming) or (coming == 0 and row in self.worth_asking_again)

    @cached_property
    def worth_asking_again(self) -> frozenset[int]:
        """Rows that were answered often enough, and that the newest ranking asks again all the same."""
        if not self.settings.again or self.ranking is None:
            return frozenset()
        queue, known = self.ranking.queue, self.ranking.based_on
        return frozenset(r for r in queue if all(s.seq <= known for s in self.said(r).values()))

    def needs_answer(self, row: int, coming: int = 0) -> bool:
        """Return whether a row has fewer answers than it should, with so many on their way."""
        if row in self.aside:
            return False
        said = self.said(row)
        answers = sum(s.label is not None for s in said.values())
        skipped = len(said) > 0 and answers == 0
        return not skipped and answers + coming < self.settings.answers

    @cached_property
    def closed(self) -> list[int]:
        """Rows that need no more answers: answered often enough, skipped, or set aside."""
        done = {row for row in self.standings if not self.needs_answer(row)}
        return list(done | self.aside)

    @cached_property
    def labels(self) -> Mapping[int, Label]:
        """Row -> label used, in the order of the rows; dev rows too."""
        rows = sorted(self.standings)
        return MappingProxyType({r: said for r in rows if (said := self.label(r)) is not None})

    @cached_property
    def training(self) -> Mapping[int, Label]:
        """Row -> label, of the rows a model may be fitted on."""
        train = ~self.settings.is_dev(list(self.labels))
        return MappingProxyType(dict(compress(self.labels.items(), train)))

    @cached_property
    def dev(self) -> Mapping[int, Label]:
        """Row -> label, of the rows that measure the model."""
        dev = self.settings.is_dev(list(self.labels))
        return MappingProxyType(dict(compress(self.labels.items(), dev)))

    @cached_property
    def consensus(self) -> Consensus:
        """What all answers say together, and how reliable each annotator is; classes by their place."""
        places = {(isinstance(label, bool), label): k for k, label in enumerate(self.classes)}
        said = [
            (row, by, places[isinstance(s.label, bool), s.label])
            for row, by_whom in self.standings.items()
            for by, s in by_whom.items()
            if s.label is not None
        ]
        rows, people, labels = zip(*sorted(said), strict=True) if said else ((), (), ())
        # Where people may be asked again, how far to trust them is the question.
        trusting = not self.settings.again or len(set(people)) < 2
        return DawidSkene(trusting=trusting)(rows, people, labels, range(len(self.classes)))

    @cached_property
    def _likeliest(self) -> dict[int, tuple[Label, ...]]:
        """Row -> its likeliest labels by all answers: one, as a rule."""
        proba, rows = self.consensus.proba, self.consensus.rows.tolist()
        where, places = np.nonzero(proba > proba.max(axis=1, keepdims=True, initial=0.0) - 1e-9)
        found: dict[int, tuple[Label, ...]] = {}
        for i, k in zip(where.tolist(), places.tolist(), strict=True):
            found[rows[i]] = (*found.get(rows[i], ()), self.classes[k])
        return found

    def targets(self, labels: Mapping[int, Label]) -> Any:
        """Return what a model of rows with labels is fitted to: these, or (n, k) probabilities."""
        listed, weighed = list(labels.values()), self.settings.label == "weighed"
        proba = self.consensus.at(list(labels)) if weighed else np.ones((1, 1))
        if (proba.max(axis=1) == 1.0).all():
            return listed
        # A class that is nobody's label is as unseen as before, however little it was given.
        proba = proba * [position(listed, label) is not None for label in self.classes]
        return proba / proba.sum(axis=1, keepdims=True)

    @cached_property
    def n_answers(self) -> int:
        """How many answers stand; of several annotators to one row, each."""
        all_said = (s for said in self.standings.values() for s in said.values())
        return sum(s.label is not None for s in all_said)

    @cached_property
    def first_answers(self) -> dict[int, int]:
        """Row -> number of its first answer; corrections are later."""
        said = [(row, s) for row, all_said in self.standings.items() for s in all_said.values()]
        for last in self.changes.values():
            change = last
            while change is not None:
                if change.before is not None:
                    said.append((change.row, change.before))
                change = change.earlier
        first: dict[int, int] = {}
        for row, standing in said:
            if standing.label is not None:
                first[row] = min(standing.seq, first.get(row, standing.seq))
        return first

    @property
    def skipped(self) -> frozenset[int]:
        """Rows that somebody skipped and nobody answered."""
        return frozenset(self.standings) - self.labels.keys()

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

    @property
    def annotators(self) -> tuple[str, ...]:
        """Everybody who said something."""
        return tuple(sorted(self.changes))

    def label(self, row: int) -> Label | None:
        """Return the label used for a row: the latest, that of most annotators, or the likeliest."""
        likeliest = self._likeliest.get(row, ()) if self.settings.label == "weighed" else ()
        if len(likeliest) == 1:
            return likeliest[0]
        newest_first = sorted(self.said(row).values(), key=attrgetter("seq"), reverse=True)
        labels = [s.label for s in newest_first if s.label is not None]
        if likeliest:  # of several the newest that somebody gave
            return next((s for s in labels if position(likeliest, s) is not None), likeliest[0])
        if not labels or self.settings.label == "latest":
            return labels[0] if labels else None
        # Counter keeps the order of arrival, so that of equally many the newest wins.
        return Counter(labels).most_common(1)[0][0]
