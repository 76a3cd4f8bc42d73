"""Whether a fit may be trusted to be where utilities assume it: at an optimum with curvature left."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from goalward.core.arrays import norm, to_numpy
from goalward.errors import LooseFit, NotConverged, Separable, Unsupported
from goalward.models.gauss_newton import GaussNewton, smallest_eigenvalue
from goalward.solvers import Auto

if TYPE_CHECKING:
    from goalward.models.fitted import Fitted


WEAKEST = 2e-4
"""Penalty (scikit-learn's C = 1e4) up to which steps from a fit without a wrong label are refused.

Measured with 30 labels in 4 dimensions: rank correlation with retraining .3 and less, first order
4,000 % off; at C = 100 still .7."""

LARGEST_RESIDUAL = 1e-8
"""Below this loss of every row, 1 - p_y, the curvature p(1-p) has lost half of its digits."""

TIGHT, LOOSE = 1e-4, 1e-2
"""Relative gradients up to which a network is quietly accepted, and at all.

The gradient is measured against what all rows push with together, so at 1e-2 the distance to
the minimum is a tenth of what one row among a hundred does."""


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
    known = fitted.labelled
    logits = fitted.model.logits(fitted.params, known.X)
    # A row without any answer costs nothing, and says nothing about the others.
    told = (to_numpy(known.weights) > 0.0) & ~np.isnan(to_numpy(known.targets)).all(axis=1)
    certain = to_numpy(fitted.loss.rows(logits, known.targets))[told].max(initial=0.0)
    if told.any() and certain < LARGEST_RESIDUAL:
        C = "the penalty" if fitted.C is None else f"C={fitted.C:g}"
        raise Separable(
            f"The classes are perfectly separable and {C} hardly penalises: every label is "
            f"predicted to within {certain:.1e}, which leaves no curvature to work with. "
            "A penalty that holds the weights was expected: lower C, or rescale the features."
        )


def refuse_flat(fitted: Fitted, asker: str) -> None:
    """Raise if labels are separated and hardly penalised, in the name of a step by the curvature."""
    if not fitted.model.is_linear or float(fitted.penalty[0]) > WEAKEST:
        return
    known = fitted.labelled
    right = to_numpy(fitted.hessian.proba).argmax(axis=1) == to_numpy(known.targets).argmax(axis=1)
    if right[to_numpy(known.weights) > 0].all():
        raise Unsupported(
            f"{asker} came with classes that are perfectly separable and a penalty of "
            f"{float(fitted.penalty[0]):.1g} (1/C), so that one label moves the model further than its "
            f"curvature here tells; more than {WEAKEST:g} was expected. Use Retrain(), "
            "ImplicitStep(corrections=3) or utility='auto', or lower C."
        )


@dataclass(frozen=True)
class Validity:
    """What a network's utilities rest on.

    Parameters
    ----------
    gradient
        ‖∇F‖ relative to √Σ‖∇ℓᵢ‖²: 0 at a minimum.
    curvature
        The smallest eigenvalue of ∇²F that Lanczos' method finds; below 0 this is no minimum.
    damping
        Added to the curvature in every solve.
    penalty
        Smallest and largest ρ.
    """

    gradient: float
    curvature: float
    damping: float
    penalty: tuple[float, float]

    def __str__(self) -> str:
        return (
            f"relative gradient {self.gradient:.1e}, smallest curvature {self.curvature:.2g}, "
            f"damping {self.damping:.2g}, penalty {self.penalty[0]:.2g} to {self.penalty[1]:.2g}"
        )


def inspected(fitted: Fitted) -> Fitted:
    """Return a network with its `validity`; warn where it is loose, refuse where it is wrong."""
    gradient = fitted.flatness()
    logits = fitted.model.logits(fitted.params, fitted.labelled.X)
    true = GaussNewton(fitted.objective, fitted.params, logits, exact=True)
    curvature = smallest_eigenvalue(true)
    network: Any = fitted.model
    damping = float(network.damping)
    penalty = float(fitted.penalty.min()), float(fitted.penalty.max())
    found = Validity(gradient, curvature, damping, penalty)
    # EK-FAC asks where a pull moves the network from here, not where its minimum goes: the answer
    # of the linearised network, held to its own logits (Bae et al. 2022).
    anywhere = network.bend == "ek-fac"
    if not (anywhere or gradient <= LOOSE):
        raise NotConverged(
            f"The network is not at a minimum ({found}); a relative gradient of at most {LOOSE:g} "
            "was expected, in evaluation mode: dropout off, batch norm with its running "
            "statistics. Train it longer, check weight_decay and loss_reduction, or pass "
            "polish=True to move it to the minimum nearby."
        )
    if not anywhere and curvature + damping < 0.0:
        raise NotConverged(
            f"The network is at a saddle, not at a minimum ({found}); no negative curvature was "
            f"expected. Pass polish=True, a larger weight decay, or damping={-2 * curvature:.1g}."
        )
    if min(penalty) + damping <= 0.0:
        raise NotConverged(
            f"Some parameters have neither penalty nor damping ({found}), so the curvature is "
            "singular along everything the rows do not see; a positive number was expected. "
            "Train with weight decay on all of them, or pass damping=1e-3."
        )
    if not anywhere and gradient > TIGHT:
        warnings.warn(
            f"The network is not quite at a minimum ({found}); a relative gradient of {TIGHT:g} was "
            "expected. Utilities assume a minimum: pass polish=True to move it there.",
            LooseFit,
            stacklevel=3,
        )
    return replace(fitted, gradient=gradient, validity=found)
