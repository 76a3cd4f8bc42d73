"""What annotators did to rows, as columns: a base that states share, found by row without a search.

A line is an answer, a skip or a withdrawal that was not undone. An undo takes back the last line of
an annotator, so what somebody says of a row is their last line on it, and what they had said before
is the line before that: nothing else is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array

from goalward.studio.store.events import Label

SKIPPED, WITHDRAWN = -1, -2
"""What stands in place of a label's code."""
KINDS = {"row": "i4", "by": "i4", "label": "i4", "seq": "i8", "at": "f8"}
"""The columns of a line."""


class Standing(NamedTuple):
    """What an annotator last said about a row; a label of None is a skip."""

    label: Any
    seq: int
    at: float


class Change(NamedTuple):
    """A line that is no part of the base yet.

    Parameters
    ----------
    seq, row, after
        Its number, its row, and what was said; None for a withdrawal.
    before, earlier
        What the annotator had said of the row before, and their line before this one.
    """

    seq: int
    row: int
    after: Standing | None
    before: Standing | None
    earlier: Change | None


def by_row(rows: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return an order by row, equal ones as they come, and where each row begins in it.

    Sparse matrices are sorted by counting: in a tenth of the time that comparing takes.
    """
    n, shape = len(rows), (int(rows.max(initial=-1)) + 1, max(len(rows), 1))
    sparse = coo_array((np.ones(n, dtype=np.int8), (rows, np.arange(n))), shape=shape).tocsr()
    return sparse.indices, sparse.indptr


@dataclass(frozen=True, eq=False)
class Lines:
    """Lines by row, and of one row in their order.

    Parameters
    ----------
    row, seq, at
        The row, the number of the event, and its time.
    by, label
        Places among `people` and `names`; a label may be `SKIPPED` or `WITHDRAWN`.
    """

    row: NDArray[Any]
    by: NDArray[Any]
    label: NDArray[Any]
    seq: NDArray[Any]
    at: NDArray[Any]
    people: tuple[str, ...] = ()
    names: tuple[Any, ...] = ()

    @classmethod
    def of(cls, lines: Iterable[tuple[Any, ...]] = (), **named: Any) -> Lines:
        """Return lines (row, by, label, seq, at) as they come."""
        columns = zip(*lines, strict=True) if (lines := list(lines)) else [()] * len(KINDS)
        named |= {name: np.array(c, k) for (name, k), c in zip(KINDS.items(), columns, strict=True)}
        return cls(**named)

    def __len__(self) -> int:
        return len(self.row)

    @cached_property
    def starts(self) -> NDArray[Any]:
        """Where the lines of each row begin; and where those of the last end."""
        return np.searchsorted(self.row, np.arange(int(self.row.max(initial=-1)) + 2))

    @cached_property
    def stands(self) -> NDArray[Any]:
        """Whether a line is what its annotator says of its row."""
        last = np.ones(len(self), dtype=bool)
        several = np.flatnonzero(np.repeat(np.diff(self.starts) > 1, np.diff(self.starts)))
        order = several[np.lexsort((self.by[several], self.row[several]))]
        same = (self.row[order[1:]] == self.row[order[:-1]]) & (
            self.by[order[1:]] == self.by[order[:-1]]
        )
        last[order[:-1][same]] = False
        return np.asarray(last & (self.label != WITHDRAWN))

    @cached_property
    def answers(self) -> NDArray[Any]:
        """The places of the answers that stand."""
        return np.flatnonzero(self.stands & (self.label >= 0))

    @cached_property
    def newest(self) -> NDArray[Any]:
        """The rows that something is said of, those with the newest line first."""
        places = np.flatnonzero(self.stands)
        # By row, and of a row by number: its last line is its newest.
        last = places[np.append(np.diff(self.row[places]) > 0, True)[: len(places)]]
        by_number = np.full(int(self.seq.max(initial=0)) + 1, -1, dtype=np.int32)
        by_number[self.seq[last]] = self.row[last]
        return by_number[by_number >= 0][::-1]

    def done(self, answers: int) -> NDArray[Any]:
        """Return the rows with so many answers, and those that were skipped only."""
        size = len(self.starts) - 1
        given = np.bincount(self.row[self.answers], minlength=size)
        said = np.bincount(self.row[self.stands], minlength=size) > 0
        return np.flatnonzero(said & ((given == 0) | (given >= answers)))

    def standing(self, place: int) -> Standing | None:
        """Return what a line says."""
        code = int(self.label[place])
        if code == WITHDRAWN:
            return None
        return Standing(
            None if code < 0 else self.names[code], int(self.seq[place]), float(self.at[place])
        )

    def said(self, row: int) -> dict[str, Any]:
        """Return annotator -> what they say of a row."""
        if not 0 <= row < len(self.starts) - 1:
            return {}
        places = range(int(self.starts[row]), int(self.starts[row + 1]))
        return {self.people[self.by[i]]: self.standing(i) for i in places if self.stands[i]}

    def last(self, by: str, cut: int | None) -> Change | None:
        """Return the last line of an annotator, of those with a number below the cut."""
        if by not in self.people:
            return None
        theirs = self.by == self.people.index(by)
        places = np.flatnonzero(theirs if cut is None else theirs & (self.seq < cut))
        if not len(places):
            return None
        place = int(places[np.argmax(self.seq[places])])
        row, seq = int(self.row[place]), int(self.seq[place])
        same = places[(self.row[places] == row) & (self.seq[places] < seq)]
        before = self.standing(int(same[-1])) if len(same) else None
        return Change(seq, row, self.standing(place), before, None)

    def joined(self, news: Lines, cuts: Mapping[str, int]) -> Lines:
        """Return these lines, less those from each annotator's cut on, and newer ones after them."""
        gone = np.zeros(len(self), dtype=bool)
        for by, cut in cuts.items():
            gone |= (self.by == self.people.index(by)) & (self.seq >= cut)
        kept = [getattr(self, name) for name in KINDS]
        if gone.any():
            kept = [column[~gone] for column in kept]
        columns = [
            np.concatenate([old, getattr(news, name)])
            for name, old in zip(KINDS, kept, strict=True)
        ]
        order, starts = by_row(columns[0])
        sorted_columns = {n: c[order] for n, c in zip(KINDS, columns, strict=True)}
        lines = Lines(**sorted_columns, people=news.people, names=news.names)
        vars(lines)["starts"] = starts
        return lines

    def renamed(self, names: tuple[Label, ...]) -> Lines:
        """Return the lines with other names of their labels."""
        lines = replace(self, names=names)
        for name in ("starts", "stands", "answers"):
            if name in vars(self):
                vars(lines)[name] = vars(self)[name]
        return lines


class AskedRows(NamedTuple):
    """Rows that were asked, sorted, with the utility and the ranking of their last question."""

    row: NDArray[Any]
    utility: NDArray[Any]
    ranking: NDArray[Any]

    @classmethod
    def of(cls, questions: Iterable[tuple[int, float | None, int | None]] = ()) -> AskedRows:
        """Return questions as columns: NaN and 0 where there is none."""
        rows, utilities, rankings = zip(*q, strict=True) if (q := list(questions)) else [()] * 3
        utility = [np.nan if one is None else one for one in utilities]
        ranking = [one or 0 for one in rankings]
        return cls(np.array(rows, "i4"), np.array(utility, "f8"), np.array(ranking, "i4"))

    def get(self, row: int) -> tuple[float | None, int | None] | None:
        """Return the utility and the ranking of a row's last question."""
        place = int(np.searchsorted(self.row, row))
        if place == len(self.row) or self.row[place] != row:
            return None
        utility = float(self.utility[place])
        return None if np.isnan(utility) else utility, int(self.ranking[place]) or None

    def joined(self, news: AskedRows) -> AskedRows:
        """Return these and newer ones, of which a row's last counts."""
        old, new = (np.asarray(part) for part in (self.row, news.row))
        order, starts = by_row(np.concatenate([old, new]))
        last = order[starts[1:][np.diff(starts) > 0] - 1]
        pairs = zip(self, news, strict=True)
        return AskedRows(*(np.concatenate(pair)[last] for pair in pairs))


class ByRow(Mapping[int, Any]):
    """A map of rows that is looked up where it is, and made of nothing.

    Parameters
    ----------
    find, rows
        Returns what a row has, nothing where it has nothing; all rows that have something.
    """

    def __init__(self, find: Callable[[int], Any], rows: Callable[[], NDArray[Any]]) -> None:
        self._find, self._rows = find, rows

    def __getitem__(self, row: int) -> Any:
        if found := self._find(row):
            return found
        raise KeyError(row)

    def __iter__(self) -> Iterator[int]:
        return iter(self._rows().tolist())

    def __len__(self) -> int:
        return len(self._rows())
