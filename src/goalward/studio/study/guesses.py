"""Guesses given with the rows of a study: how often they are right, and what a page shows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from goalward.errors import BadParameter
from goalward.labels.opinion import missing, shares_of
from goalward.studio.store.events import Label
from goalward.studio.store.store import Store
from goalward.studio.study.settings import plain_label
from goalward.studio.study.state import State
from goalward.studio.tables.cells import label_column
from goalward.studio.tables.table import Table, named_table

BEFORE = 2.0
"""Answers that the share of all guesses counts for, where few named that class."""


@dataclass(frozen=True)
class Proved:
    """How many guesses of each class were right, of how many with an answer."""

    right: Counter[Label]
    of: Counter[Label]

    def share(self, label: Label) -> float:
        """Return how often a guess of a class will be right; a half before any answer."""
        everywhere = (self.right.total() + 1.0) / (self.of.total() + 2.0)
        return (self.right[label] + BEFORE * everywhere) / (self.of[label] + BEFORE)


@dataclass(frozen=True, eq=False)
class Guesses:
    """A guess or None for each row, and perhaps its probability."""

    labels: Sequence[Any] = field(repr=False)
    probabilities: Sequence[Any] | None = field(default=None, repr=False)
    _known: dict[Any, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def given(cls, pool: Any, guesses: Any, probabilities: Any) -> tuple[Any, Guesses | None]:
        """Return a pool with columns of guesses, or guesses to store: values, or a function of the pool."""
        if guesses is None:
            return pool, None
        if isinstance(guesses, str):
            table = named_table(pool) or Table(pool)
            named = [guesses] if probabilities is None else [guesses, probabilities]
            if probabilities is not None and probabilities in (frame := table.read()).columns:
                shares_of(label_column(frame[probabilities]), frame.height)
            return replace(table, guesses=tuple(named)), None
        values = guesses(pool) if callable(guesses) else guesses
        labels = [None if missing(value) else plain_label(value) for value in values]
        if probabilities is None:
            return pool, cls(labels)
        sure = list(probabilities)
        if len(sure) != len(labels):
            raise BadParameter(
                f"guess_probabilities must be as many as guesses ({len(labels)}), got {len(sure)}."
            )
        shares_of(sure, len(sure))
        return pool, cls(labels, [None if missing(share) else float(share) for share in sure])

    def stored(self, kept: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        if len(self.labels) != kept["n_rows"]:
            raise BadParameter(
                f"guesses must be one for each of {kept['n_rows']} rows, None where there is none, got "
                f"{len(self.labels)}."
            )
        content = json.dumps([self.labels, self.probabilities]).encode()
        return {**kept, "guesses": sha256(content).hexdigest()}, [content]

    @classmethod
    def load(
        cls, journal: Store, kept: Mapping[str, Any], frame: pl.DataFrame | None = None
    ) -> Guesses | None:
        """Return the guesses of a study; rows that were added later have none but in a table."""
        stored, columns = kept.get("guesses"), guess_columns(kept)
        if not stored:
            return None
        if not columns:
            labels, sure = json.loads(journal.blob(stored))
            none = [None] * (kept["n_rows"] - len(labels))
            return cls([*labels, *none], None if sure is None else [*sure, *none])
        assert frame is not None
        labels, *sure = (label_column(frame[name]) for name in columns)
        return cls(labels, sure[0] if sure else None)

    def named(self, rows: Sequence[int], state: State) -> dict[int, Label]:
        """Return row -> the class guessed, for rows whose guess is a class."""
        classes = {str(old): new for old, new in state.renamed.items()}
        classes |= {str(label): label for label in state.classes}
        names = {row: str(self.labels[row]).strip() for row in rows if row < len(self.labels)}
        return {row: classes[name] for row, name in names.items() if name in classes}

    def proved(self, state: State) -> Proved:
        rows, codes = state.used
        kept = self._guessed(state)[rows]
        K = len(state.classes)
        counts = (np.bincount(kept[mask], minlength=K) for mask in (kept == codes, kept >= 0))
        right, of = (Counter(dict(zip(state.classes, n.tolist(), strict=True))) for n in counts)
        return Proved(right, of)

    def _guessed(self, state: State) -> NDArray[Any]:
        """Return the index of the class guessed for every row; -1 without one."""
        key = (state.classes, state.n_rows)
        if key not in self._known:
            named = self.named(range(state.n_rows), state)
            places = {label: place for place, label in enumerate(state.classes)}
            codes = np.full(state.n_rows, -1)
            codes[list(named)] = [places[label] for label in named.values()]
            self._known.clear()
            self._known[key] = codes
        guessed: NDArray[Any] = self._known[key]
        return guessed

    def _lately(self, state: State) -> Proved:
        """Return `proved` as of the newest ranking, if there is one: pages do not wait."""
        counted = ((state.ranking and state.ranking.guesses) or {}).get("classes")
        if counted is None:
            return self.proved(state)
        pairs = list(zip(state.classes, counted, strict=False))
        right, of = ({label: both[k] for label, both in pairs} for k in (0, 1))
        return Proved(Counter(right), Counter(of))

    def shown(self, rows: Sequence[int], state: State) -> dict[int, tuple[Label, float]]:
        """Return row -> guess and its share right, except for rows that measure: guesses bias people."""
        asked = [row for row, dev in zip(rows, state.settings.is_dev(rows), strict=True) if not dev]
        named, proved = self.named(asked, state), self._lately(state)
        return {row: (label, proved.share(label)) for row, label in named.items()}


def guess_columns(kept: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the columns of a table that are guesses; none where those are inside the study."""
    stored = kept.get("guesses", ())
    return () if isinstance(stored, str) else tuple(stored)
