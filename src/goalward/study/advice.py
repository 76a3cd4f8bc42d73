"""Whether more labels are worth their price, and what published rules say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from goalward.errors import BadParameter
from goalward.stopping import (
    Criterion,
    Realised,
    Snapshot,
    budget_spent,
    corrected,
    criteria,
    realised,
)
from goalward.stopping.gains import PATIENCE
from goalward.study.reports import account, snapshots
from goalward.study.state import State

__all__ = ["Advice", "rules", "stop", "written"]


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
    ratio
        Realised over predicted gain of the last rounds; None until there are some.
    price
        What a label costs, in the same units.
    reason
        The same in a sentence.
    ratio_low, ratio_high
        Ends of the 95 % interval of the ratio; None until two rounds can be compared.
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
    ratio: float | None
    price: float
    reason: str
    ratio_low: float | None = None
    ratio_high: float | None = None
    expected: float | None = None
    low: float | None = None
    high: float | None = None
    left: int | None = None
    account: dict[str, Any] = field(default_factory=dict, hash=False)
    criteria: tuple[Criterion, ...] = ()

    def record(self) -> dict[str, Any]:
        """Return the advice as plain values."""
        return asdict(self) | {"criteria": written(self.criteria)}


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
    """Return whether the next label is worth its price, and what other rules say.

    Parameters
    ----------
    budget
        Labels that may be bought, dev labels included.
    """
    if not price > 0:
        raise BadParameter(
            f"price={price!r}; what a label costs, above 0, was expected: 0.001 nats per row of the "
            "goal, say."
        )
    found_rules = rules(state, price, budget)
    rounds = snapshots(state)
    found, now = realised(rounds), corrected(rounds)
    left = _left(state)
    first, spent = found_rules[0], bool(found_rules[-1].stop)
    ends = bool(first.stop) or spent or left == 0
    gain = rounds[-1].gain if rounds else None
    expected, low, high = now or (None, None, None)
    return Advice(
        stop=ends,
        gain=gain,
        ratio=None if found is None else found.ratio,
        price=price,
        reason=_reason(gain, found, now, price, first, left=left, spent=spent),
        ratio_low=None if found is None else found.low,
        ratio_high=None if found is None else found.high,
        expected=expected,
        low=low,
        high=high,
        left=left,
        account=account(state, price),
        criteria=found_rules,
    )


def _reason(
    gain: float | None,
    found: Realised | None,
    now: tuple[float, float | None, float | None] | None,
    price: float,
    rule: Criterion,
    *,
    left: int,
    spent: bool,
) -> str:
    if left == 0:
        return "Nothing is left to ask that would train the model: stop."
    if spent:
        return "The budget is spent: stop."
    if gain is None or now is None:
        return "No model yet: go on until two classes have labels."
    said = f"The next label is predicted to move the goal by {gain:.3g} per row"
    if found is not None:
        said += f"; {max(found.ratio, 0.0):.0%} of such predictions came true lately"
        if found.low is not None and found.high is not None:
            said += f" (95 % interval {found.low:.0%} to {found.high:.0%})"
        said += f", so {now[0]:.3g} is expected"
    said += f"; it costs {price:.3g}"
    if rule.stop:
        return f"{said}, and cost more than it brought in {PATIENCE} rounds in a row: stop."
    return f"{said}: go on" + (
        f", until this is so in {PATIENCE} rounds in a row." if now[0] < price else "."
    )


def _left(state: State) -> int:
    """Return how many rows could still be asked that are not the dev set's."""
    is_dev, total = state.settings.is_dev, state.n_rows
    done = [row for row in state.standings if not state.wants_answer(row)]
    dev = int(is_dev(range(total)).sum()) if state.settings.dev else 0
    return total - dev - int((~is_dev(done)).sum())
