"""The log-likelihood of labelled rows, each as if it had been left out of training."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.extmath import row_norms

from goalward.core.arrays import Rows, dense, like, plain_rows, rows_at, to_numpy
from goalward.errors import BadInput, BadParameter
from goalward.goals.dev_loss import LogLikelihood
from goalward.goals.goal import Goal, Kernel, Logits, ManyLogits, ManyValues, Term, Unsettled
from goalward.models import Fitted
from goalward.models.left_out import left_out_shift

__all__ = ["LeaveOneOut", "OnRows", "Shifted"]


@dataclass(frozen=True, eq=False)
class LeaveOneOut(Unsettled):
    """τ = Σ log p_y over labelled rows, each predicted as if it had not been trained on.

    It asks for no labels beyond those that train the model. Without row i the logits of that row
    would be f + M(I - ΛM)⁻¹(p - y), M its leverage: one Newton step of leaving it out (approximate
    leave-one-out, Rad and Maleki 2020). For a round these shifts are settled: the gradient is that
    of the shifted log-likelihood, and how the shifts themselves would change is left out.

    Rows that a strategy chose are no random sample, so the value is no estimate of how the model
    does elsewhere; those labelled at random can be named.

    Parameters
    ----------
    X, y
        Some of the rows the model was trained on, with their labels: those chosen at random, say.
        They are looked up, and refused if they are not there. All labelled rows by default.

    Examples
    --------
    >>> import goalward as gw
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1]
    >>> fitted = gw.Logistic().fit(X, y)
    >>> gw.goals.LeaveOneOut().value(fitted) < gw.goals.DevLoss(X, y).value(fitted)
    True
    """

    X: Any = field(default=None, repr=False)
    y: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if (self.X is None) != (self.y is None):
            raise BadParameter(
                "LeaveOneOut came with X or y alone; both, or neither for all labelled rows, were "
                "expected."
            )

    def settled(self, fitted: Fitted, round: int = 0) -> OnRows:
        known = fitted.labelled
        rows, targets, weights = known.X, known.targets, known.weights
        if self.X is not None:
            at = self._places(fitted)
            rows, targets, weights = rows_at(rows, at), rows_at(targets, at), rows_at(weights, at)
        shift = left_out_shift(fitted, rows, targets, weights)
        shifts = like(shift, fitted.params, dtype=fitted.params.dtype)
        return OnRows(rows, Shifted(LogLikelihood(weights[:, None] * targets), shifts))

    def _places(self, fitted: Fitted) -> NDArray[Any]:
        """Return where the rows named stand among the labelled ones, label and all."""
        named = fitted.features(self.X, "X of LeaveOneOut")
        targets = to_numpy(fitted.targets(self.y, named.shape[0], "y of LeaveOneOut"))
        known = fitted.labelled
        gaps = _squared_distances(named, known.X)
        same = targets.argmax(axis=1)[:, None] == to_numpy(known.targets).argmax(axis=1)[None, :]
        gaps[~same] = np.inf
        at: NDArray[Any] = gaps.argmin(axis=1)
        missing = np.flatnonzero(gaps[np.arange(len(at)), at] > 0.0)
        if len(missing):
            raise BadInput(
                f"{len(missing)} of the {len(at)} rows of LeaveOneOut, the first at position {missing[0]}, are "
                "not among the rows that the model was trained on, with that label; rows to be left "
                "out were expected. Use DevLoss for rows that it was not trained on."
            )
        return at


def _squared_distances(A: Rows, B: Rows) -> NDArray[Any]:
    """Return squared distances of rows, 0 where they agree but for rounding."""
    norms = [np.asarray(row_norms(plain_rows(X), squared=True), dtype=np.float64) for X in (A, B)]
    scale = norms[0][:, None] + norms[1][None, :]
    gaps = scale - 2.0 * to_numpy(dense(A @ B.T))
    return np.where(gaps <= 1e-9 * scale, 0.0, gaps)


@dataclass(frozen=True, eq=False)
class OnRows(Goal):
    """A kernel on rows as the model sees them, settled for a round."""

    rows: Rows = field(repr=False)
    kernel: Kernel = field(repr=False)

    def terms(self, fitted: Fitted) -> list[Term]:
        return [Term(1.0, self.rows, self.kernel)]


@dataclass(frozen=True)
class Shifted:
    """A kernel at logits that are moved by a constant."""

    kernel: Kernel
    shift: Logits

    def value(self, logits: ManyLogits) -> ManyValues:
        return self.kernel.value(logits + self.shift)

    def cotangent(self, logits: Logits) -> Logits:
        return self.kernel.cotangent(logits + self.shift)

    def curvature(self, logits: Logits, motion: Logits) -> Logits:
        return self.kernel.curvature(logits + self.shift, motion)
