"""Whether more answers are worth their price, and how good the model is, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

from goalward.errors import BadParameter
from goalward.studio.advice import (
    PRICE,
    Criterion,
    Gain,
    Snapshot,
    budget_spent,
    criteria,
    gain_below_price,
    next_gain,
)
from goalward.studio.advice.compared import COMPARED
from goalward.studio.advice.gains import AHEAD, ANSWERS, BACK, EACH, enough, rise
from goalward.studio.advice.snapshot import bought_rounds
from goalward.studio.store import Ranked
from goalward.studio.store.events import Label
from goalward.studio.study.rounds import ready
from goalward.studio.study.state import State

PLAIN, HARDLY, RARE = 60, 0.25, 0.8
"""Answers before features are said to be the problem, where accuracy has come no further than so much of
the way from the share of the commonest class to 1. Where that share is so high the others are rare, and
accuracy says little of them. In 443 of 452 such rounds of the 47 tables that this was chosen on, the true
accuracy had come no further than 0.35 of the way."""
ALTERED = 0.1
"""Share of a model's answers that were corrected or taken back since: then it is another model's."""


@dataclass(frozen=True)
class Advice:
    """Whether to stop, and what that rests on.

    Parameters
    ----------
    stop
        True when the next 100 answers bring less than their price even at the upper end of what
        they may, when the budget is spent, or when nothing is left to ask. Never on gains before
        there are 30 answers, and 5 of each class.
    high
        The most that accuracy (macro-F1, R²) rises with the next 100 answers, nine times in ten; None
        until models 50 answers apart can be compared.
    price
        What an answer must bring, as a share of all rows: 0.0002 is two points for 100 answers, or 0.02
        of macro-F1 or R².
    left
        Rows that could still be asked and would train the model.
    account
        What was bought and what it cost: see `account`.
    criteria
        What this rule and published ones say; none is the best everywhere.
    reason
        The same in a sentence.
    """

    stop: bool
    high: float | None
    price: float
    left: int
    account: dict[str, Any] = field(hash=False)
    criteria: tuple[Criterion, ...]
    reason: str

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
    bought = Snapshot(labels=state.n_labels, bought=state.n_labels)
    found = criteria(snapshots(state), price=price)
    return (*found[:-1], budget_spent([bought], budget=budget))


def stop(state: State, price: float = PRICE, budget: int | None = None) -> Advice:
    """Return whether the next answers are worth their price, and what other rules say."""
    if not price > 0:
        raise BadParameter(
            f"price={price!r}; what an answer must bring, above 0, was expected: {PRICE}, two points of "
            "accuracy for 100 answers, say."
        )
    said, ahead = rules(state, price, budget), next_gain(snapshots(state))
    left = _left(state)
    return Advice(
        stop=bool(said[0].stop or said[-1].stop) or left == 0,
        high=ahead.high if ahead else None,
        price=price,
        left=left,
        account=account(state, price),
        criteria=said,
        reason=_reason(state, said, ahead, left),
    )


def _reason(state: State, said: Sequence[Criterion], ahead: Gain | None, left: int) -> str:
    """Return why to stop or to go on, in a sentence."""
    if left == 0:
        return "Nothing is left to ask that would train the model: stop."
    if said[-1].stop:
        return "The budget is spent: stop."
    if state.ranking is None:
        return f"No model yet: {state.settings.answer.waits}."
    answer = state.settings.answer
    few = {label: n for label, n in answer.least(state).items() if n < EACH}
    if state.n_labels < ANSWERS or few:
        lacking = [f"{label} has {n}" for label, n in few.items()][:3]
        more = f" ({', '.join(lacking)})" if few else ""
        needed = f", and {EACH}{answer.each}, come first" if answer.each else " come first"
        return f"Go on: {ANSWERS} answers{needed}{more}."
    if ahead is None or ahead.high is None:
        return f"Go on: models {BACK} answers apart are compared first."
    verdict = "stop" if said[0].stop else "go on"
    told = COMPARED[ahead.kind]
    return (
        f"The last {ahead.since} answers {told.says(ahead.changed)}, so {_next(left)} bring at most "
        f"{told.unit(ahead.high)}, and must bring {told.amount(said[0].threshold or 0.0)}: {verdict}."
    )


def _left(state: State) -> int:
    """Return how many rows could still be asked and would train the model."""
    done = state.settings.is_dev(range(state.n_rows))
    done[state.closed] = True
    return int((~done).sum())


def _next(left: int) -> str:
    return f"the next {AHEAD} answers" if left > AHEAD else f"the {left} rows left"


def labels_per_class(state: State) -> dict[Label, int]:
    """Return how many labels each class has; those that have none too."""
    return state.settings.answer.per_class(state)


def accuracy(state: State) -> dict[str, Any] | None:
    """Return how good the newest model is, with an interval; None where it is not known.

    Nor is it where a tenth of its answers was corrected or taken back since.
    """
    last = state.ranking
    if last is None or last.accuracy is None or last.low is None or last.high is None:
        return None
    if not ready(state) or _altered(state, last):
        return None
    answer, also = state.settings.answer, last.also or {}
    measure = {} if answer.measure is None else {"measure": answer.measure, **also}
    values = {"value": last.accuracy, "low": last.low, "high": last.high, "on": last.on}
    return {**values, **measure, "says": answer.good(last.accuracy, last.low, last.high, also)}


def headline(state: State) -> str:
    """Return where a study stands, in a sentence or two for people."""
    if state.n_closed >= state.n_rows:
        return f"Nothing is left to ask: {state.n_labels} of {state.n_rows} rows have an answer."
    if not ready(state):
        met = [label for label, n in labels_per_class(state).items() if n]
        if state.settings.kind != "class" or len(met) != 1:
            return f"No model yet: {state.settings.answer.waits}."
        return (
            f"All answers so far are “{met[0]}” ({state.n_labels}), and a model needs another class. Look for "
            "one among all rows (Search all rows): those least like the answered come first."
        )
    if (last := state.ranking) is None:
        return "No model yet: the first one is on its way."
    if _altered(state, last):
        return "Answers were changed since the model was fitted: how good it is will be said again."
    rounds, good = snapshots(state), _good(state, last)
    if enough(rounds) and gain_below_price(rounds, price=PRICE).stop:
        most = COMPARED[state.settings.kind].short(AHEAD * PRICE)
        return f"{good} You could stop: {_next(_left(state))} would bring less than {most}."
    return f"{good} Keep going."


def _altered(state: State, last: Ranked) -> bool:
    """Return whether answers of a model were corrected or taken back: a tenth of them or more."""
    # Each answer is one move; a new row adds one label, a correction none, and withdrawing takes one.
    known = last.labels + last.dev_labels
    return state.moves - last.moves - (state.n_labels - known) > ALTERED * known


def _good(state: State, last: Ranked) -> str:
    """Return how good the model is; where its features are the problem, that."""
    known, also = accuracy(state), last.also or {}
    if "commonest" not in also:
        return known["says"] if known else "How good the model is cannot be said yet."
    label, share = also["commonest"]
    says = f"Not known to be better yet than always answering “{label}”."
    if known:
        says = known["says"]
    far = known is not None and known["value"] > share + HARDLY * (1.0 - share)
    if (last.on or 0) < PLAIN or share > RARE or far:
        return says
    words = "texts" in state.pool or str(state.pool.get("features")).startswith("tfidf")
    what, other = ("texts as word counts", "sentence vectors") if words else ("features", "others")
    return f"{says} Your {what} tell the classes apart little better than chance: {other} may do better."


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
        "labels": state.n_labels,
        "training": state.n_training,
        "dev": state.n_labels - state.n_training,
        "price": price,
        "spent": None if price is None else price * state.n_answers,
        "gained": sum(known) if known else None,
    }


def snapshots(state: State) -> list[Snapshot]:
    """Return the rounds as stopping rules see them, with the labels per class of now."""
    names = ("labels", "metric", "accuracy", "low", "goal", "gain", "goal_before")
    least = min(state.settings.answer.least(state).values(), default=None)
    return [
        Snapshot(
            bought=ranked.labels + ranked.dev_labels,
            least=least,
            kind=state.settings.kind,
            **{name: getattr(ranked, name) for name in names},
            **(ranked.stop_set or {}),
        )
        for _, ranked in state.rounds
    ]
