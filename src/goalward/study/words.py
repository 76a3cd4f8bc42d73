"""Which words of a row speak for which label: what changes when they are left out."""

from __future__ import annotations

import re
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
    """A word, wherever it stands in a row, or a column, and what it does to each label.

    Parameters
    ----------
    push
        class -> what the word adds to the label's logit, less the mean over the labels. Above 0 it
        speaks for the label; 0.7 doubles its odds. Of several labels each by itself; of numbers what
        it adds to the number.
    """

    word: str
    push: dict[Label, float] = field(hash=False)


def words(round: StudyRound, row: int) -> list[Word]:
    """Return the words and columns of a row that matter, the strongest first.

    None where vectors are read that were made elsewhere. Of a long text the first 100 words are
    looked at; a column is left out as if its cell were empty.
    """
    text = str(round.pool.show(row).get("text") or "")
    found: dict[str, str] = {}
    for word in re.findall(r"\w+", text):
        found.setdefault(word.casefold(), word)
    tried = list(found.values())[:MOST]
    without = [re.sub(rf"\b{re.escape(word)}\b", "", text, flags=re.I) for word in tried]
    try:
        names, X = _read_without(round.pool, row, text, without)
    except BadInput:  # made elsewhere
        return []
    logits = to_numpy(round.fitted.logits(X.astype(np.float64)))
    if round.state.settings.kind == "class":
        logits = logits - logits.mean(axis=1, keepdims=True)
    push = logits[0] - logits[1:]
    said = [*tried, *names]
    return [
        Word(said[i], dict(zip(round.state.classes, push[i].tolist(), strict=True)))
        for i in np.argsort(-np.abs(push).max(axis=1, initial=0.0), kind="stable").tolist()
        if np.abs(push[i]).max() > 1e-6
    ]


def _read_without(
    pool: StudyPool, row: int, text: str, without: list[str]
) -> tuple[list[str], NDArray[Any]]:
    """Return columns beside the text, and the numbers of a row as it is, without words, without each."""
    table = pool.table
    if table is None:
        return [], pool.reader.transform([text, *without] if pool.texts else pool.take([row]))
    own, read = table.frame[row : row + 1], table.source.texts
    columns = [*table.source.numeric, *table.source.category]
    # All of the text in its first column is read as it is in several.
    texts = [*([text] * (len(read) > 0)), *without, *([text] * len(columns))]
    shared = pl.concat([own] * (1 + len(without) + len(columns)))
    place = pl.int_range(pl.len()) - 1 - len(without)
    changed: list[Any] = [
        pl.when(place != k).then(name).alias(name) for k, name in enumerate(columns)
    ]
    changed += [pl.lit(None, pl.String).alias(name) for name in read[1:]]
    if read:
        changed.append(pl.Series(read[0], texts))
    cells = [own[name][0] for name in columns]
    said = [f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in cells]
    names = [f"{name}: {cell}" for name, cell in zip(columns, said, strict=True)]
    return names, pool.reader.transform(shared.with_columns(changed))
