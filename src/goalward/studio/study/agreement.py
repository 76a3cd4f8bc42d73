"""How far annotators agree, on the rows that two of them answered, and how reliable each is."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np

from goalward.studio.study.scores import Interval, wilson
from goalward.studio.study.state import State


@dataclass(frozen=True)
class Agreement:
    """Two annotators on the rows that both answered.

    Parameters
    ----------
    rows, same
        Rows that both answered, and those with the same label.
    share
        The share of these, with its interval.
    chance
        The share that would be the same if each drew labels as often as they gave them.
    """

    one: str
    other: str
    rows: int
    same: int
    share: Interval
    chance: float

    @property
    def kappa(self) -> float | None:
        """Cohen's: 0 for what chance gives, 1 for the same label everywhere."""
        return (
            None
            if self.chance == 1.0
            else (self.same / self.rows - self.chance) / (1 - self.chance)
        )

    @property
    def says(self) -> str:
        """The same for people."""
        low, high = (f"{100 * end:.0f}" for end in self.share[1:])
        said = (
            f"{self.one} and {self.other} gave the same label to {self.same} of the {self.rows} rows "
            f"that both answered: {100 * self.same / self.rows:.0f} % ({low} to {high} %)."
        )
        if self.kappa is None:
            return said
        return (
            f"{said} Chance would give {100 * self.chance:.0f} % (Cohen's kappa {self.kappa:.2f})."
        )

    def record(self) -> dict[str, Any]:
        """Return the agreement as plain values."""
        more = {"share": self.share._asdict(), "kappa": self.kappa, "says": self.says}
        return asdict(self) | more


@dataclass(frozen=True)
class Reliability:
    """An annotator, judged by the answers of all (`labels.DawidSkene`).

    Parameters
    ----------
    answers, right
        Answers to rows that others answered too, and how many of them are expected to be right.
    share
        The share of these, with its interval.
    """

    by: str
    answers: int
    right: float
    share: Interval

    @property
    def says(self) -> str:
        """The same for people."""
        low, high = (f"{100 * end:.0f}" for end in self.share[1:])
        return (
            f"{self.by} is right in about {100 * self.right / self.answers:.0f} % ({low} to {high} %), by "
            f"{self.answers} answers to rows that others answered too."
        )

    def record(self) -> dict[str, Any]:
        """Return it as plain values."""
        return asdict(self) | {"share": self.share._asdict(), "says": self.says}


def reliabilities(state: State) -> list[Reliability]:
    """Return how reliable everybody is who shares a row with somebody, the most reliable first.

    Nobody where answers are no classes.
    """
    if state.settings.kind != "class":
        return []
    found = state.consensus
    judged = zip(found.people, found.answers.tolist(), found.right.tolist(), strict=True)
    shown = [Reliability(str(by), n, right, wilson(right, n)) for by, n, right in judged if n]
    return sorted(shown, key=lambda one: -one.right / one.answers)


def agreements(state: State) -> list[Agreement]:
    """Return how far every two annotators agree, those with most rows in common first.

    On several labels they agree where all are the same. Of numbers nothing is said.
    """
    if state.settings.kind == "numbers":
        return []
    lines, found = state.columns, []
    # What each annotator answered, row by row: only rows with several answers can be shared.
    rows, counts = np.unique(lines.row[lines.answers], return_counts=True)
    shared = lines.answers[np.isin(lines.row[lines.answers], rows[counts > 1])]
    heard = {lines.people[code]: code for code in np.unique(lines.by[shared]).tolist()}
    given = {by: shared[lines.by[shared] == heard[by]] for by in sorted(heard)}
    for one, other in combinations(given, 2):
        ours, theirs = given[one], given[other]
        _, i, j = np.intersect1d(
            lines.row[ours], lines.row[theirs], assume_unique=True, return_indices=True
        )
        ours, theirs = lines.label[ours[i]], lines.label[theirs[j]]
        if n := len(ours):
            same = int(np.count_nonzero(ours == theirs))
            K = len(lines.names)
            often = np.bincount(ours, minlength=K) * np.bincount(theirs, minlength=K)
            found.append(Agreement(one, other, n, same, wilson(same, n), int(often.sum()) / n**2))
    return sorted(found, key=lambda pair: -pair.rows)
