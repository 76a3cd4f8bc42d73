"""Whether a linear fit may be trusted: near its optimum, and with curvature left there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goalward.core.arrays import norm, to_numpy
from goalward.errors import Separable
from goalward.solvers import Auto

if TYPE_CHECKING:
    from goalward.models.fitted import Fitted

__all__ = ["newton_distance", "refuse_separable"]

LARGEST_RESIDUAL = 1e-8
"""Below this 1 - p_y on every row, the curvature p(1-p) has lost half of its digits."""


def newton_distance(fitted: Fitted) -> float:
    """Return how far the optimum is: ‖𝓗⁻¹∇F‖ relative to ‖θ‖.

    A small gradient alone says little where curvature is weak: a separable set with a large C
    is flat long before its optimum.
    """
    logits = fitted.model.logits(fitted.params, fitted.labelled.X)
    gradient = fitted.objective.gradient(fitted.params, logits)
    step = Auto(tol=1e-2).prepare(fitted.hessian)(gradient).value
    size = norm(fitted.params)
    return norm(step) / size if size > 0.0 else float(norm(step) > 0.0)


def refuse_separable(fitted: Fitted) -> None:
    """Raise if every labelled row is fitted so well that no curvature is left."""
    targets = to_numpy(fitted.labelled.targets)
    missing = (1.0 - to_numpy(fitted.hessian.proba)) * targets
    certain = missing.sum(axis=1)[to_numpy(fitted.labelled.weights) > 0].max()
    if certain < LARGEST_RESIDUAL:
        C = "the penalty" if fitted.C is None else f"C={fitted.C:g}"
        raise Separable(
            f"The classes are perfectly separable and {C} hardly penalises: every label is "
            f"predicted to within {certain:.1e}, which leaves no curvature to work with. "
            "A penalty that holds the weights was expected: lower C, or rescale the features."
        )
