"""Rules that watch how sure the model is."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from goalward.stopping.snapshot import Criterion, Snapshot, bought_rounds

__all__ = ["confidence_variance", "max_confidence", "overall_uncertainty"]


def overall_uncertainty(rounds: Sequence[Snapshot], *, threshold: float = 0.01) -> Criterion:
    """Return whether the mean entropy of the predictions on the stop set is below a threshold.

    Zhu, Wang and Hovy (2008), also in Zhu et al. (2010), with their 0.01. A model with a penalty
    may never be that sure: then this rule never says stop.
    """
    value = rounds[-1].uncertainty if rounds else None
    return Criterion(
        "overall uncertainty",
        value,
        threshold,
        None if value is None else value < threshold,
        "mean entropy of the stop set < threshold",
        "Zhu, Wang and Hovy, COLING 2008",
    )


def max_confidence(rounds: Sequence[Snapshot], *, threshold: float = 0.001) -> Criterion:
    """Return whether the model is sure of every row that it asks for.

    Zhu and Hovy (2007), with their 0.001: the entropy of each row of the next batch is below it.
    Meant for a strategy that asks for the rows of highest entropy.
    """
    value = rounds[-1].doubt if rounds else None
    return Criterion(
        "max confidence",
        value,
        threshold,
        None if value is None else value < threshold,
        "highest entropy of the next batch < threshold",
        "Zhu and Hovy, EMNLP 2007",
    )


def confidence_variance(rounds: Sequence[Snapshot], *, falls: int = 2) -> Criterion:
    """Return whether the variance of the confidences fell in each of the last rounds.

    Ghayoomi (2010): it rises while the model learns to tell easy rows from hard ones, and falls
    when few hard ones are left. The value is the number of falls in a row up to now. An aggressive
    rule: chance alone makes two falls in a row a quarter of the time.
    """
    kept = bought_rounds(rounds)
    count, known = 0, False
    for before, after in reversed(list(pairwise(kept))):
        if before.variance is None or after.variance is None:
            break
        known = True
        if after.variance >= before.variance:
            break
        count += 1
    value = float(count) if known else None
    return Criterion(
        "confidence variance",
        value,
        float(falls),
        None if value is None else value >= falls,
        "falls in a row of the variance of confidences on the stop set >= threshold",
        "Ghayoomi, NAACL ALNLP 2010",
    )
