"""Whether labels still serve the task, or only the dev rows that steer.

A strategy "dev-split/..." keeps half of the dev labels back. The models of past rounds are fitted
again, each from the labels that had come by then, and measured on both halves as they are labelled
now. Where one half gets better while the other gets worse, the dev set is being overfitted.

Cross-validation on the training rows cannot stand in for rows kept back: rows that a strategy picks
get harder, and their likelihood falls while the model improves.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from goalward.goals import Alarm, parting
from goalward.goals.parting import SHORTEST
from goalward.study.rounds import Round

__all__ = ["Audit", "audit"]

MOST = 60
"""Models fitted for an audit; of more rounds, as many are taken evenly."""
ADVICE = "dev-split/spread/first-order/sequential-curvature"


@dataclass(frozen=True)
class Audit:
    """The two halves of the dev set over the rounds.

    Parameters
    ----------
    alarm
        Where they parted; None where there is nothing to compare yet.
    labels
        Training labels at each round.
    steering, witness
        Log-likelihood per row of the dev rows that steer, and of those kept back.
    reason
        The same in a sentence.
    """

    alarm: Alarm | None
    labels: tuple[int, ...] = field(repr=False)
    steering: tuple[float, ...] = field(repr=False)
    witness: tuple[float, ...] = field(repr=False)
    reason: str

    @property
    def fired(self) -> bool:
        """Whether the halves parted."""
        return self.alarm is not None and self.alarm.fired


def audit(now: Round) -> Audit:
    """Return how the halves of the dev set fared over the rounds that one of them steered."""
    split = now.split
    if split is None:
        said = (
            "Nothing to audit: no dev rows are kept back. Make the study with "
            f"strategy={ADVICE!r}, and dev rows."
        )
        return Audit(None, (), (), (), said)
    steered = [seq for seq, r in now.state.rounds if r.recipe.startswith("dev-split/")]
    if len(steered) <= SHORTEST:
        said = (
            f"Too early to audit: dev rows steered {len(steered)} rounds, and more than {SHORTEST} "
            "are needed."
        )
        return Audit(None, (), (), (), said)
    picked = np.unique(np.linspace(0, len(steered) - 1, MOST).astype(int))
    models = [now.model_at(steered[i]) for i in picked]
    rows = len(now.goal_rows)
    steering, witness = (
        tuple(goal.value(model) / rows for model in models)
        for goal in (split.steering, split.witness)
    )
    labels = tuple(len(model.labelled) for model in models)
    alarm = parting(steering, witness)
    return Audit(alarm, labels, steering, witness, _said(alarm, labels, steering, witness))


def _said(
    alarm: Alarm, labels: tuple[int, ...], steering: tuple[float, ...], witness: tuple[float, ...]
) -> str:
    if alarm.round is None:
        return (
            f"No alarm over {len(labels)} rounds: dev rows that steer are at {steering[-1]:.3f} nats a "
            f"row, those kept back at {witness[-1]:.3f} (best {max(witness):.3f})."
        )
    a, b = alarm.best, alarm.round
    return (
        f"Alarm: from {labels[a]} to {labels[b]} labels the dev rows that steer went from "
        f"{steering[a]:.3f} to {steering[b]:.3f} nats a row, those kept back from {witness[a]:.3f} to "
        f"{witness[b]:.3f}. New labels fit the dev set, not the task: stop, label more dev rows, or "
        "go on without the dev goal (margin)."
    )
