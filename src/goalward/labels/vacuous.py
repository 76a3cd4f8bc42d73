"""The warning of Remark 1: all rows score the same, so nothing is chosen."""

from __future__ import annotations

import warnings

from goalward.errors import VacuousUtility

__all__ = ["warn_if_vacuous", "warn_vacuous"]


def warn_if_vacuous(lowest: float, highest: float, scale: float, eps: float, name: str) -> None:
    """Warn if all rows score the same to rounding while their utilities differ.

    Parameters
    ----------
    lowest, highest
        Over the rows, after the operator.
    scale
        The largest spread over the rows of a label's utility, before it.
    eps
        The rounding unit of the numbers.
    """
    gap = highest - lowest
    if scale > 0.0 and gap <= 1e4 * eps * scale:
        warn_vacuous(
            name, f" (spread {gap:.1e}, while utilities of a label spread over {scale:.1e})"
        )


def warn_vacuous(name: str, found: str = "") -> None:
    """Warn that all rows score the same under an operator, by what was found or by Remark 1."""
    reason = "the operator does not tell them apart"
    if "Predicted" in name:
        reason = (
            "to first order the expected utility under the model's own prediction is "
            "constant (Remark 1 of the paper)"
        )
    warnings.warn(
        f"Every candidate scores the same under {name}{found}, so the choice is arbitrary: {reason}. "
        "Use Spread(Predicted()), Expected(Uniform()), a LabelModel, or a utility beyond first "
        "order such as Retrain().",
        VacuousUtility,
        stacklevel=4,
    )
