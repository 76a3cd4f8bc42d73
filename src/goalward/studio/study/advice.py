"""The status of a study: how good the model is, and whether more answers are worth their price."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from goalward.errors import BadParameter
from goalward.studio.stopping import (
    AHEAD,
    ANSWERS,
    BACK,
    EACH,
    PRICE,
    Criterion,
    Snapshot,
    bought_rounds,
    budget_spent,
    criteria,
    gain_below_price,
    next_gain,
)
from goalward.studio.store import Ranked
from goalward.studio.study.rounds import ready
from goalward.studio.study.state import State

PLAIN, HARDLY, RARE = 60, 0.25, 0.8
"""Answers before features are called the problem, how far accuracy is from the commonest class's share
to 1 at most, and the share above which accuracy says little. In 443 of 452 such rounds of 47 tables the
true accuracy was at most 0.35 of the way."""
ALTERED = 0.1
"""Share of a model's answers that changed since, above which its accuracy is not shown."""


MEASURES = (
    *("labels", "metric", "accuracy", "low", "high", "on"),
    *("log_loss", "C", "goal", "gain", "recipe"),
)


@dataclass(frozen=True)
class Advice:
    """Whether to stop, and why.

    Parameters
    ----------
    stop
        True if `high` is below the price of 100 answers, the budget is spent, or no row is left.
    high
        Upper bound, nine times in ten, of the rise by 100 answers; None before it can be estimated.
    price
        What an answer must bring, as a share of all rows: 0.0002 is two points for 100 answers.
    left
        Rows that could still be asked and would train the model.
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
        rules = [asdict(rule) | {"verdict": rule.verdict} for rule in self.criteria]
        return asdict(self) | {"criteria": rules}


def rules(
    state: State, price: float | None = None, budget: int | None = None
) -> tuple[Criterion, ...]:
    """Return the verdict of every stopping rule; unknown without its price or budget."""
    if budget is not None and budget < 1:
        raise BadParameter(
            f"budget must be at least 1 label, got {budget!r}. Leave it out for none."
        )
    # Newer than the last ranking.
    bought = Snapshot(labels=state.n_labels, bought=state.n_labels)
    return (*criteria(snapshots(state), price=price)[:-1], budget_spent([bought], budget=budget))


def stop(state: State, price: float = PRICE, budget: int | None = None) -> Advice:
    """Return whether the next answers are worth their price, and the other verdicts."""
    if not price > 0:
        raise BadParameter(
            f"price must be above 0, got {price!r}. Give what an answer must bring: {PRICE}, two points "
            "of accuracy for 100 answers, say."
        )
    verdicts, gain, left = rules(state, price, budget), next_gain(snapshots(state)), _left(state)
    ours, spent = verdicts[0].stop, verdicts[-1].stop
    answer = state.settings.answer
    few = [f"{label} has {n}" for label, n in answer.least(state).items() if n < EACH]
    if left == 0:
        reason = "Nothing is left to ask that would train the model: stop."
    elif spent:
        reason = "The budget is spent: stop."
    elif state.ranking is None:
        reason = headline(state)
    elif left < BACK and (gain is None or gain.high is None):
        reason = f"Go on: {left} rows are left, too few to measure what more answers bring."
    elif state.n_labels < ANSWERS or few:
        needed = f", and {EACH}{answer.each}, come first" if answer.each else " come first"
        lacking = f" ({', '.join(few[:3])})" if few else ""
        reason = f"Go on: {ANSWERS} answers{needed}{lacking}."
    elif gain is None or gain.high is None:
        reason = f"Go on: the gain can be estimated once two fits are {BACK} answers apart."
    else:
        reason = (
            f"The last {gain.since} answers {answer.changed(gain.changed)}, so {_next(left)} bring at "
            f"most {answer.amount(gain.high)}{answer.unit}; your threshold is "
            f"{answer.amount(AHEAD * price)}: {'stop' if ours else 'go on'}."
        )
    return Advice(
        stop=bool(ours or spent) or left == 0,
        high=gain.high if gain else None,
        price=price,
        left=left,
        account=account(state, price),
        criteria=verdicts,
        reason=reason,
    )


def _left(state: State) -> int:
    """Return how many rows may still be asked that would train the model."""
    aside = state.settings.is_dev(sorted(state.aside))
    return (
        state.settings.n_training(state.n_rows)
        - int((~aside).sum())
        - state.counted("closed", False)
    )


def _next(left: int) -> str:
    return f"the next {AHEAD} answers" if left > AHEAD else f"the {left} rows left"


def accuracy(state: State) -> dict[str, Any] | None:
    """Return how good the newest model is; None if unknown, or once a tenth of its answers changed."""
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
    """Return the status of a study in a sentence or two."""
    if state.n_closed >= state.n_rows:
        return f"Nothing is left to ask: {state.n_labels} of {state.n_rows} rows have an answer."
    if not ready(state):
        met = [label for label, n in state.settings.answer.per_class(state).items() if n]
        if state.settings.kind != "class" or len(met) != 1:
            return f"No model yet: {state.settings.answer.waits}."
        return (
            f"All answers so far are “{met[0]}” ({state.n_labels}), and a model needs another class. Look for "
            "one among all rows (Search all rows): those least like the answered come first."
        )
    if (last := state.ranking) is None:
        return "No model yet: the first one is fitted when the next rows are chosen."
    if _altered(state, last):
        return "Answers were changed since the last fit: the next fit measures the accuracy again."
    good, answer = _good(state, last), state.settings.answer
    if gain_below_price(snapshots(state), price=PRICE).stop:
        most = f"{answer.amount(AHEAD * PRICE)}{answer.unit}"
        return f"{good} You could stop: {_next(_left(state))} would bring less than {most}."
    return f"{good} Keep going."


def _altered(state: State, last: Ranked) -> bool:
    """Return whether a tenth of a model's answers were corrected or taken back."""
    # Each answer is one move; a new row adds one label, a correction none, and withdrawing takes one.
    known = last.labels + last.dev_labels
    return state.moves - last.moves - (state.n_labels - known) > ALTERED * known


def _good(state: State, last: Ranked) -> str:
    """Return how good the model is, and whether its features are the problem."""
    known, also = accuracy(state), last.also or {}
    if "commonest" not in also:
        return known["says"] if known else "How good the model is cannot be said yet."
    label, share = also["commonest"]
    unknown = f"Not known to be better yet than always answering “{label}”."
    says = known["says"] if known else unknown
    far = known is not None and known["value"] > share + HARDLY * (1.0 - share)
    if (last.on or 0) < PLAIN or share > RARE or far:
        return says
    words = "texts" in state.pool or str(state.pool.get("features")).startswith("tfidf")
    what, other = ("texts as word counts", "sentence vectors") if words else ("features", "others")
    return f"{says} Your {what} tell the classes apart little better than chance: {other} may do better."


def account(state: State, price: float | None = None) -> dict[str, Any]:
    """Return the answers bought, their cost, and how far the goal rose: each time on the same rows."""
    rounds = bought_rounds([ranked for _, ranked in state.rounds])
    rises = [
        now.goal - now.goal_before
        for now in rounds
        if now.goal_before is not None and (now.metric == "dev") == (rounds[-1].metric == "dev")
    ]
    return {
        "answers": state.n_answers,
        "labels": state.n_labels,
        "training": state.n_training,
        "dev": state.n_labels - state.n_training,
        "price": price,
        "spent": None if price is None else price * state.n_answers,
        "gained": sum(rises) if rises else None,
    }


def snapshots(state: State) -> list[Snapshot]:
    """Return the rounds as stopping rules see them, with the labels per class of now."""
    answer = state.settings.answer
    least = min(answer.least(state).values(), default=None)
    return [
        Snapshot(
            labels=ranked.labels,
            bought=ranked.labels + ranked.dev_labels,
            least=least,
            kind=answer.name,
            low=ranked.low,
            **(ranked.stop_set or {}),
        )
        for _, ranked in state.rounds
    ]


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
