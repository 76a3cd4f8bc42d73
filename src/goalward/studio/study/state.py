"""The state of a study at one moment: its header in memory, and answers looked up in the tables.

A state never changes, so threads may read it: lines that came or ended after its mark are not its own.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from goalward.errors import Damaged, NotAStudy
from goalward.labels import Consensus, DawidSkene
from goalward.studio.store.events import START, Label, Mark, Ranked
from goalward.studio.store.tables import ANSWERS, NOTES, QUESTIONS, ROWS
from goalward.studio.study.kind import position
from goalward.studio.study.reader import NAMES, SKIPPED, WITHDRAWN, Columns, Reader, Said
from goalward.studio.study.settings import Settings

T = TypeVar("T")
AT_ONCE = 500
"""Rows looked up by one query."""
PLAIN = (
    *("identity", "classes", "pool_seq", "ranked", "n_rounds", "turns", "dev_turns"),
    *("moves", "changed", "guidelines", "losses"),
)
"""Parts of a header that JSON keeps as they are."""
SEQ = sa.bindparam("seq", type_=sa.BigInteger)
LINES = sa.select(ANSWERS).where(
    ANSWERS.c.row.in_(sa.bindparam("rows", expanding=True)),
    ANSWERS.c.id <= SEQ,
    sa.or_(ANSWERS.c.ended.is_(None), ANSWERS.c.ended > SEQ),
)
"""What stands of some rows at an event. Made once: making a query takes longer than asking it."""
ASKED = sa.select(QUESTIONS.c.utility, QUESTIONS.c.ranking).order_by(QUESTIONS.c.id.desc()).limit(1)
ASKED = ASKED.where(
    QUESTIONS.c.row == sa.bindparam("of"), QUESTIONS.c.id < SEQ, QUESTIONS.c.place > 0
)
NOTED = sa.select(NOTES.c.by, NOTES.c.text, NOTES.c.at).order_by(NOTES.c.seq)
NOTED = NOTED.where(NOTES.c.row == sa.bindparam("of"), NOTES.c.seq <= SEQ)
TOUCHED = sa.select(ANSWERS.c.row).where(ANSWERS.c.id > SEQ)
# Not DISTINCT, for which SQLite would walk the index of all rows.


class Line(NamedTuple):
    """What an annotator says of a row from event `id` on; see `tables.ANSWERS`."""

    id: int
    row: int
    by: str
    label: str
    seq: int
    at: float
    prior: int = 0
    before: int = 0
    undoes: int = 0
    ended: int | None = None


class Standing(NamedTuple):
    """What an annotator last said about a row; a label of None is a skip."""

    label: Any
    seq: int
    at: float


class Lease(NamedTuple):
    """A row in an annotator's hands until a time; `place` orders what they hold."""

    id: int
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

    def changed(self, colour: str | None, text: str | None) -> Description:
        """Return it with another colour or text; None keeps the present one."""
        given = {"colour": colour, "text": text}
        return self._replace(**{name: word for name, word in given.items() if word is not None})


class Note(NamedTuple):
    """What somebody wrote about a row."""

    by: str
    text: str
    at: float


@dataclass(eq=False)
class State:
    """A study at one moment, after the event that `mark` names.

    `identity` is the digest of the first event, the same in every copy. `tops` has each annotator's last
    line that was not undone, `tally` counts facts. `pool_seq` and `ranked` are the numbers of the events
    that describe the pool and that ranked last, `lost` those of lost ones. `moves` counts changes of
    answers, `changed` is the last event that changed rows.
    """

    mark: Mark = START
    reader: Reader = field(default_factory=lambda: Reader(lambda work: []), repr=False)
    settings: Settings = field(default_factory=Settings)
    pool: Mapping[str, Any] = field(default_factory=dict)
    identity: str = ""
    classes: tuple[Label, ...] = ()
    tops: dict[str, int] = field(default_factory=dict)
    tally: dict[tuple[Any, ...], int] = field(default_factory=dict)
    pool_seq: int = 0
    ranked: int = 0
    n_rounds: int = 0
    turns: int = 0
    dev_turns: int = 0
    moves: int = 0
    changed: int = 0
    described: dict[int, Description] = field(default_factory=dict)
    guidelines: str = ""
    renamed: dict[Label, Label] = field(default_factory=dict)
    losses: tuple[int, ...] = ()
    held: Mapping[int, Mapping[str, Lease]] | None = field(default=None, repr=False)
    """`leases`, once they were looked up; the next state has them from this one."""
    known: dict[int, dict[str, Line]] = field(default_factory=dict, init=False, repr=False)
    """Lines of rows that were looked up."""

    @classmethod
    def of(cls, mark: Mark, header: str, reader: Reader) -> State:
        """Return the state with a header that was stored."""
        if not header:
            raise NotAStudy(
                "The first event of this journal is not that of a study. Check the address: a team's is "
                "for --team."
            )
        try:
            values = json.loads(header)
            values["classes"], values["losses"] = tuple(values["classes"]), tuple(values["losses"])
            values |= {name: dict(values[name]) for name in ("tops", "renamed")}
            values["tally"] = {tuple(fact): n for *fact, n in values["tally"]}
            values["described"] = {k: Description(*words) for k, *words in values["described"]}
            settings, pool = reader.settings(), reader.event(values["pool_seq"]).pool
            return cls(mark, reader, settings, pool, **values)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise Damaged(
                f"The header of the study cannot be read ({type(error).__name__}: {error}). Restore a "
                "backup, or save every event with `goalward restore --recover` or Study.recover."
            ) from error

    def header(self) -> str:
        """Return what a state is but for its tables, settings and pool, as text."""
        values: dict[str, Any] = {name: getattr(self, name) for name in PLAIN}
        values |= {"tops": sorted(self.tops.items()), "renamed": list(self.renamed.items())}
        values["tally"] = sorted(([*fact, n] for fact, n in self.tally.items()), key=repr)
        values["described"] = sorted([place, *words] for place, words in self.described.items())
        return json.dumps(values)

    @property
    def seq(self) -> int:
        """The number of the last event."""
        return self.mark.seq

    @property
    def n_rows(self) -> int:
        return int(self.pool.get("n_rows", 0))

    @cached_property
    def aside(self) -> frozenset[int]:
        """Rows that are never asked: empty ones, and copies."""
        return frozenset(self.pool.get("aside", ()))

    @cached_property
    def copies(self) -> Mapping[int, int]:
        """Row -> the row that it is a copy of; set aside, it has the answer of that one."""
        return dict(self.pool.get("copies", ()))

    @property
    def lost(self) -> tuple[tuple[int, str], ...]:
        """Number and text of lost events."""
        return tuple((seq, self.reader.event(seq).text) for seq in self.losses)

    # Rankings.

    @property
    def ranking(self) -> Ranked | None:
        """The newest ranking."""
        return self.reader.event(self.ranked) if self.ranked else None

    @property
    def rounds(self) -> Sequence[tuple[int, Ranked]]:
        """Number and summary of every ranking; the queue is that of `ranking`."""
        return self.reader.rounds(self.ranked)

    @property
    def view(self) -> dict[str, Any]:
        """What pages look up of the newest ranking."""
        return self.reader.view(self.ranked) if self.ranked else {}

    @property
    def news(self) -> float:
        """How often answers changed since the newest ranking; infinite if that is of other settings."""
        ranking = self.ranking
        if ranking is None or ranking.based_on < self.changed:
            return math.inf
        return self.moves - ranking.moves

    def at_once(self, look: Callable[[State], T]) -> T:
        """Return what a look sees in one transaction: of one moment, and without waiting again."""
        return self.reader.run(lambda c: look(replace(self, reader=self.reader.on(c))))  # type: ignore[no-any-return]

    # Single rows.

    def lines(self, rows: Iterable[int]) -> dict[int, dict[str, Line]]:
        """Return row -> annotator -> the line that stands, also where it took an answer back."""
        known = self.known
        missing = sorted({row for row in rows if row not in known})
        for first in range(0, len(missing), AT_ONCE):
            part = missing[first : first + AT_ONCE]
            found: dict[int, dict[str, Line]] = {row: {} for row in part}
            for values in self.reader.rows(LINES, rows=part, seq=self.seq):
                line = Line(*values)
                found[line.row][line.by] = line
            known.update(found)
        return known

    def undoable(self, by: str) -> int | None:
        """Return the row of an annotator's last answer, skip or withdrawal that was not undone."""
        last = self.tops.get(by, 0)
        found = self.reader.rows(sa.select(ANSWERS.c.row).where(ANSWERS.c.id == last))
        return found[0][0] if found else None

    def answer(self, text: str) -> Any:
        """Return the answer that a text stands for; None is a skip."""
        return None if text == SKIPPED else self.settings.answer.decoded(text, self.classes)

    def said(self, row: int) -> dict[str, Standing]:
        """Return annotator -> what they last said about a row."""
        return {
            by: Standing(self.answer(line.label), line.seq, line.at)
            for by, line in self.lines([row])[row].items()
            if line.label != WITHDRAWN
        }

    def needs_answer(self, row: int, coming: int = 0) -> bool:
        """Return whether a row has fewer answers than it should, with so many on their way."""
        if row in self.aside:
            return False
        texts = [line.label for line in self.lines([row])[row].values() if line.label != WITHDRAWN]
        answers = sum(text != SKIPPED for text in texts)
        only_skipped = texts and not answers
        return not only_skipped and answers + coming < self.settings.answers

    def label(self, row: int) -> Any:
        """Return the label used for a row: the latest, that of most annotators, or the likeliest."""
        rule, likeliest = self.settings.label, []
        if rule == "weighed":
            place = np.searchsorted(self.consensus.rows, row)
            if place < len(self.consensus.rows) and self.consensus.rows[place] == row:
                likeliest = [self.classes[k] for k in np.flatnonzero(self._likely[place])]
        if len(likeliest) == 1:
            return likeliest[0]
        newest_first = sorted(self.said(row).values(), key=attrgetter("seq"), reverse=True)
        labels = [s.label for s in newest_first if s.label is not None]
        if likeliest:  # of several the newest that somebody gave
            return next((label for label in labels if label in likeliest), likeliest[0])
        return used_label(rule, labels)

    def question(self, row: int) -> tuple[float | None, int | None]:
        """Return utility and number of the ranking that led to a row being asked last."""
        found = self.reader.rows(ASKED, of=row, seq=(self.seq + 1) << 20)
        return next(iter(found), (None, None))

    def notes_of(self, row: int) -> list[Note]:
        return [Note(*values) for values in self.reader.rows(NOTED, of=row, seq=self.seq)]

    @property
    def notes(self) -> Mapping[int, tuple[Note, ...]]:
        """Row -> what was written about it."""
        rows = self.reader.rows(sa.select(NOTES.c.row).distinct().where(NOTES.c.seq <= self.seq))
        return {row: tuple(self.notes_of(row)) for (row,) in rows}

    @property
    def leases(self) -> Mapping[int, Mapping[str, Lease]]:
        """Row -> annotator -> their lease."""
        if self.held is None:
            self.held = self._held()
        return self.held

    def _held(self) -> Mapping[int, Mapping[str, Lease]]:
        table = QUESTIONS.c
        held: dict[int, dict[str, Lease]] = {}
        query = sa.select(table.row, table.by, table.id, table.at, table.until, table.place)
        query = query.where(table.id < (self.seq + 1) << 20)
        # One after the other, each by the index.
        for then in (table.released.is_(None), table.released > self.seq):
            for row, by, *lease in self.reader.rows(query.where(then)):
                held.setdefault(row, {})[by] = Lease(*lease)
        return held

    @property
    def pending(self) -> frozenset[int]:
        """Rows handed out and not answered yet; those whose time is over too."""
        return frozenset(self.leases)

    @property
    def begun(self) -> list[int]:
        """Rows that have some answers and need more, those begun first first."""
        table, most = ROWS.c, self.settings.answers
        if most == 1:
            return []
        query = sa.select(table.row).where(table.n > 0, table.n < most).order_by(table.first)
        return [row for (row,) in self.reader.rows(query) if row not in self.aside]

    @property
    def counted_rows(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Of every row how many answers it has, and the newest number; 0 where nobody spoke."""
        return self.reader.counted(self.n_rows, self.seq)

    def touched_since(self, seq: int) -> list[int]:
        """Return the rows of which somebody said something after an event."""
        return sorted({row for (row,) in self.reader.rows(TOUCHED, seq=seq)})

    # All answers, as arrays.

    @cached_property
    def columns(self) -> Columns:
        """All answers and skips that stand."""
        return Columns(self.reader.said(self.seq), self.seq)

    @cached_property
    def shared(self) -> Columns:
        """The answers to rows that several annotators answered."""
        table = ANSWERS.c
        several = table.row.in_(sa.select(ROWS.c.row).where(ROWS.c.n > 1))
        answers = table.label.not_in((SKIPPED, WITHDRAWN))
        # Nothing of what stands now was replaced, and when it was said is not asked.
        names = (table[n] if n in ("by", "label", "row") else sa.literal(0) for n in NAMES)
        query = sa.select(*names).where(several, answers, table.ended.is_(None))
        lines = self.reader.rows(query.order_by(table.row))
        return Columns(Said().grown([lines], self.seq), self.seq)

    @cached_property
    def standings(self) -> Mapping[int, Mapping[str, Standing]]:
        """Row -> annotator -> what they last said."""
        lines = self.columns
        said: dict[int, dict[str, Standing]] = {}
        labels = [self.answer(text) for text in lines.texts]
        columns = (lines.row, lines.by, lines.label, lines.seq, lines.at)
        for row, by, label, seq, at in zip(*(c.tolist() for c in columns), strict=True):
            said.setdefault(row, {})[lines.people[by]] = Standing(labels[label], seq, at)
        return MappingProxyType(said)

    @cached_property
    def closed(self) -> NDArray[Any]:
        """Rows that need no more answers: answered often enough, skipped, or set aside."""
        lines = self.columns
        size = int(lines.row.max(initial=-1)) + 1
        given = np.bincount(lines.row[lines.answers], minlength=size)
        said = np.bincount(lines.row, minlength=size) > 0
        done = np.flatnonzero(said & ((given == 0) | (given >= self.settings.answers)))
        return np.union1d(done, np.array(sorted(self.aside), dtype=np.int64))

    @cached_property
    def used(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """The rows that have a label, sorted, and the place of each one's label in `used_labels`."""
        lines = self.columns
        rows = lines.row[lines.answers]
        # Sorted by row, and then by number: the last of a row is its latest.
        last = np.flatnonzero(np.append(rows[1:] != rows[:-1], len(rows) > 0))
        places = np.arange(len(lines.texts))
        if self.settings.kind == "class":
            places = np.array([-1 if t == SKIPPED else int(t) for t in lines.texts], dtype=np.int64)
        rows, codes = rows[last], places[lines.label[lines.answers[last]]]
        if self.settings.label == "weighed":
            unsure = np.flatnonzero(self._likely.sum(axis=1) > 1)
            codes = self._likely.argmax(axis=1)
        elif self.settings.label == "majority":
            unsure = np.flatnonzero(np.diff(last, prepend=-1) > 1)
        else:
            unsure = np.empty(0, dtype=np.int64)
        self.lines(rows[unsure].tolist())
        for i in unsure.tolist():
            codes[i] = self.classes.index(self.label(int(rows[i])))
        return rows, codes

    @cached_property
    def used_labels(self) -> Sequence[Any]:
        """The classes; where answers are no classes, all different answers."""
        if self.settings.kind == "class":
            return self.classes
        return [self.answer(text) for text in self.columns.texts]

    @cached_property
    def _likely(self) -> NDArray[Any]:
        """(n, k): whether a label is a likeliest one by all answers; one is, as a rule."""
        proba = self.consensus.proba
        return np.asarray(proba > proba.max(axis=1, keepdims=True, initial=0.0) - 1e-9)

    @cached_property
    def measuring(self) -> NDArray[Any]:
        """Which of the rows that have a label measure the model."""
        return self.settings.is_dev(self.used[0])

    def labels_at(self, kept: Any = slice(None)) -> Mapping[int, Label]:
        """Return row -> label of some of the rows that have one, by a mask."""
        rows, codes = self.used
        labels = map(self.used_labels.__getitem__, codes[kept].tolist())
        return MappingProxyType(dict(zip(rows[kept].tolist(), labels, strict=True)))

    @cached_property
    def labels(self) -> Mapping[int, Label]:
        """Row -> label used, in the order of the rows; dev rows too."""
        return self.labels_at()

    @cached_property
    def training(self) -> Mapping[int, Label]:
        """Row -> label, of the rows a model may be fitted on."""
        return self.labels_at(~self.measuring)

    @cached_property
    def dev(self) -> Mapping[int, Label]:
        """Row -> label, of the rows that measure the model."""
        return self.labels_at(self.measuring)

    @property
    def skipped(self) -> frozenset[int]:
        """Rows that somebody skipped and nobody answered."""
        rows = self.columns.row
        return frozenset(rows[~np.isin(rows, self.used[0])].tolist())

    @cached_property
    def first_answers(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """The rows that somebody answered, sorted, and the number of each one's first answer."""
        said = self.reader.said(self.seq)
        end = np.searchsorted(said.columns[2], self.seq, side="right")
        _, label, id, row, seq, _, undoes, _ = (column[:end] for column in said.columns)
        silent = [said.texts.get(text, -1) for text in (SKIPPED, WITHDRAWN)]
        answers = ~np.isin(label, silent) & (undoes == 0)
        answers[np.searchsorted(id, undoes[undoes > 0])] = False
        rows, first = np.unique(row[answers], return_index=True)
        return rows, seq[answers][first]

    @cached_property
    def consensus(self) -> Consensus:
        """What all answers say together, and how reliable each annotator is; classes by their place."""
        return self._consensus(self.columns)

    @cached_property
    def reliability(self) -> Consensus:
        """The consensus on rows that several annotators answered: the others say nothing of people."""
        return self._consensus(self.shared)

    def _consensus(self, lines: Columns) -> Consensus:
        row, by, label = (c[lines.answers] for c in (lines.row, lines.by, lines.label))
        who = sorted(lines.people[code] for code in np.unique(by).tolist())
        order = {person: place for place, person in enumerate(who)}
        places = np.array([order.get(person, -1) for person in lines.people], dtype=np.int64)
        codes = np.array([-1 if t == SKIPPED else int(t) for t in lines.texts], dtype=np.int64)
        return DawidSkene().coded(row, places[by], codes[label], tuple(who), len(self.classes))

    def targets(self, labels: Mapping[int, Label]) -> Any:
        """Return what a model of rows with labels is fitted to: these, or (n, k) probabilities."""
        listed = self.settings.answer.targets(list(labels.values()), self.classes)
        if self.settings.label != "weighed":
            return listed
        proba = self.consensus.at(list(labels))
        if (proba.max(axis=1) == 1.0).all():
            return listed
        # A class that is nobody's label is as unseen as before, however little it was given.
        proba = proba * [position(listed, label) is not None for label in self.classes]
        return proba / proba.sum(axis=1, keepdims=True)

    # Counts.

    def counted(self, *fact: Any) -> int:
        return self.tally.get(fact, 0)

    @cached_property
    def counts(self) -> Mapping[tuple[bool, int], int]:
        """(Whether it measures, place of a class) -> how many rows have that label."""
        if self.settings.label != "weighed":
            return {
                key[1:]: n for key, n in self.tally.items() if key[0] == "label" and len(key) == 3
            }
        pairs, n = np.unique(2 * self.used[1] + self.measuring, return_counts=True)
        counted = zip(pairs.tolist(), n.tolist(), strict=True)
        return {(bool(pair % 2), pair // 2): count for pair, count in counted}

    @property
    def n_labels(self) -> int:
        """How many rows have a label."""
        return self.counted("labelled")

    @property
    def n_training(self) -> int:
        """How many of them a model may be fitted on."""
        return sum(n for (dev, _), n in self.counts.items() if not dev)

    @property
    def n_skipped(self) -> int:
        """How many rows somebody skipped and nobody answered."""
        return self.counted("rows") - self.n_labels

    @property
    def n_closed(self) -> int:
        return self.counted("closed", False) + self.counted("closed", True) + len(self.aside)

    @property
    def n_answers(self) -> int:
        """How many answers stand; of several annotators to one row, each."""
        return self.counted("answers")

    @property
    def annotators(self) -> tuple[str, ...]:
        """Everybody who said something."""
        return tuple(sorted(self.tops))


def used_label(rule: str, newest_first: Sequence[T]) -> T | None:
    """Return the label of a row with these answers: the latest, or that of most annotators."""
    if not newest_first or rule == "latest":
        return newest_first[0] if newest_first else None
    # Counter keeps the order of arrival, so that of equally many the newest wins.
    return Counter(newest_first).most_common(1)[0][0]
