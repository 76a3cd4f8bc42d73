"""Rules that watch the predicted classes of fixed rows from round to round."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from goalward.errors import ShapeMismatch
from goalward.stopping.snapshot import Criterion, Snapshot, bought_rounds

__all__ = ["bounded_change", "classification_change", "cohen_kappa", "stabilizing_predictions"]


def cohen_kappa(first: ArrayLike, second: ArrayLike) -> float:
    """Return how far two lists of classes agree beyond chance: (a - e) / (1 - e).

    a is the share of equal places and e the share that two independent lists with these class
    frequencies would have. Where both hold one class only, the same, it is 1.

    Examples
    --------
    >>> round(cohen_kappa([0, 0, 1, 1], [0, 0, 1, 0]), 3)
    0.5
    """
    a, b = np.asarray(first), np.asarray(second)
    if a.shape != b.shape or a.ndim != 1 or len(a) == 0:
        raise ShapeMismatch(
            f"Classes of shapes {a.shape} and {b.shape} came; two equally long lists that are not "
            "empty were expected. Predict the same rows with both models."
        )
    agree = float(np.mean(a == b))
    chance = sum(float(np.mean(a == k)) * float(np.mean(b == k)) for k in np.union1d(a, b))
    return 1.0 if chance >= 1.0 else (agree - chance) / (1.0 - chance)


def stabilizing_predictions(
    rounds: Sequence[Snapshot], *, threshold: float = 0.99, window: int = 3
) -> Criterion:
    """Return whether successive models agree: mean kappa of the last changes of model.

    Bloodgood and Vijay-Shanker (2009) take a stop set that is never labelled on purpose and is
    large enough to be representative (2,000 rows there; up to 1,000 here), a window of 3 and 0.99.
    """
    pairs = _changes(rounds)[-window:]
    known = len(pairs) == window
    value = float(np.mean([cohen_kappa(a, b) for a, b in pairs])) if known else None
    return Criterion(
        "stabilizing predictions",
        value,
        threshold,
        None if value is None else value >= threshold,
        f"mean kappa of successive models on the stop set, {window} rounds >= threshold",
        "Bloodgood and Vijay-Shanker, CoNLL 2009",
    )


def classification_change(rounds: Sequence[Snapshot]) -> Criterion:
    """Return whether no row of the stop set changed its predicted class in the last round.

    Zhu, Wang and Hovy (2008), also in Zhu et al. (2010). They look at all unlabelled rows.
    """
    shares = _changed(rounds)
    value = shares[-1] if shares else None
    return Criterion(
        "classification change",
        value,
        0.0,
        None if value is None else value <= 0.0,
        "share of the stop set that changed its class in the last round = 0",
        "Zhu, Wang and Hovy, COLING 2008",
    )


def bounded_change(
    rounds: Sequence[Snapshot], *, threshold: float = 0.01, window: int = 3
) -> Criterion:
    """Return whether accuracy on the stop set can hardly have moved in any of the last rounds.

    A row whose predicted class is the same is as right or wrong as before, so the error rate
    moves by at most the share of rows that changed, whatever the true labels are. An exact bound
    for these rows, not the PAC-Bayesian error stability of Ishibashi and Hino (2021).
    """
    shares = _changed(rounds)[-window:]
    value = max(shares) if len(shares) == window else None
    return Criterion(
        "bounded change",
        value,
        threshold,
        None if value is None else value <= threshold,
        f"largest possible change of accuracy on the stop set in {window} rounds <= threshold",
        "ours",
    )


def _changes(rounds: Sequence[Snapshot]) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Return predictions before and after each of the newest changes of model without a gap."""
    found: list[tuple[NDArray[Any], NDArray[Any]]] = []
    for before, after in reversed(list(pairwise(bought_rounds(rounds)))):
        if before.predicted is None or after.predicted is None:
            break
        found.append((np.array(before.predicted), np.array(after.predicted)))
    return found[::-1]


def _changed(rounds: Sequence[Snapshot]) -> list[float]:
    return [float(np.mean(a != b)) for a, b in _changes(rounds)]
