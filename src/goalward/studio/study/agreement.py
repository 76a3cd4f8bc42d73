"""How far annotators agree, on the rows that two of them answered, and how reliable each is."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import count, takewhile
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
    lines = state.shared
    names = sorted(lines.people)
    by = np.array([names.index(name) for name in lines.people], dtype=np.int64)[lines.by]
    order = np.lexsort((by, lines.row))
    row, by, label = lines.row[order], by[order], lines.label[order]
    # Lines of a row follow each other: those one apart, two apart, and so on make all pairs.
    apart = takewhile(len, (np.flatnonzero(row[d:] == row[:-d]) for d in count(1)))
    meet = [np.stack([i, i + d]) for d, i in enumerate(apart, start=1)]
    if not meet:
        return []
    (one, other), (ours, theirs) = by[np.hstack(meet)], label[np.hstack(meet)]
    pairs, place = np.unique(one * len(names) + other, return_inverse=True)
    P, K = len(pairs), len(lines.texts)
    often = [np.bincount(place * K + said, minlength=P * K) for said in (ours, theirs)]
    luck = (often[0] * often[1]).reshape(P, K).sum(axis=1)
    rows, same = np.bincount(place), np.bincount(place[ours == theirs], minlength=P)
    found = []
    for at, n, equal, by_chance in np.stack([pairs, rows, same, luck], axis=1).tolist():
        one, other = (names[k] for k in divmod(at, len(names)))
        found.append(Agreement(one, other, n, equal, wilson(equal, n), by_chance / n**2))
    return sorted(found, key=lambda pair: -pair.rows)
