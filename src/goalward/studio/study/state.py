"""The state of a study at one moment: what annotators said, hold and wrote, row by row.

A state never changes, so threads may read it. Answers and questions are columns that only grow,
shared by all states; the rest is small and copied.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array

from goalward.labels import Consensus, DawidSkene
from goalward.studio.store.events import START, Label, Mark, Ranked, canonical, parsed
from goalward.studio.study.kind import position
from goalward.studio.study.settings import Settings

SKIPPED, WITHDRAWN = -1, -2
"""In place of a label's code."""
ANSWERS = {"row": "i4", "by": "i4", "label": "i4", "seq": "i8", "at": "f8"}
ANSWERS |= {"prior": "i4", "undoes": "i4"}
"""A line is what an annotator says of a row from then on. `prior` is the annotator's line that an undo
takes back next; the line of an undo repeats the answer before, `undoes` is what it took back (or -1)."""
QUESTIONS = {"row": "i4", "utility": "f8", "ranking": "i4"}
"""A row was asked: its utility (NaN without) and the number of the ranking (0 without)."""


class Standing(NamedTuple):
    """What an annotator last said about a row; a label of None is a skip."""

    label: Any
    seq: int
    at: float


class RowLog:
    """Lines in columns; a state knows how many are its own, and none that a state sees is changed."""

    def __init__(self, columns: Mapping[str, NDArray[Any]]) -> None:
        self.size = n = len(columns["row"])
        self.columns = {name: np.resize(c, max(64, 2 * n)) for name, c in columns.items()}
        rows = np.asarray(columns["row"])
        order, starts = by_row(rows)
        # The line before of the same row, and the last line of each row.
        self.before = np.full(max(64, 2 * n), -1, dtype="i4")
        same = np.flatnonzero(rows[order[1:]] == rows[order[:-1]])
        self.before[order[same + 1]] = order[same]
        self.last = np.full(max(64, 2 * len(starts)), -1, dtype="i4")
        filled = np.flatnonzero(np.diff(starts))
        self.last[filled] = order[starts[filled + 1] - 1]

    @classmethod
    def empty(cls, kinds: Mapping[str, str]) -> RowLog:
        return cls({name: np.empty(0, kind) for name, kind in kinds.items()})

    def appended(self, n: int, row: int, *values: Any) -> RowLog:
        """Return the log with a line after the first n: itself, or a copy where it went on already."""
        if self.size != n:
            return RowLog(self.first(n)).appended(n, row, *values)
        # First: a line that is cut short is not written over, but left to nobody.
        self.size = n + 1
        if n == len(self.before):
            grown = {name: np.resize(c, 2 * n) for name, c in self.columns.items()}
            self.columns, self.before = grown, np.resize(self.before, 2 * n)
        if row >= len(self.last):
            more = np.full(2 * row - len(self.last) + 64, -1, dtype="i4")
            self.last = np.concatenate([self.last, more])
        for column, value in zip(self.columns.values(), (row, *values), strict=True):
            column[n] = value
        self.before[n] = self.last[row]
        # Last: whoever reads meanwhile finds a whole line.
        self.last[row] = n
        return self

    def first(self, n: int) -> dict[str, NDArray[Any]]:
        """Return the columns of the first n lines."""
        return {name: column[:n] for name, column in self.columns.items()}

    def of(self, row: int, n: int) -> Iterator[int]:
        """Give the places of a row's lines among the first n, newest first."""
        place = int(self.last[row]) if 0 <= row < len(self.last) else -1
        before = self.before
        while place >= 0:
            if place < n:
                yield place
            place = int(before[place])


def by_row(rows: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return a stable order by row, and where each row begins in it."""
    # Sparse matrices are sorted by counting: in a tenth of the time that comparing takes.
    n, shape = len(rows), (int(rows.max(initial=-1)) + 1, max(len(rows), 1))
    sparse = coo_array((np.ones(n, dtype=np.int8), (rows, np.arange(n))), shape=shape).tocsr()
    return sparse.indices, sparse.indptr


class Standings:
    """The answers and skips that stand, by row and then by number, as places in people and names."""

    def __init__(
        self, lines: Mapping[str, NDArray[Any]], people: tuple[str, ...], names: list[Any]
    ) -> None:
        # Each annotator's last line on a row stands.
        row, by = lines["row"], lines["by"]
        stands = lines["label"] != WITHDRAWN
        several = np.flatnonzero(np.bincount(row)[row] > 1)
        order = several[np.lexsort((by[several], row[several]))]
        same = (row[order[1:]] == row[order[:-1]]) & (by[order[1:]] == by[order[:-1]])
        stands[order[:-1][same]] = False
        places = np.flatnonzero(stands)
        places = places[np.argsort(lines["seq"][places], kind="stable")]
        places = places[by_row(row[places])[0]]
        self.row, self.by, self.label = row[places], by[places], lines["label"][places]
        self.seq, self.at = lines["seq"][places], lines["at"][places]
        self.people, self.names = people, names

    @cached_property
    def answers(self) -> NDArray[Any]:
        return np.flatnonzero(self.label >= 0)

    @cached_property
    def newest(self) -> NDArray[Any]:
        """The rows, those with the newest answer or skip first."""
        last = np.append(np.diff(self.row) > 0, True)[: len(self.row)]
        return np.asarray(self.row[last][np.argsort(-self.seq[last], kind="stable")])

    def done(self, answers: int) -> NDArray[Any]:
        """Return the rows with so many answers, and those that were only skipped."""
        size = int(self.row.max(initial=-1)) + 1
        given = np.bincount(self.row[self.answers], minlength=size)
        said = np.bincount(self.row, minlength=size) > 0
        return np.flatnonzero(said & ((given == 0) | (given >= answers)))


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

    def changed(self, colour: str | None, text: str | None) -> Description:
        """Return it with another colour or text; None keeps the present one."""
        given = {"colour": colour, "text": text}
        return self._replace(**{name: word for name, word in given.items() if word is not None})


class Note(NamedTuple):
    """What somebody wrote about a row."""

    by: str
    text: str
    at: float


class Names(dict[tuple[type, Any], int]):
    """Labels, with their type, and their codes; only added to, so that states share them."""

    def __init__(self, labels: Sequence[Any] = ()) -> None:
        super().__init__({(type(label), label): code for code, label in enumerate(labels)})
        self.labels = list(labels)

    def __missing__(self, key: tuple[type, Any]) -> int:
        self.labels.append(key[1])
        self[key] = len(self.labels) - 1
        return self[key]


COPIED = ("tops", "tally", "begun", "leases", "notes", "described", "renamed")
"""Maps of a state that each has for itself."""


@dataclass(eq=False)
class State:
    """A study at one moment, after the event that `mark` names.

    `identity` is the digest of the first event, the same in every copy. Rows `aside` are never asked:
    empty ones, and copies. `n_lines` of `lines` (answers) and `n_asked` of `asked` (questions) belong
    to this state, in codes of `people` and `names`; `tops` has each annotator's last line that was not
    undone. `tally` counts facts, `begun` has rows that need more answers, with the number of the first.
    `rounds` are (number, ranking), of which the newest has its queue. `moves` counts changes of
    answers, `changed` is the last event that changed rows, `lost` has (number, text) of lost events.
    """

    mark: Mark = START
    identity: str = ""
    settings: Settings = field(default_factory=Settings)
    pool: Mapping[str, Any] = field(default_factory=dict)
    n_rows: int = 0
    classes: tuple[Label, ...] = ()
    aside: frozenset[int] = frozenset()
    lines: RowLog = field(default_factory=partial(RowLog.empty, ANSWERS), repr=False)
    n_lines: int = 0
    asked: RowLog = field(default_factory=partial(RowLog.empty, QUESTIONS), repr=False)
    n_asked: int = 0
    people: tuple[str, ...] = ()
    names: Names = field(default_factory=Names, repr=False)
    tops: dict[str, int] = field(default_factory=dict)
    tally: dict[tuple[Any, ...], int] = field(default_factory=dict)
    begun: dict[int, int] = field(default_factory=dict)
    leases: dict[int, dict[str, Lease]] = field(default_factory=dict)
    notes: dict[int, tuple[Note, ...]] = field(default_factory=dict)
    rounds: tuple[tuple[int, Ranked], ...] = ()
    turns: int = 0
    dev_turns: int = 0
    moves: int = 0
    changed: int = 0
    described: dict[int, Description] = field(default_factory=dict)
    guidelines: str = ""
    renamed: dict[Label, Label] = field(default_factory=dict)
    lost: tuple[tuple[int, str], ...] = ()

    @property
    def seq(self) -> int:
        """The number of the last event."""
        return self.mark.seq

    @cached_property
    def copies(self) -> Mapping[int, int]:
        """Row -> the row that it is a copy of; set aside, it has the answer of that one."""
        return dict(self.pool.get("copies", ()))

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
        """How often answers changed since the newest ranking; infinite if that is of other settings."""
        ranking = self.ranking
        if ranking is None or ranking.based_on < self.changed:
            return math.inf
        return self.moves - ranking.moves

    def question(self, row: int) -> tuple[float | None, int | None]:
        """Return utility and number of the ranking that led to a row being asked last."""
        place = next(self.asked.of(row, self.n_asked), None)
        if place is None:
            return None, None
        utility, ranking = (
            self.asked.columns[name][place].item() for name in ("utility", "ranking")
        )
        return None if math.isnan(utility) else utility, ranking or None

    def said(self, row: int) -> dict[str, Standing]:
        """Return annotator -> what they last said about a row."""
        columns, heard, said = self.lines.columns, set(), {}
        for place in self.lines.of(row, self.n_lines):
            by, code = int(columns["by"][place]), int(columns["label"][place])
            if by not in heard and code != WITHDRAWN:
                label = None if code == SKIPPED else self.names.labels[code]
                seq, at = int(columns["seq"][place]), float(columns["at"][place])
                said[self.people[by]] = Standing(label, seq, at)
            heard.add(by)
        return said

    def needs_answer(self, row: int, coming: int = 0) -> bool:
        """Return whether a row has fewer answers than it should, with so many on their way."""
        if row in self.aside:
            return False
        said = self.said(row)
        answers = sum(s.label is not None for s in said.values())
        only_skipped = said and not answers
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
        if not labels or rule == "latest":
            return labels[0] if labels else None
        # Counter keeps the order of arrival, so that of equally many the newest wins.
        return Counter(labels).most_common(1)[0][0]

    @cached_property
    def columns(self) -> Standings:
        """All answers and skips that stand, as columns."""
        return Standings(self.lines.first(self.n_lines), self.people, self.names.labels)

    @cached_property
    def standings(self) -> Mapping[int, Mapping[str, Standing]]:
        """Row -> annotator -> what they last said."""
        return MappingProxyType(
            {row: self.said(row) for row in np.unique(self.columns.row).tolist()}
        )

    @cached_property
    def closed(self) -> NDArray[Any]:
        """Rows that need no more answers: answered often enough, skipped, or set aside."""
        done = self.columns.done(self.settings.answers)
        return np.union1d(done, np.array(sorted(self.aside), dtype=np.int64))

    @cached_property
    def used(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """The rows that have a label, sorted, and the place of each one's label in `used_labels`."""
        lines = self.columns
        rows = lines.row[lines.answers]
        # Sorted by row, and then by number: the last of a row is its latest.
        last = np.flatnonzero(np.append(rows[1:] != rows[:-1], len(rows) > 0))
        rows, codes = rows[last].astype(np.int64), self._places[lines.label[lines.answers[last]]]
        if self.settings.label == "weighed":
            unsure = np.flatnonzero(self._likely.sum(axis=1) > 1)
            codes = self._likely.argmax(axis=1)
        elif self.settings.label == "majority":
            unsure = np.flatnonzero(np.diff(last, prepend=-1) > 1)
        else:
            unsure = np.empty(0, dtype=np.int64)
        for i in unsure.tolist():
            codes[i] = self.classes.index(self.label(int(rows[i])))
        return rows, codes

    @property
    def used_labels(self) -> Sequence[Any]:
        """The classes; where answers are no classes, all different answers."""
        return self.classes if self.settings.kind == "class" else self.columns.names

    @property
    def _places(self) -> NDArray[Any]:
        """The place among `used_labels` of every label in the columns."""
        names = self.columns.names
        if self.settings.kind != "class":
            return np.arange(len(names))
        places = {(type(label), label): place for place, label in enumerate(self.classes)}
        return np.array([places.get((type(name), name), -1) for name in names], dtype=np.int64)

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
        lines = self.lines.first(self.n_lines)
        given = (lines["label"] >= 0) & (lines["undoes"] < 0)
        given[lines["undoes"][lines["undoes"] >= 0]] = False
        rows, first = np.unique(lines["row"][given], return_index=True)
        return rows, lines["seq"][given][first]

    @cached_property
    def consensus(self) -> Consensus:
        """What all answers say together, and how reliable each annotator is; classes by their place."""
        lines = self.columns
        row, by, label = (c[lines.answers] for c in (lines.row, lines.by, lines.label))
        who = sorted(lines.people[code] for code in np.unique(by).tolist())
        order = {person: place for place, person in enumerate(who)}
        places = np.array([order.get(person, -1) for person in lines.people], dtype=np.int64)
        coded = row, places[by], self._places[label]
        return DawidSkene().coded(*coded, tuple(who), len(self.classes))

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

    def counted(self, *fact: Any) -> int:
        return self.tally.get(fact, 0)

    @cached_property
    def counts(self) -> Mapping[tuple[bool, Label], int]:
        """(Whether it measures, label) -> how many rows have that label."""
        if self.settings.label != "weighed":
            return {
                key[1:]: n for key, n in self.tally.items() if key[0] == "label" and len(key) == 3
            }
        pairs, n = np.unique(2 * self.used[1] + self.measuring, return_counts=True)
        counted = zip(pairs.tolist(), n.tolist(), strict=True)
        return {(bool(pair % 2), self.classes[pair // 2]): count for pair, count in counted}

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
        return self.counted("closed") + len(self.aside)

    @property
    def n_answers(self) -> int:
        """How many answers stand; of several annotators to one row, each."""
        return self.counted("answers")

    @property
    def annotators(self) -> tuple[str, ...]:
        """Everybody who said something."""
        return tuple(sorted(self.people))


PLAIN = ("identity", "pool", "classes", "turns", "dev_turns", "moves", "changed", "guidelines")
MAPS = ("tops", "begun", "described", "renamed", "tally", "leases", "notes")


def packed(state: State) -> bytes:
    """Return a state as bytes: the same for the same events."""
    small: dict[str, Any] = {name: getattr(state, name) for name in (*PLAIN, "people", "lost")}
    small |= {name: sorted(getattr(state, name).items(), key=json.dumps) for name in MAPS}
    small |= {"leases": sorted((row, sorted(held.items())) for row, held in state.leases.items())}
    small |= {"settings": state.settings.to_json(), "names": state.names.labels}
    small |= {"rounds": [(seq, canonical(ranked)) for seq, ranked in state.rounds]}
    small |= {"sizes": [state.n_lines, state.n_asked]}
    head = json.dumps(small, sort_keys=True).encode()
    logs = (state.lines.first(state.n_lines), state.asked.first(state.n_asked))
    columns = [column.tobytes() for log in logs for column in log.values()]
    return b"".join([len(head).to_bytes(8, "little"), head, *columns])


def unpacked(mark: Mark, content: bytes) -> State:
    """Return the state that `packed` made bytes of."""
    at = 8 + int.from_bytes(content[:8], "little")
    small = json.loads(content[8:at])
    logs = []
    for kinds, n in zip((ANSWERS, QUESTIONS), small["sizes"], strict=True):
        columns = {}
        for name, kind in kinds.items():
            columns[name] = np.frombuffer(content, kind, n, at)
            at += columns[name].nbytes
        logs.append(RowLog(columns))
    plain: dict[str, Any] = {name: small[name] for name in PLAIN if name != "classes"}
    plain |= {name: dict(small[name]) for name in ("tops", "begun", "renamed")}
    pool, held = small["pool"], small["leases"]
    return State(
        **plain,
        mark=mark,
        n_rows=pool.get("n_rows", 0),
        settings=Settings.from_json(small["settings"]),
        classes=tuple(small["classes"]),
        aside=frozenset(pool.get("aside", ())),
        lines=logs[0],
        n_lines=small["sizes"][0],
        asked=logs[1],
        n_asked=small["sizes"][1],
        people=tuple(small["people"]),
        names=Names([tuple(x) if isinstance(x, list) else x for x in small["names"]]),
        tally={tuple(fact): count for fact, count in small["tally"]},
        leases={row: {by: Lease(*lease) for by, lease in by_whom} for row, by_whom in held},
        notes={row: tuple(Note(*note) for note in notes) for row, notes in small["notes"]},
        rounds=tuple((seq, parsed(seq, body)) for seq, body in small["rounds"]),  # type: ignore[misc]
        described={place: Description(*words) for place, words in small["described"]},
        lost=tuple((seq, text) for seq, text in small["lost"]),
    )
