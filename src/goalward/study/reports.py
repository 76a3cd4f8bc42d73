"""What a study says of itself, and whether more labels are worth their price."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

from goalward.errors import BadParameter
from goalward.journal.events import Label
from goalward.stopping import (
    Criterion,
    Forecast,
    Snapshot,
    budget_spent,
    corrected,
    criteria,
    forecast,
    realised,
)
from goalward.stopping.gains import PATIENCE, rise
from goalward.stopping.snapshot import bought_rounds
from goalward.study.state import State

__all__ = ["Advice", "account", "curve", "rules", "status", "stop", "written"]

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
        "accuracy": accuracy(state),
        "headline": headline(state),
        "forecast": (ahead := forecast_of(state)) and asdict(ahead) | {"says": ahead.says},
    }


def accuracy(state: State) -> dict[str, Any] | None:
    """Return how many rows the newest model gets right, with its interval; None where not known."""
    last = state.ranking
    if last is None or last.accuracy is None or last.low is None or last.high is None:
        return None
    ends = [f"{100 * end:.0f}" for end in (last.low, last.high)]
    said = f"About {100 * last.accuracy:.0f} % right ({ends[0]} to {ends[1]} %)."
    values = {"value": last.accuracy, "low": last.low, "high": last.high, "on": last.on}
    return {**values, "says": said}


def headline(state: State) -> str:
    """Return where a study stands, in a sentence or two for people."""
    known = accuracy(state)
    if known is None:
        return "No model yet: answer until two classes have labels."
    return f"{known['says']} Keep going."


def forecast_of(state: State) -> Forecast | None:
    """Return how many more labels accuracy will rise for; None where nothing can be said."""
    rounds = [ranked for _, ranked in state.rounds if ranked.accuracy is not None]
    # Of rounds with the same labels the last; how it was measured must be the same in all.
    told = {r.labels: r for r in rounds if r.metric == rounds[-1].metric}
    if not told or list(told) != sorted(told):
        return None
    latest = rounds[-1]
    right = float(latest.accuracy or 0.0)
    measured_on = latest.dev_labels if latest.metric == "dev" else latest.labels
    spread = (right * (1.0 - right) / measured_on) ** 0.5
    return forecast(list(told), [float(r.accuracy or 0.0) for r in told.values()], spread=spread)


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


@dataclass(frozen=True)
class Advice:
    """Whether to stop, and what that rests on.

    Parameters
    ----------
    stop
        True when another label was worth less than its price in three rounds in a row, when the
        budget is spent, or when nothing is left to ask.
    gain
        Predicted gain of a label of the next batch, per row of the goal (nats).
    price
        What a label costs, in the same units.
    ratio, ratio_low, ratio_high
        Realised over predicted gain of the last rounds, and the ends of its 95 % interval; None
        until there is one round to compare, or two.
    expected, low, high
        The gain after correction by the ratio (kept within 0 and 1), which is compared with the
        price; and the same at the ends of the interval.
    left
        Rows that could still be asked and would train the model.
    account
        What was bought and what it cost: see `account`.
    criteria
        What this rule and published ones say; none is the best everywhere.
    """

    stop: bool
    gain: float | None
    price: float
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    expected: float | None
    low: float | None
    high: float | None
    left: int
    account: dict[str, Any] = field(hash=False)
    criteria: tuple[Criterion, ...]

    @property
    def reason(self) -> str:
        """The same in a sentence."""
        if self.left == 0:
            return "Nothing is left to ask that would train the model: stop."
        if self.criteria[-1].stop:
            return "The budget is spent: stop."
        if self.gain is None or self.expected is None:
            return "No model yet: go on until two classes have labels."
        said = f"The next label is predicted to move the goal by {self.gain:.3g} per row"
        if self.ratio is not None:
            said += f"; {max(self.ratio, 0.0):.0%} of such predictions came true lately"
            if self.ratio_low is not None and self.ratio_high is not None:
                said += f" (95 % interval {self.ratio_low:.0%} to {self.ratio_high:.0%})"
            said += f", so {self.expected:.3g} is expected"
        said += f"; it costs {self.price:.3g}"
        if self.criteria[0].stop:
            return f"{said}, and cost more than it brought in {PATIENCE} rounds in a row: stop."
        if self.expected < self.price:
            return f"{said}: go on, until this is so in {PATIENCE} rounds in a row."
        return f"{said}: go on."

    def record(self) -> dict[str, Any]:
        """Return the advice as plain values."""
        return asdict(self) | {"reason": self.reason, "criteria": written(self.criteria)}


def written(rules: Sequence[Criterion]) -> list[dict[str, Any]]:
    """Return what rules say as plain values."""
    return [asdict(one) | {"verdict": one.verdict} for one in rules]


def rules(
    state: State, price: float | None = None, budget: int | None = None
) -> tuple[Criterion, ...]:
    """Return what every stopping rule says now; those without a price or budget are not known."""
    if budget is not None and budget < 1:
        raise BadParameter(
            f"budget={budget!r}; at least 1 label was expected. Leave it out for none."
        )
    # The newest ranking may lie some answers back; what was bought is known to the last one.
    bought = Snapshot(labels=len(state.labels), bought=len(state.labels))
    found = criteria(snapshots(state), price=price)
    return (*found[:-1], budget_spent([bought], budget=budget))


def stop(state: State, price: float, budget: int | None = None) -> Advice:
    """Return whether the next label is worth its price, and what other rules say."""
    if not price > 0:
        raise BadParameter(
            f"price={price!r}; what a label costs, above 0, was expected: 0.001 nats per row of the "
            "goal, say."
        )
    said, rounds = rules(state, price, budget), snapshots(state)
    found = realised(rounds)
    expected, low, high = corrected(rounds) or (None, None, None)
    done = state.settings.is_dev(range(state.n_rows))
    done[state.closed] = True
    left = int((~done).sum())
    return Advice(
        stop=bool(said[0].stop or said[-1].stop) or left == 0,
        gain=rounds[-1].gain if rounds else None,
        price=price,
        ratio=found.ratio if found else None,
        ratio_low=found.low if found else None,
        ratio_high=found.high if found else None,
        expected=expected,
        low=low,
        high=high,
        left=left,
        account=account(state, price),
        criteria=said,
    )
