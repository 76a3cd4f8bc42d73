"""What annotators said of the rows of a study, at one moment: columns, and what came since.

Everything here is of a moment and computed once, if at all. What every answer must know is counted
as events come (`tally`); what needs all answers goes over the columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rpds import HashTrieMap, HashTrieSet

from goalward.labels import Consensus, DawidSkene
from goalward.studio.store import Mark
from goalward.studio.store.events import START, Label
from goalward.studio.study.kind import position
from goalward.studio.study.lines import SKIPPED, WITHDRAWN, ByRow, Change, Lines, Standing
from goalward.studio.study.settings import Settings
from goalward.studio.study.tally import Tally, used_label


@dataclass(frozen=True, eq=False)
class Answered:
    """What was said.

    Parameters
    ----------
    aside
        Rows that are never asked: there is nothing in them to read.
    base, lines
        An earlier moment, and what annotators had done by then.
    recent, changes, cuts
        Since then: row -> annotator -> what they say; annotator -> their newest line; annotator ->
        the first of their earlier lines that they undid.
    tally, begun
        What there is how often (`tally.facts`); rows that somebody answered and that need more
        answers -> the number of the first.
    reopened
        Rows that were done and need an answer again, since the base.
    """

    settings: Settings = Settings()
    classes: tuple[Label, ...] = ()
    aside: frozenset[int] = frozenset()
    base: Mark = START
    lines: Lines = Lines.of()
    recent: HashTrieMap[int, HashTrieMap[str, Standing]] = HashTrieMap()
    changes: HashTrieMap[str, Change | None] = HashTrieMap()
    cuts: HashTrieMap[str, int] = HashTrieMap()
    tally: Tally = HashTrieMap()
    begun: HashTrieMap[int, int] = HashTrieMap()
    reopened: HashTrieSet[int] = HashTrieSet()

    def said(self, row: int) -> HashTrieMap[str, Standing]:
        """Return annotator -> what they last said about a row."""
        found = self.recent.get(row)
        return HashTrieMap(self.lines.said(row)) if found is None else found

    @property
    def standings(self) -> Mapping[int, HashTrieMap[str, Standing]]:
        """Row -> annotator -> what they last said."""
        return ByRow(self.said, lambda: np.unique(self.columns.row[self.columns.stands]))

    def last_change(self, by: str) -> Change | None:
        """Return what an annotator did last, of what they did not undo."""
        return self.changes.get(by) or self.lines.last(by, self.cuts.get(by))

    def since(self) -> Lines:
        """Return the lines that came after the base, in their order."""
        found: list[tuple[int, str, Change]] = []
        for by, last in self.changes.items():
            change = last
            while change is not None:
                found.append((change.seq, by, change))
                change = change.earlier
        found.sort(key=lambda one: one[0])
        people = (*self.lines.people, *sorted(set(self.changes) - set(self.lines.people)))
        codes = {(type(name), name): code for code, name in enumerate(self.lines.names)}
        places = {by: place for place, by in enumerate(people)}
        lines = []
        for seq, by, change in found:
            code, at = WITHDRAWN, 0.0
            if change.after is not None:
                label, at = change.after.label, change.after.at
                code = (
                    SKIPPED if label is None else codes.setdefault((type(label), label), len(codes))
                )
            lines.append((change.row, places[by], code, seq, at))
        return Lines.of(lines, people=people, names=tuple(name for _, name in codes))

    @cached_property
    def columns(self) -> Lines:
        """Every line, older and newer, as columns."""
        if not self.changes and not self.cuts:
            return self.lines
        return self.lines.joined(self.since(), self.cuts)

    def needs_answer(self, row: int, coming: int = 0) -> bool:
        """Return whether a row has fewer answers than it should, with so many on their way."""
        if row in self.aside:
            return False
        said = self.said(row)
        answers = sum(s.label is not None for s in said.values())
        skipped = len(said) > 0 and answers == 0
        return not skipped and answers + coming < self.settings.answers

    @cached_property
    def closed(self) -> NDArray[Any]:
        """Rows that need no more answers: answered often enough, skipped, or set aside."""
        done = self.columns.done(self.settings.answers)
        more = sorted(self.aside.difference(done.tolist())) if self.aside else []
        return np.sort(np.concatenate([done, np.array(more, dtype=np.int64)]), kind="stable")

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
    def used_labels(self) -> tuple[Any, ...]:
        """The classes; where answers are no classes, those that there are."""
        return self.classes if self.settings.kind == "class" else self.columns.names

    @property
    def _places(self) -> NDArray[Any]:
        """The place among `used_labels` of every label that stands in the columns."""
        if self.settings.kind != "class":
            return np.arange(len(self.columns.names))
        return np.array([self.classes.index(name) for name in self.columns.names], dtype=np.int64)

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
        said = map(self.used_labels.__getitem__, codes[kept].tolist())
        return MappingProxyType(dict(zip(rows[kept].tolist(), said, strict=True)))

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

    @cached_property
    def consensus(self) -> Consensus:
        """What all answers say together, and how reliable each annotator is; classes by their place."""
        lines = self.columns
        row, by, said = (c[lines.answers] for c in (lines.row, lines.by, lines.label))
        label = self._places[said]
        heard = [lines.people[code] for code in np.unique(by).tolist()]
        who = sorted(heard)
        places = np.array(
            [who.index(by) if by in heard else -1 for by in lines.people], dtype=np.int64
        )
        return DawidSkene().coded(row, places[by], label, tuple(who), len(self.classes))

    def targets(self, labels: Mapping[int, Label]) -> Any:
        """Return what a model of rows with labels is fitted to: these, or (n, k) probabilities."""
        listed = self.settings.answer.targets(list(labels.values()), self.classes)
        weighed = self.settings.label == "weighed"
        proba = self.consensus.at(list(labels)) if weighed else np.ones((1, 1))
        if (proba.max(axis=1) == 1.0).all():
            return listed
        # A class that is nobody's label is as unseen as before, however little it was given.
        proba = proba * [position(listed, label) is not None for label in self.classes]
        return proba / proba.sum(axis=1, keepdims=True)

    @cached_property
    def counts(self) -> Mapping[tuple[bool, Label], int]:
        """(Whether it measures, label) -> how many rows have that label."""
        if self.settings.label != "weighed":
            return {
                key[1:]: n for key, n in self.tally.items() if key[0] == "label" and len(key) == 3
            }
        pairs, n = np.unique(2 * self.used[1] + self.measuring, return_counts=True)
        found = zip(pairs.tolist(), n.tolist(), strict=True)
        return {(bool(pair % 2), self.classes[pair // 2]): count for pair, count in found}

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
        """How many rows need no more answers."""
        return self.counted("closed") + len(self.aside)

    @property
    def n_answers(self) -> int:
        """How many answers stand; of several annotators to one row, each."""
        return self.counted("answers")

    def counted(self, *fact: Any) -> int:
        """Return how often there is a fact."""
        return self.tally.get(fact, 0)

    @property
    def annotators(self) -> tuple[str, ...]:
        """Everybody who said something."""
        return tuple(sorted({*self.lines.people, *self.changes}))

    @cached_property
    def first_answers(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """The rows that somebody answered, sorted, and the number of each one's first answer."""
        answers = np.flatnonzero(self.columns.label >= 0)
        rows = self.columns.row[answers]
        first = answers[np.diff(rows, prepend=-1) > 0]
        return self.columns.row[first], self.columns.seq[first]

    @property
    def skipped(self) -> frozenset[int]:
        """Rows that somebody skipped and nobody answered."""
        said = self.columns.row[self.columns.stands]
        return frozenset(said[~np.isin(said, self.used[0])].tolist())

    def label(self, row: int) -> Any:
        """Return the label used for a row: the latest, that of most annotators, or the likeliest."""
        rule = self.settings.label
        likeliest: tuple[Label, ...] = ()
        if rule == "weighed":
            place = np.searchsorted(self.consensus.rows, row)
            if place < len(self.consensus.rows) and self.consensus.rows[place] == row:
                likeliest = tuple(self.classes[k] for k in np.flatnonzero(self._likely[place]))
        if len(likeliest) == 1:
            return likeliest[0]
        said = self.said(row)
        if likeliest:  # of several the newest that somebody gave
            found = used_label(said, "latest", likeliest)
            return likeliest[0] if found is None else found
        return used_label(said, rule)
