"""The implicit step of a network: its own parameters moved once, the goal evaluated there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array, Rows, like, namespace, rows_at
from goalward.errors import Unsupported
from goalward.goals import Goal, Term
from goalward.models import Fitted
from goalward.utility.implicit_slopes import Equations, implicit_slopes
from goalward.utility.labelings import batches
from goalward.utility.one_by_one import value_of
from goalward.utility.utility import Scored, Scorer, Utility

AT_ONCE = 2**24
"""Numbers in the slopes of one block of rows: 128 MB."""


@dataclass(frozen=True)
class NetworkStep(Utility):
    """Δτ of a network by one step of all its layers: the new row's own loss is exact, as in ImplicitStep.

    For `from_torch(..., layers="all", curvature="ek-fac")`, whose inverse is at hand. With M = J𝓗⁻¹Jᵀ
    the row's logits move by -M r, r is the slope of its loss there, and the parameters move by
    -𝓗⁻¹Jᵀr; the goal is evaluated by the network at these. That is a pass over the goal's rows for
    each (row, label): dearer than `FirstOrder`, far cheaper than fine-tuning.

    Examples
    --------
    >>> import goalward as gw, torch
    >>> X, y = torch.eye(3), [0, 0, 1]
    >>> options = {"layers": "all", "weight_decay": 0.1, "curvature": "ek-fac"}
    >>> fitted = gw.adapters.from_torch(torch.nn.Linear(3, 2), X, y, **options)
    >>> gw.utility.NetworkStep()(fitted, gw.goals.DevLoss(X, y), X).shape
    torch.Size([3, 2])
    """

    def prepare(self, fitted: Fitted, goal: Goal) -> _NetworkStepper:
        """Return the utility with the goal's value and the curvature made."""
        if fitted.model.is_linear or not fitted.model.has_derivatives or not fitted.hessian.near:
            raise Unsupported(
                f"NetworkStep came with the model {fitted.model!r}; a network whose curvature has an "
                "inverse was expected. Use from_torch(..., layers='all', curvature='ek-fac'), or "
                "ImplicitStep() for linear models."
            )
        terms = goal.terms(fitted)
        return _NetworkStepper(fitted, terms, value_of(fitted, terms))

    def batch(
        self, fitted: Fitted, goal: Goal, X_batches: Any, labels: Any = None
    ) -> Float[Array, "b l"]:
        """Return Δτ of each batch by the joint step of its rows."""
        stepper = self.prepare(fitted, goal)
        values = [stepper.window(*job) for job in batches(fitted, X_batches, labels)]
        return namespace(values[0]).stack(values)


@dataclass(frozen=True)
class _NetworkStepper(Scorer):
    fitted: Fitted
    terms: list[Term]
    before: float
    report: None = None

    def __call__(self, rows: Rows) -> Scored:
        """Return Δτ of every row under every label."""
        proba = self.fitted.proba_of(rows)
        n, K = proba.shape
        step = max(1, AT_ONCE // (self.fitted.params.shape[0] * K))
        parts = [
            self._windows(rows_at(rows, slice(first, first + step)), np.arange(K)[:, None])
            for first in range(0, n, step)
        ]
        return Scored(namespace(proba).concat(parts, axis=0), proba)

    def window(self, rows: Rows, codes: NDArray[Any]) -> Float[Array, " l"]:
        """Return Δτ of one batch under each of the labelings `codes` (L, b)."""
        return self._windows(rows, codes)[0, :]

    def _windows(self, rows: Rows, codes: NDArray[Any]) -> Float[Array, "w l"]:
        """Return Δτ of as many batches as there are, one after another among the rows."""
        fitted, b = self.fitted, codes.shape[1]
        f = fitted.logits_of(rows)
        xp = namespace(f)
        Q = fitted.loss.basis(f.shape[1], f)
        s = b * Q.shape[1]
        network: Any = fitted.model.at(fitted.params)
        J = network.row_slopes(rows, xp.broadcast_to(Q, (f.shape[0], *Q.shape)))
        pulled = xp.reshape(fitted.hessian.near(J.T).T, (-1, s, J.shape[1]))
        targets = like(np.eye(f.shape[1])[codes], f, dtype=f.dtype)
        weights = xp.sum(targets * fitted.label_weights, axis=2)[:, :, None] + 0.0 * Q[0, :]
        r = implicit_slopes(
            Equations(
                xp.reshape(f @ Q, (-1, s)),
                xp.matmul(xp.reshape(J, pulled.shape), xp.permute_dims(pulled, (0, 2, 1))),
                xp.reshape(targets @ Q, (-1, s)).T[None, :, :],
                xp.reshape(weights, (-1, s)).T[None, :, :],
                Q,
                fitted.loss,
            )
        )
        moves = xp.matmul(xp.permute_dims(r, (0, 2, 1)), pulled)
        values = [[self._value(move) for move in window] for window in moves]
        return like(np.array(values), f, dtype=f.dtype) - self.before

    def _value(self, move: Float[Array, " p"]) -> float:
        return value_of(replace(self.fitted, params=self.fitted.params - move[:, None]), self.terms)
