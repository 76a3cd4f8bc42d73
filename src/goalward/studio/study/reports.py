"""The status of a study, and its learning curve."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from goalward.studio.store import Ranked
from goalward.studio.study.advice import accuracy, headline
from goalward.studio.study.state import State

MEASURES = (
    *("labels", "metric", "accuracy", "low", "high", "on"),
    *("log_loss", "C", "goal", "gain", "recipe"),
)


def status(state: State, now: float) -> dict[str, Any]:
    """Return the status of a study as plain data."""
    latest = state.ranking
    guesses = latest.guesses if latest else None
    if guesses:
        used = "used" if guesses["used"] else "not used"
        says = f"The guesses were right in {guesses['right']} of {guesses['of']} answers: {used}."
        guesses = {**guesses, "says": says}
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
        "classes": [
            {"label": k, "labels": n} for k, n in state.settings.answer.per_class(state).items()
        ],
        "annotators": {by: state.counted("by", by) for by in state.annotators},
        "disagreements": state.counted("disagreements"),
        "events": state.seq,
        "lost": len(state.lost),
        "settings": asdict(state.settings),
        "ranking": latest and {**_measured(state, latest), "behind": state.moves - latest.moves},
        "guesses": guesses,
        "accuracy": accuracy(state),
        "headline": headline(state),
    }


def _measured(state: State, ranked: Ranked) -> dict[str, Any]:
    """Return the measures of a ranking; other kinds have `measure` and `score` for accuracy."""
    values = {name: getattr(ranked, name) for name in MEASURES}
    measure = state.settings.answer.measure
    if measure is None:
        return values
    score = {"accuracy": None, "measure": measure, "score": ranked.accuracy}
    return values | score | (ranked.also or {})


def curve(state: State) -> list[dict[str, Any]]:
    """Return one line per ranking; `goal - goal_before` is the change on the same dev rows."""
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
