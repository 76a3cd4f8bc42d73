"""The stopping rules, ours and published ones: each watches one number over the rounds.

Pullar-Strecker et al. (2022) compared 13 rules and found none superior in all applications, so all
are shown (`criteria`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from operator import ge, le, lt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.studio.advice.gains import enough, gain_below_price
from goalward.studio.advice.snapshot import Criterion, Snapshot, bought_rounds

Rounds = Sequence[Snapshot]


def criteria(
    rounds: Rounds, *, price: float | None = None, budget: int | None = None
) -> tuple[Criterion, ...]:
    """Return what every rule says after the last of the rounds.

    Before 30 answers, and 5 of each class, none but the budget says anything.

    Parameters
    ----------
    rounds
        All rounds so far, oldest first.
    price
        What a label must gain, as a share of all rows: 0.0002 is two points for 100 labels.
    budget
        Labels that may be bought, dev labels included.

    Examples
    --------
    >>> rounds = [Snapshot(labels=n, bought=n, predicted=(0, 1, 1, 0)) for n in (10, 20, 30, 40)]
    >>> [c.name for c in criteria(rounds) if c.stop]
    ['stabilizing predictions', 'bounded change', 'classification change']
    """
    found: tuple[Criterion, ...] = (
        gain_below_price(rounds, price=price),
        stabilizing_predictions(rounds),
        bounded_change(rounds),
        classification_change(rounds),
        accuracy_plateau(rounds),
        confidence_variance(rounds),
        overall_uncertainty(rounds),
        max_confidence(rounds),
    )
    if not enough(rounds):
        found = tuple(replace(one, stop=None) for one in found)
    return (*found, budget_spent(rounds, budget=budget))


def first_stops(
    rounds: Rounds, *, price: float | None = None, budget: int | None = None
) -> dict[str, int | None]:
    """Return for every rule the place of the first round at which it said stop; None if never."""
    first: dict[str, int | None] = {}
    for end in range(1, len(rounds) + 1):
        for one in criteria(rounds[:end], price=price, budget=budget):
            if first.get(one.name) is None:
                first[one.name] = end - 1 if one.stop else None
    return first


def stabilizing_predictions(
    rounds: Rounds, *, threshold: float = 0.99, window: int = 3
) -> Criterion:
    """Return whether successive models agree: mean kappa of the last changes of model.

    Bloodgood and Vijay-Shanker (2009) take a stop set that is never labelled on purpose and is
    large enough to be representative (2,000 rows there; up to 1,000 here), a window of 3 and 0.99.
    Of several labels the mean over them.
    """

    def value() -> float | None:
        found = [after.compared.kappa(*pair) for after, pair in _changes(rounds)[-window:]]
        return float(np.mean(found)) if len(found) == window else None

    says = f"mean kappa of successive models on the stop set, {window} rounds >= threshold"
    source = "Bloodgood and Vijay-Shanker, CoNLL 2009"
    return _judged(rounds, "stabilizing predictions", value, ge, threshold, says, source)


def classification_change(rounds: Rounds) -> Criterion:
    """Return whether no row of the stop set changed its predicted class in the last round.

    Zhu, Wang and Hovy (2008), also in Zhu et al. (2010). They look at all unlabelled rows.
    """

    def value() -> float | None:
        return shares[-1] if (shares := _bounds(rounds)) else None

    says = "share of the stop set that changed its class in the last round = 0"
    source = "Zhu, Wang and Hovy, COLING 2008"
    return _judged(rounds, "classification change", value, le, 0.0, says, source)


def bounded_change(rounds: Rounds, *, threshold: float = 0.01, window: int = 3) -> Criterion:
    """Return whether accuracy on the stop set can hardly have moved in any of the last rounds.

    A row whose predicted class is the same is as right or wrong as before, so the error rate
    moves by at most the share of rows that changed, whatever the true labels are. An exact bound
    for these rows, not the PAC-Bayesian error stability of Ishibashi and Hino (2021). Of several
    labels it bounds the share of right answers, of numbers the root mean squared error, in standard
    deviations.
    """
    shares = _bounds(rounds)[-window:]
    value = max(shares) if len(shares) == window else None
    says = f"largest possible change of accuracy on the stop set in {window} rounds <= threshold"
    return Criterion.judged("bounded change", value, le, threshold, says, "ours")


def accuracy_plateau(rounds: Rounds, *, least: float = 0.005, window: int = 5) -> Criterion:
    """Return whether the best accuracy, macro-F1 or R² of late is hardly above the best before.

    Patience, as in early stopping (Prechelt 1998). Accuracies measured in another way are left
    out. A dev set of n rows measures in steps of 1/n: below 1/least rows no gain means no step.
    """
    kept = bought_rounds(rounds)
    metric = kept[-1].metric if kept else None
    curve = [r.accuracy for r in kept if r.metric == metric and r.accuracy is not None]
    value = max(curve[-window:]) - max(curve[:-window]) if len(curve) > window else None
    says = f"gain of the best measured accuracy in {window} rounds < threshold"
    source = "patience, as in Prechelt 1998"
    return Criterion.judged("accuracy plateau", value, lt, least, says, source)


def confidence_variance(rounds: Rounds, *, falls: int = 2) -> Criterion:
    """Return whether the variance of the confidences fell in each of the last rounds.

    Ghayoomi (2010): it rises while the model learns to tell easy rows from hard ones, and falls
    when few hard ones are left. The value is the number of falls in a row up to now. An aggressive
    rule: chance alone makes two falls in a row a quarter of the time.
    """
    count, known = 0, False
    for before, after in reversed(list(pairwise(bought_rounds(rounds)))):
        if before.variance is None or after.variance is None:
            break
        known = True
        if after.variance >= before.variance:
            break
        count += 1
    says = "falls in a row of the variance of confidences on the stop set >= threshold"
    given = (ge, float(falls), says, "Ghayoomi, NAACL ALNLP 2010")
    return _judged(rounds, "confidence variance", lambda: float(count) if known else None, *given)


def overall_uncertainty(rounds: Rounds, *, threshold: float = 0.01) -> Criterion:
    """Return whether the mean entropy of the predictions on the stop set is below a threshold.

    Zhu, Wang and Hovy (2008), also in Zhu et al. (2010), with their 0.01. A model with a penalty
    may never be that sure: then this rule never says stop.
    """
    says = "mean entropy of the stop set < threshold"
    given = (lt, threshold, says, "Zhu, Wang and Hovy, COLING 2008")
    return _judged(
        rounds, "overall uncertainty", lambda: rounds[-1].uncertainty if rounds else None, *given
    )


def max_confidence(rounds: Rounds, *, threshold: float = 0.001) -> Criterion:
    """Return whether the model is sure of every row that it asks for.

    Zhu and Hovy (2007), with their 0.001: the entropy of each row of the next batch is below it.
    Meant for a strategy that asks for the rows of highest entropy.
    """
    says = "highest entropy of the next batch < threshold"
    given = (lt, threshold, says, "Zhu and Hovy, EMNLP 2007")
    return _judged(rounds, "max confidence", lambda: rounds[-1].doubt if rounds else None, *given)


def budget_spent(rounds: Rounds, *, budget: int | None) -> Criterion:
    """Return whether the labels bought, dev labels included, are as many as the budget."""
    value = float(rounds[-1].bought) if rounds else None
    most = None if budget is None else float(budget)
    says = "labels bought, dev labels included >= budget"
    return Criterion.judged("budget", value, ge, most, says, "")


def _judged(
    rounds: Rounds,
    name: str,
    value: Callable[[], float | None],
    fits: Callable[[float, float], bool],
    threshold: float,
    says: str,
    source: str,
) -> Criterion:
    """Return what a rule says; where it has no meaning for what is predicted, why."""
    why = rounds[-1].compared.without.get(name) if rounds else None
    if why is None:
        return Criterion.judged(name, value(), fits, threshold, says, source)
    return Criterion(name, None, None, None, f"no rule for {rounds[-1].kind}: {why}", source, False)


def _changes(rounds: Rounds) -> list[tuple[Snapshot, tuple[NDArray[Any], NDArray[Any]]]]:
    """Return the newest changes of model without a gap: the model after, predictions before and after."""
    found = []
    for before, after in reversed(list(pairwise(bought_rounds(rounds)))):
        pair = after.beside(before)
        if pair is None:
            break
        found.append((after, pair))
    return found[::-1]


def _bounds(rounds: Rounds) -> list[float]:
    return [after.compared.bound(*pair, after.scale) for after, pair in _changes(rounds)]
