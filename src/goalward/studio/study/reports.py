"""What a study says of itself: where it stands, and how it came there."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from goalward.studio.store import Ranked
from goalward.studio.study.advice import accuracy, headline, labels_per_class
from goalward.studio.study.state import State

MEASURES = (
    "labels",
    "metric",
    "accuracy",
    "low",
    "high",
    "on",
    "log_loss",
    "C",
    "goal",
    "gain",
    "recipe",
)
"""What a ranking says of its model."""


def status(state: State, now: float) -> dict[str, Any]:
    """Return where a study stands, as plain data."""
    latest = state.ranking
    return {
        "rows": state.n_rows,
        "labels": state.n_labels,
        "training": state.n_training,
        "dev": state.n_labels - state.n_training,
        "answers": state.n_answers,
        "skipped": state.n_skipped,
        "pending": sum(
            any(lease.live(now) for lease in held.values()) for held in state.leases.values()
        ),
        "classes": [{"label": k, "labels": n} for k, n in labels_per_class(state).items()],
        "annotators": {by: state.counted("by", by) for by in state.annotators},
        "disagreements": state.counted("disagreements"),
        "events": state.seq,
        "lost": len(state.lost),
        "settings": asdict(state.settings),
        "ranking": latest
        and {
            **_measured(state, latest),
            "behind": state.moves - latest.moves,
        },
        "guesses": latest
        and latest.guesses
        and {**latest.guesses, "says": _proved(latest.guesses)},
        "accuracy": accuracy(state),
        "headline": headline(state),
    }


def _measured(state: State, ranked: Ranked) -> dict[str, Any]:
    """Return what a ranking says; where accuracy has no meaning, `score` is what `measure` names."""
    found, measure = (
        {name: getattr(ranked, name) for name in MEASURES},
        state.settings.answer.measure,
    )
    if measure is None:
        return found
    return found | {
        **{"accuracy": None, "measure": measure, "score": ranked.accuracy},
        **(ranked.also or {}),
    }


def _proved(found: dict[str, Any]) -> str:
    used = "used" if found["used"] else "not used"
    return f"The guesses were right in {found['right']} of {found['of']} answers: {used}."


def curve(state: State) -> list[dict[str, Any]]:
    """Return one line per ranking: labels, measures, goal and predicted gain.

    `labels` are those the model was fitted on, `dev_labels` those that measured it, and `bought`
    both together. While the dev set grows, `goal` is measured on other rows in every round;
    `goal - goal_before` is what the labels of a round changed, on the same rows.
    """
    return [
        {
            "round": number,
            "seq": seq,
            "at": r.at,
            "dev_labels": r.dev_labels,
            "bought": r.labels + r.dev_labels,
            **_measured(state, r),
            "goal_before": r.goal_before,
            "seconds": r.seconds,
        }
        for number, (seq, r) in enumerate(state.rounds)
    ]
