"""Guesses that came with the rows of a study: how they proved, and what a page may show of them."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from goalward.errors import BadParameter
from goalward.labels.opinion import Opinion, missing, shares_of
from goalward.studio.store.events import Label
from goalward.studio.store.store import Store
from goalward.studio.study.settings import plain_label
from goalward.studio.study.state import State
from goalward.studio.tables.cells import label_column
from goalward.studio.tables.table import Table

BEFORE = 2.0
"""Answers that the share of all guesses counts for, where few named that class."""


@dataclass(frozen=True)
class Proved:
    """How guesses stood beside the answers that came, in all and for each class guessed."""

    right: Counter[Label]
    of: Counter[Label]

    def share(self, label: Label) -> float:
        """Return how often a guess of a class will be right; a half before any answer."""
        everywhere = (self.right.total() + 1.0) / (self.of.total() + 2.0)
        return (self.right[label] + BEFORE * everywhere) / (self.of[label] + BEFORE)


@dataclass(frozen=True, eq=False)
class Guesses:
    """One for each row, None where there is none, and how sure each is if that is known."""

    labels: Sequence[Any] = field(repr=False)
    probabilities: Sequence[Any] | None = field(default=None, repr=False)
    _known: dict[Any, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def given(cls, pool: Any, guesses: Any, probabilities: Any) -> tuple[Any, Guesses | None]:
        """Return a pool that knows which of its columns are guesses, or guesses to be kept beside it.

        Parameters
        ----------
        guesses, probabilities
            Names of columns of a table; or one for each row, or a function that makes them of the
            pool.
        """
        if guesses is None:
            return pool, None
        if isinstance(guesses, str):
            table = pool if isinstance(pool, Table) else Table(pool)
            if probabilities is None:
                return replace(table, guesses=(guesses,)), None
            frame = table.read()
            if probabilities in frame.columns:
                shares_of(label_column(frame[probabilities]), frame.height)
            return replace(table, guesses=(guesses, probabilities)), None
        said = list(guesses(pool) if callable(guesses) else guesses)
        labels = [None if missing(one) else plain_label(one) for one in said]
        if probabilities is None:
            return pool, cls(labels)
        sure = list(probabilities)
        if len(sure) != len(labels):
            raise BadParameter(
                f"{len(labels)} guesses and {len(sure)} guess_probabilities came; as many of one as of "
                "the other were expected."
            )
        shares_of(sure, len(sure))
        return pool, cls(labels, [None if missing(one) else float(one) for one in sure])

    def stored(self, kept: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        """Return what is kept of a pool with these guesses beside it."""
        if len(self.labels) != kept["n_rows"]:
            raise BadParameter(
                f"{len(self.labels)} guesses came for {kept['n_rows']} rows; one for each row was "
                "expected, None where there is none."
            )
        content = json.dumps([self.labels, self.probabilities]).encode()
        return {**kept, "guesses": sha256(content).hexdigest()}, [content]

    @classmethod
    def load(
        cls, journal: Store, kept: Mapping[str, Any], frame: pl.DataFrame | None = None
    ) -> Guesses | None:
        """Return the guesses of a study; rows that were added later have none but in a table."""
        said, columns = kept.get("guesses"), guess_columns(kept)
        if not said:
            return None
        if not columns:
            labels, sure = json.loads(journal.blob(said))
            none = [None] * (kept["n_rows"] - len(labels))
            return cls([*labels, *none], None if sure is None else [*sure, *none])
        assert frame is not None
        labels, *sure = (label_column(frame[name]) for name in columns)
        return cls(labels, sure[0] if sure else None)

    def opinion(self, X: Any, seed: int) -> Opinion:
        """Return what they say of any row."""
        return Opinion.of(X, self.labels, probabilities=self.probabilities, seed=seed)

    def named(self, rows: Sequence[int], state: State) -> dict[int, Label]:
        """Return row -> the class that is guessed, of rows whose guess is one."""
        classes = {str(old): new for old, new in state.renamed.items()}
        classes |= {str(label): label for label in state.classes}
        said = {row: str(self.labels[row]).strip() for row in rows if row < len(self.labels)}
        return {row: classes[name] for row, name in said.items() if name in classes}

    def proved(self, state: State) -> Proved:
        """Return how they stand beside the answers."""
        rows, codes = state.used
        kept = self._guessed(state)[rows]
        K = len(state.classes)
        counts = (np.bincount(kept[mask], minlength=K) for mask in (kept == codes, kept >= 0))
        right, of = (Counter(dict(zip(state.classes, n.tolist(), strict=True))) for n in counts)
        return Proved(right, of)

    def _guessed(self, state: State) -> NDArray[Any]:
        """Return the place among the classes of every row's guess; -1 where there is none."""
        key = (state.classes, state.n_rows)
        if key not in self._known:
            named = self.named(range(state.n_rows), state)
            places = {label: place for place, label in enumerate(state.classes)}
            found = np.full(state.n_rows, -1)
            found[list(named)] = [places[label] for label in named.values()]
            self._known.clear()
            self._known[key] = found
        guessed: NDArray[Any] = self._known[key]
        return guessed

    def _lately(self, state: State) -> Proved:
        """Return how they stood, at most a hundredth of the answers ago: for who waits for a page."""
        moves, _ = self._known.get("lately", (-math.inf, None))
        if not 0 <= state.moves - moves <= state.n_labels / 100:
            self._known["lately"] = state.moves, self.proved(state)
        proved: Proved = self._known["lately"][1]
        return proved

    def shown(self, rows: Sequence[int], state: State) -> dict[int, tuple[Label, float]]:
        """Return row -> guess, and how often such a guess was right; none of rows that measure.

        People agree with what they are shown: there, that would measure itself.
        """
        asked = [row for row, dev in zip(rows, state.settings.is_dev(rows), strict=True) if not dev]
        named, proved = self.named(asked, state), self._lately(state)
        return {row: (label, proved.share(label)) for row, label in named.items()}


def guess_columns(kept: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the columns of a table that are guesses; none where those are inside the study."""
    said = kept.get("guesses", ())
    return () if isinstance(said, str) else tuple(said)
