"""Rules that watch what was measured and what was spent."""

from __future__ import annotations

from collections.abc import Sequence

from goalward.stopping.snapshot import Criterion, Snapshot, bought_rounds

__all__ = ["accuracy_plateau", "budget_spent"]


def accuracy_plateau(
    rounds: Sequence[Snapshot], *, least: float = 0.005, window: int = 5
) -> Criterion:
    """Return whether the best accuracy of the last rounds is hardly above the best before them.

    Patience, as in early stopping (Prechelt 1998). Accuracies measured in another way are left
    out. A dev set of n rows measures in steps of 1/n: below 1/least rows no gain means no step.
    """
    kept = bought_rounds(rounds)
    metric = kept[-1].metric if kept else None
    curve = [r.accuracy for r in kept if r.metric == metric and r.accuracy is not None]
    value = max(curve[-window:]) - max(curve[:-window]) if len(curve) > window else None
    return Criterion(
        "accuracy plateau",
        value,
        least,
        None if value is None else value < least,
        f"gain of the best measured accuracy in {window} rounds < threshold",
        "patience, as in Prechelt 1998",
    )


def budget_spent(rounds: Sequence[Snapshot], *, budget: int | None) -> Criterion:
    """Return whether the labels bought, dev labels included, are as many as the budget."""
    value = float(rounds[-1].bought) if rounds else None
    known = value is not None and budget is not None
    return Criterion(
        "budget",
        value,
        None if budget is None else float(budget),
        bool(value >= budget) if known else None,  # type: ignore[operator]
        "labels bought, dev labels included >= budget",
        "",
    )
