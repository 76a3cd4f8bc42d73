"""How a study goes: its curve, and whether more labels are worth their price."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from goalward.errors import BadParameter
from goalward.journal import Ranked
from goalward.study.state import State

__all__ = ["Advice", "curve", "ratio", "stop"]

LOOK_BACK = 5
"""Rounds over which predicted and realised gains are compared."""


@dataclass(frozen=True)
class Advice:
    """Whether to stop, and what that rests on.

    Parameters
    ----------
    stop
        True when another label is predicted to bring less than its price.
    gain
        Predicted gain of a label of the next batch, per row of the goal (nats).
    ratio
        Realised over predicted gain of the last rounds; None until there are some. What is
        compared with the price is gain x ratio where the ratio is below 1.
    price
        What a label costs, in the same units.
    reason
        The same in a sentence.
    """

    stop: bool
    gain: float | None
    ratio: float | None
    price: float
    reason: str


def curve(state: State) -> list[dict[str, Any]]:
    """Return one line per ranking: labels, measures, goal and predicted gain."""
    return [
        {
            "round": number,
            "seq": seq,
            "at": r.at,
            "labels": r.labels,
            "dev_labels": r.dev_labels,
            "metric": r.metric,
            "accuracy": r.accuracy,
            "log_loss": r.log_loss,
            "goal": r.goal,
            "gain": r.gain,
            "recipe": r.recipe,
            "seconds": r.seconds,
        }
        for number, (seq, r) in enumerate(state.rounds)
    ]


def ratio(state: State) -> float | None:
    """Return realised over predicted gain of the last rounds that had the same goal."""
    rounds = [r for _, r in state.rounds]
    predicted = realised = 0.0
    for before, after in list(pairwise(rounds))[-LOOK_BACK:]:
        bought = after.labels - before.labels
        if bought > 0 and _comparable(before, after):
            assert before.gain is not None
            assert before.goal is not None
            assert after.goal is not None
            predicted += before.gain * bought
            realised += after.goal - before.goal
    return realised / predicted if predicted > 0 else None


def stop(state: State, price: float) -> Advice:
    """Return whether the next label is predicted to be worth its price."""
    if not price > 0:
        raise BadParameter(
            f"price={price!r}; what a label costs, above 0, was expected: 0.001 nats per row of the "
            "goal, say."
        )
    latest = state.ranking
    if latest is None or latest.gain is None:
        return Advice(
            False, None, None, price, "No model yet: go on until two classes have labels."
        )
    realised = ratio(state)
    trusted = 1.0 if realised is None else min(max(realised, 0.0), 1.0)
    # A round may go badly by chance: only the prediction, or several rounds, can say stop.
    expected = latest.gain * max(trusted, 0.1)
    ends = expected < price
    said = (
        f"The next label is predicted to move the goal by {latest.gain:.3g} per row"
        + _came_true(realised)
        + f"; it costs {price:.3g}: {'stop' if ends else 'go on'}."
    )
    return Advice(ends, latest.gain, realised, price, said)


def _came_true(realised: float | None) -> str:
    if realised is None:
        return ""
    return (
        f", of which {realised:.0%} came true lately"
        if realised > 0
        else ", which lately did not come true"
    )


def _comparable(before: Ranked, after: Ranked) -> bool:
    has = None not in (before.gain, before.goal, after.goal)
    return has and (before.metric == "dev") == (after.metric == "dev")
