"""Why a row is asked: the effect of each label on the goal, and on dev rows."""

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
from goalward.studio.study.one_number import leverages
from goalward.studio.study.pools import StudyPool
from goalward.studio.study.rounds import StudyRound
from goalward.utility.one_by_one import labelled_too

MOST = 100
"""Words left out, each once: a sentence encoder reads as many texts in a second or two."""
STOP = frozenset(
    re.findall(
        r"\w+",
        "a about all also am an and any are as at be been but by can could did do does for from get got "
        "had has have he her here him his how i if in into is it its just me more my of on only or our "
        "out she should so some such than that the their them then there these they this those to too up "
        "us very was we were what when where which while who will with would you your b c d e f g h j k l "
        "m n o p q r s t u v w x y z das dem den der des ein eine einem einen einer er es ich im ist mit "
        "sich sie sind und von wir zu zum zur au aux ce de du en est et il je la le les leur ou pour que "
        "qui se sur un une vous al como con del el esta lo los las para por su",
    )
)
"""Words that explain nothing, in four languages; what denies is none of them."""


@dataclass(frozen=True)
class Word:
    """A word or column of a row, and what it adds to each logit (for classes centred) or number."""

    word: str
    push: dict[Label, float] = field(hash=False)


def words(round: StudyRound, row: int) -> list[Word]:
    """Return the words (the first 100 that tell anything) and columns that matter, the strongest first."""
    text = str(round.pool.show(row).get("text") or "")
    spelt: dict[str, str] = {}
    for word in re.findall(r"\w+", text):
        spelt.setdefault(word.casefold(), word)
    told = [word for key, word in spelt.items() if key not in STOP]
    tried = (told or list(spelt.values()))[:MOST]
    without = [re.sub(rf"\b{re.escape(word)}\b", "", text, flags=re.I) for word in tried]
    try:
        names, X = _read_without(round.pool, row, text, without)
    except BadInput:  # made elsewhere
        return []
    logits = to_numpy(round.fitted.logits(X.astype(np.float64)))
    if round.state.settings.kind == "class":
        logits = logits - logits.mean(axis=1, keepdims=True)
    push = logits[0] - logits[1:]
    parts = [*tried, *names]
    return [
        Word(parts[i], dict(zip(round.state.classes, push[i].tolist(), strict=True)))
        for i in np.argsort(-np.abs(push).max(axis=1, initial=0.0), kind="stable").tolist()
        if np.abs(push[i]).max() > 1e-6
    ]


def _read_without(
    pool: StudyPool, row: int, text: str, without: list[str]
) -> tuple[list[str], NDArray[Any]]:
    """Return columns beside the text, and the features of a row whole and without each part."""
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
    written = [f"{float(c):.4g}" if re.fullmatch(r"-?\d+\.\d+", str(c)) else str(c) for c in cells]
    names = [f"{name}: {cell}" for name, cell in zip(columns, written, strict=True)]
    return names, pool.reader.transform(shared.with_columns(changed))


@dataclass(frozen=True)
class Effect:
    """A dev row, its label, and the change of its log-likelihood."""

    row: int
    label: Label
    change: float


@dataclass(frozen=True)
class Why:
    """The effect that a label of a row would have on the goal.

    Parameters
    ----------
    proba, spread
        class -> probability; for numbers the expected one, and its deviation with noise.
    utility, gain
        class -> predicted change of the goal per row of it; its deviation over the believed label.
    helps, hurts
        class -> the dev rows whose likelihood rises and falls most; empty without dev labels.
    recipe
        The strategy that ranks now, which may have another goal.
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
            (name, number), *_ = self.proba.items()
            return [f"{name}: about {number:.4g}, give or take {self.spread:.2g}"]
        moves = {k: f", would move the goal by {v:+.3g}" for k, v in self.utility.items()}
        return [f"{k}: probability {p:.2f}{moves.get(k, '')}" for k, p in self.proba.items()]

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
        likelihoods = _changes_of_dev(round, row, proba)
        dev = round.state.dev.items()
        for k, label in enumerate(classes):
            effects = [
                Effect(*known, float(c)) for known, c in zip(dev, likelihoods[:, k], strict=True)
            ]
            effects.sort(key=lambda effect: -effect.change)
            helps[label] = [e for e in effects[:count] if e.change > 0]
            hurts[label] = [e for e in effects[: -count - 1 : -1] if e.change < 0]
    chances = dict(zip(classes, proba[0].tolist(), strict=True))
    changes = dict(zip(classes, utility[0].tolist(), strict=True))
    gain = float(deviation(utility, proba)[0])
    return Why(row, chances, changes, gain, helps, hurts, round.recipe, round)


def _of_model(round: StudyRound, row: int) -> Why:
    """Return the predictions for a row of several labels or numbers, which have no goal."""
    fitted, X = round.fitted, round.pool.take([row]).astype(np.float64)
    predicted = to_numpy(fitted.loss.proba(fitted.logits_of(fitted.features(X))))[0]
    proba = dict(zip(round.state.classes, predicted.tolist(), strict=True))
    spread = None
    if round.state.settings.kind == "numbers":
        noise = float(fitted.loss.noise[0])  # type: ignore[attr-defined]
        spread = float((noise * (1.0 + leverages(fitted, X)[0])) ** 0.5)
    return Why(row, proba, {}, None, {}, {}, round.recipe, round, spread)


def _changes_of_dev(round: StudyRound, row: int, proba: Any) -> Any:
    """Return (dev rows, labels): d log p_y of each dev row when x gets each label, to first order.

    Logits move by -J𝓗⁻¹Jᵀ(p - e_k); a label that frees the intercepts is fitted instead.
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
