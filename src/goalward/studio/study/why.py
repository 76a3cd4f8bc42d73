"""Why a row is asked: what each label would do to the goal, and to which dev rows."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from goalward.core.arrays import to_numpy
from goalward.errors import BadInput
from goalward.labels.operators import deviation
from goalward.studio.store.events import Label
from goalward.studio.study.accuracy import leverages
from goalward.studio.study.pools import StudyPool
from goalward.studio.study.rounds import StudyRound
from goalward.utility.one_by_one import labelled_too

# Which words of a row speak for which label: what changes when they are left out.


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


@dataclass(frozen=True)
class Effect:
    """A dev row, its label, and the change of its log-likelihood."""

    row: int
    label: Label
    change: float


@dataclass(frozen=True)
class Why:
    """What a label of a row would do to the goal that is watched.

    Rows are ranked by `recipe`, which need not be about that goal.

    Parameters
    ----------
    proba
        class -> probability under the present model; of numbers the one that is expected.
    utility
        class -> predicted change of the goal, per row of the goal, if that is the label; empty where
        answers are no classes.
    gain
        The deviation of that change over the believed label.
    helps, hurts
        class -> the dev rows whose likelihood rises and falls most with it; empty without dev
        labels.
    recipe
        The strategy that ranks now.
    spread
        Of numbers: the standard deviation of what is expected, noise included.
    """

    row: int
    proba: dict[Label, float]
    utility: dict[Label, float]
    gain: float | None
    helps: dict[Label, list[Effect]]
    hurts: dict[Label, list[Effect]]
    recipe: str
    _round: StudyRound = field(repr=False, compare=False)
    spread: float | None = None

    @property
    def says(self) -> list[str]:
        """The same in a line for each label."""
        if self.spread is not None:
            return [
                f"{k}: about {v:.4g}, give or take {self.spread:.2g}" for k, v in self.proba.items()
            ]
        lines = []
        for label, p in self.proba.items():
            moves = self.utility.get(label)
            more = "" if moves is None else f", would move the goal by {moves:+.3g}"
            lines.append(f"{label}: probability {p:.2f}{more}")
        return lines

    def words(self) -> list[Word]:
        """Return the words of the row that speak for and against each label."""
        return words(self._round, self.row)


def explain(round: StudyRound, row: int, count: int = 3) -> Why:
    """Return why a row is, or is not, worth a label now."""
    classes = round.state.classes
    if round.state.settings.kind != "class":
        return _of_model(round, row)
    utility, proba = round.changes([row])
    helps: dict[Label, list[Effect]] = {}
    hurts: dict[Label, list[Effect]] = {}
    if round.has_dev:
        changes = _changes_of_dev(round, row, proba)
        dev = round.state.dev.items()
        for k, label in enumerate(classes):
            effects = [Effect(*said, float(c)) for said, c in zip(dev, changes[:, k], strict=True)]
            effects.sort(key=lambda effect: -effect.change)
            helps[label] = [e for e in effects[:count] if e.change > 0]
            hurts[label] = [e for e in effects[: -count - 1 : -1] if e.change < 0]
    return Why(
        row,
        dict(zip(classes, proba[0].tolist(), strict=True)),
        dict(zip(classes, utility[0].tolist(), strict=True)),
        float(deviation(utility, proba)[0]),
        helps,
        hurts,
        round.recipe,
        round,
    )


def _of_model(round: StudyRound, row: int) -> Why:
    """Return what a model of several labels or of numbers makes of a row; it watches no goal."""
    fitted, X = round.fitted, round.pool.take([row]).astype(np.float64)
    said = to_numpy(fitted.loss.proba(fitted.logits_of(fitted.features(X))))[0]
    proba = dict(zip(round.state.classes, said.tolist(), strict=True))
    spread = None
    if round.state.settings.kind == "numbers":
        noise = float(fitted.loss.noise[0])  # type: ignore[attr-defined]
        spread = float((noise * (1.0 + leverages(fitted, X)[0])) ** 0.5)
    return Why(row, proba, {}, None, {}, {}, round.recipe, round, spread)


def _changes_of_dev(round: StudyRound, row: int, proba: Any) -> Any:
    """Return (dev rows, labels): d log p_y of each dev row when x gets each label.

    The optimum moves by -𝓗⁻¹ Jᵀ(p - e_k), the dev rows' logits by J of that. With the label that
    frees the intercepts the model is fitted.
    """
    fitted = round.fitted
    features = fitted.features(round.pool.take([row]).astype(np.float64))
    dev = fitted.features(round.pool.take(round.goal_rows).astype(np.float64))
    targets = to_numpy(fitted.targets(list(round.state.dev.values()), len(round.goal_rows)))
    slope = targets - to_numpy(fitted.proba_of(dev))
    model = fitted.model.linear("why")
    changes = []
    for residual in proba.astype(np.float64) - np.eye(proba.shape[1]):
        step = -fitted.solve(model.vjp(features, residual[None, :])).value
        changes.append(np.sum(slope * to_numpy(model.jvp(dev, step)), axis=1))
    if (k := fitted.freeing) is not None:
        after = labelled_too(fitted, features, np.array([k])).polished()
        losses = [to_numpy(m.loss.rows(m.logits_of(dev), targets)) for m in (fitted, after)]
        changes[k] = losses[0] - losses[1]
    return np.stack(changes, axis=1)
