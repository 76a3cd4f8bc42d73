"""What a study says of itself, for people and programs alike: page, interface and commands."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from itertools import pairwise
from typing import Any

from goalward.journal.events import Label
from goalward.stopping import Snapshot
from goalward.stopping.gains import rise
from goalward.stopping.snapshot import bought_rounds
from goalward.study.state import State

__all__ = ["account", "curve", "snapshots", "status"]

MEASURES = ("labels", "metric", "accuracy", "log_loss", "goal", "gain", "recipe")
"""What a ranking says of its model."""


def status(state: State, now: float) -> dict[str, Any]:
    """Return where a study stands, as plain data."""
    latest = state.ranking
    per_class: dict[Label, int] = dict.fromkeys(state.classes, 0)
    per_class.update(Counter(state.labels.values()))
    return {
        "rows": state.n_rows,
        "labels": len(state.labels),
        "training": len(state.training),
        "dev": len(state.dev),
        "answers": state.n_answers,
        "skipped": len(state.skipped),
        "pending": sum(
            any(lease.live(now) for lease in held.values()) for held in state.leases.values()
        ),
        "classes": [{"label": k, "labels": n} for k, n in per_class.items()],
        "annotators": {
            by: sum(by in said for said in state.standings.values()) for by in state.annotators
        },
        "disagreements": sum(
            len({s.label for s in said.values() if s.label is not None}) > 1
            for said in state.standings.values()
        ),
        "events": state.seq,
        "lost": len(state.lost),
        "settings": asdict(state.settings),
        "ranking": latest
        and {
            **{name: getattr(latest, name) for name in MEASURES},
            "behind": state.moves - latest.moves,
        },
    }


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
            **{name: getattr(r, name) for name in MEASURES},
            "goal_before": r.goal_before,
            "seconds": r.seconds,
        }
        for number, (seq, r) in enumerate(state.rounds)
    ]


def account(state: State, price: float | None = None) -> dict[str, Any]:
    """Return what was bought: answers, labels, and those of them that train or measure.

    `spent` is the price times the answers, dev answers too: where several annotators answer a
    row, each answer is paid for. `gained` is what the goal rose since the first round with the
    same measure, in the same units: the sum of the rounds' rises, each on the rows of its own time
    (`stopping.gains.rise`). None until there is one.
    """
    rounds = bought_rounds(snapshots(state))
    known = [
        risen
        for before, after in pairwise(rounds)
        if (after.metric == "dev") == (rounds[-1].metric == "dev")
        and (risen := rise(before, after)) is not None
    ]
    return {
        "answers": state.n_answers,
        "labels": len(state.labels),
        "training": len(state.training),
        "dev": len(state.dev),
        "price": price,
        "spent": None if price is None else price * state.n_answers,
        "gained": sum(known) if known else None,
    }


def snapshots(state: State) -> list[Snapshot]:
    """Return the rounds as stopping rules see them."""
    names = ("labels", "metric", "accuracy", "goal", "gain", "goal_before")
    return [
        Snapshot(
            bought=ranked.labels + ranked.dev_labels,
            **{name: getattr(ranked, name) for name in names},
            **(ranked.stop_set or {}),
        )
        for _, ranked in state.rounds
    ]
