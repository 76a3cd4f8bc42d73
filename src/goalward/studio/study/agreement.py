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
    """Two annotators on the rows that both answered; `chance` is the share of equal labels by chance."""

    one: str
    other: str
    rows: int
    same: int
    share: Interval
    chance: float

    @property
    def kappa(self) -> float | None:
        """Cohen's: 0 for what chance gives, 1 for the same label everywhere."""
        if self.chance == 1.0:
            return None
        return (self.same / self.rows - self.chance) / (1 - self.chance)

    @property
    def says(self) -> str:
        low, high = (f"{100 * end:.0f}" for end in self.share[1:])
        kappa = "" if self.kappa is None else f" (Cohen's kappa {self.kappa:.2f})"
        chance = f" Chance would give {100 * self.chance:.0f} %{kappa}." if kappa else ""
        return (
            f"{self.one} and {self.other} gave the same label to {self.same} of the {self.rows} rows "
            f"that both answered: {100 * self.same / self.rows:.0f} % ({low} to {high} %).{chance}"
        )

    def record(self) -> dict[str, Any]:
        more = {"share": self.share._asdict(), "kappa": self.kappa, "says": self.says}
        return asdict(self) | more


@dataclass(frozen=True)
class Reliability:
    """An annotator, judged by all answers: of `answers` to shared rows, `right` are expected right."""

    by: str
    answers: int
    right: float
    share: Interval

    @property
    def says(self) -> str:
        low, high = (f"{100 * end:.0f}" for end in self.share[1:])
        return (
            f"{self.by} is right in about {100 * self.right / self.answers:.0f} % ({low} to {high} %), "
            f"estimated from {self.answers} rows that others answered too."
        )

    def record(self) -> dict[str, Any]:
        return asdict(self) | {"share": self.share._asdict(), "says": self.says}


def reliabilities(state: State) -> list[Reliability]:
    """Return how reliable everybody is who shares a row with somebody, best first; only for classes."""
    if state.settings.kind != "class":
        return []
    known = state.reliability
    judged = zip(known.people, known.answers.tolist(), known.right.tolist(), strict=True)
    people = [Reliability(str(by), n, right, wilson(right, n)) for by, n, right in judged if n]
    return sorted(people, key=lambda person: -person.right / person.answers)


def agreements(state: State) -> list[Agreement]:
    """Return how far every two annotators agree, on all labels where there are several; not for numbers."""
    if state.settings.kind == "numbers":
        return []
    lines, found = state.shared, []
    heard = {by: code for code, by in enumerate(lines.people)}
    given = {by: np.flatnonzero(lines.by == heard[by]) for by in sorted(heard)}
    for one, other in combinations(given, 2):
        ours, theirs = given[one], given[other]
        _, i, j = np.intersect1d(
            lines.row[ours], lines.row[theirs], assume_unique=True, return_indices=True
        )
        ours, theirs = lines.label[ours[i]], lines.label[theirs[j]]
        if n := len(ours):
            same = int(np.count_nonzero(ours == theirs))
            K = len(lines.texts)
            often = np.bincount(ours, minlength=K) * np.bincount(theirs, minlength=K)
            found.append(Agreement(one, other, n, same, wilson(same, n), int(often.sum()) / n**2))
    return sorted(found, key=lambda pair: -pair.rows)
