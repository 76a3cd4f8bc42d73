"""Why a row is asked: what each label would do to the goal, and to which dev rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from goalward.core.arrays import to_numpy
from goalward.journal.events import Label
from goalward.labels.operators import deviation
from goalward.study.rounds import StudyRound
from goalward.study.words import Word, words
from goalward.utility.one_by_one import labelled_too

__all__ = ["Effect", "Why", "explain"]


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
        class -> probability under the present model.
    utility
        class -> predicted change of the goal, per row of the goal, if that is the label.
    gain
        The deviation of that change over the believed label.
    helps, hurts
        class -> the dev rows whose likelihood rises and falls most with it; empty without dev
        labels.
    recipe
        The strategy that ranks now.
    """

    row: int
    proba: dict[Label, float]
    utility: dict[Label, float]
    gain: float
    helps: dict[Label, list[Effect]]
    hurts: dict[Label, list[Effect]]
    recipe: str
    _round: StudyRound = field(repr=False, compare=False)

    def words(self) -> list[Word]:
        """Return the words of the row that speak for and against each label."""
        return words(self._round, self.row)


def explain(round: StudyRound, row: int, count: int = 3) -> Why:
    """Return why a row is, or is not, worth a label now."""
    classes = round.state.classes
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
