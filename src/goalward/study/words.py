"""Which words of a row speak for which label: what changes when they are left out."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from goalward.core.arrays import to_numpy
from goalward.errors import BadInput
from goalward.journal.events import Label
from goalward.study.pools import StudyPool
from goalward.study.rounds import StudyRound

__all__ = ["Word", "words"]

MOST = 100
"""Words that are left out, each once: a sentence encoder reads that many texts in a second or two."""


@dataclass(frozen=True)
class Word:
    """A word, wherever it stands in a row, and what it does to each label.

    Parameters
    ----------
    push
        class -> what the word adds to the label's logit, less the mean over the labels. Above 0 it
        speaks for the label; 0.7 doubles its odds.
    """

    word: str
    push: dict[Label, float] = field(hash=False)


def words(round: StudyRound, row: int) -> list[Word]:
    """Return the words of a row that matter, the strongest first; none where no text is read.

    Of a long text the first 100 words are looked at.
    """
    text = str(round.pool.show(row).get("text") or "")
    found: dict[str, str] = {}
    for word in re.findall(r"\w+", text):
        found.setdefault(word.casefold(), word)
    tried = list(found)[:MOST]
    if not tried:
        return []
    without = [re.sub(rf"\b{re.escape(found[w])}\b", "", text, flags=re.I) for w in tried]
    with suppress(BadInput):  # vectors that were made elsewhere
        X = _read_as(round.pool, row, [text, *without])
        logits = to_numpy(round.fitted.logits(X.astype(np.float64)))
        logits = logits - logits.mean(axis=1, keepdims=True)
        push = logits[0] - logits[1:]
        strongest = np.argsort(-np.abs(push).max(axis=1, initial=0.0), kind="stable")
        classes = round.state.classes
        return [
            Word(found[tried[i]], dict(zip(classes, push[i].tolist(), strict=True)))
            for i in strongest
            if np.abs(push[i]).max() > 1e-6
        ]
    return []


def _read_as(pool: StudyPool, row: int, texts: list[str]) -> NDArray[Any]:
    """Return the numbers a row would have with other texts."""
    table = pool.table
    if table is None:
        return pool.reader.transform(texts)
    same = pl.concat([table.frame[row : row + 1]] * len(texts))
    return pool.reader.transform(same.with_columns(pl.Series(table.source.text, texts)))
