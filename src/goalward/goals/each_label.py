"""Goals of classes over several labels: each label of each row is a row of two classes.

Under `Sigmoid` a label with the logit f is a softmax of two classes, no and yes, with the logits -f/2
and f/2. So what is written for classes serves labels too, K rows for every row; a label that nobody
answered is a row without weight.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jaxtyping import Float

from goalward.core.arrays import Array, namespace
from goalward.goals.goal import Coupled, Coupling, Kernel, Logits, ManyLogits, ManyValues
from goalward.models import Loss

__all__ = ["EachLabel", "in_pairs", "paired", "per_label"]


def per_label(kernel: Any, loss: Loss, column: int | None = None) -> Any:
    """Return a kernel of classes for models of a loss; of one label alone where `column` names it."""
    if loss.kind != "labels":
        return kernel
    make = CoupledLabels if hasattr(kernel, "coupling") else EachLabel
    return make(kernel, column)


def paired(logits: Float[Array, "*b m k"]) -> Float[Array, "*b mk 2"]:
    """Return the logits of no and yes, label after label of each row."""
    xp = namespace(logits)
    pairs = xp.stack([-0.5 * logits, 0.5 * logits], axis=-1)
    return xp.reshape(pairs, (*logits.shape[:-2], -1, 2))


def in_pairs(
    targets: Float[Array, "m k"], weights: Float[Array, " m"]
) -> tuple[Float[Array, "mk 2"], Float[Array, " mk"]]:
    """Return targets and weights of no and yes; no weight where there is no answer."""
    xp = namespace(targets)
    missing = xp.isnan(targets)
    yes = xp.where(missing, xp.zeros_like(targets), targets)
    heavy = xp.where(missing, xp.zeros_like(targets), weights[:, None] + 0.0 * targets)
    pairs = xp.stack([1.0 - yes, yes], axis=-1)
    return xp.reshape(pairs, (-1, 2)), xp.reshape(heavy, (-1,))


@dataclass(frozen=True)
class EachLabel:
    """A kernel of two classes, over every label of every row.

    Parameters
    ----------
    column
        The label that it sees, if it does not see all.
    """

    kernel: Kernel
    column: int | None = None

    def value(self, logits: ManyLogits) -> ManyValues:
        """Return τ of the pairs."""
        return self.kernel.value(self._pairs(logits))

    def cotangent(self, logits: Logits) -> Logits:
        """Return ∂τ/∂f: half of what yes has more than no."""
        return self._back(self.kernel.cotangent(self._pairs(logits)), logits)

    def curvature(self, logits: Logits, motion: Logits) -> Logits:
        """Return W s."""
        return self._back(self.kernel.curvature(*map(self._pairs, (logits, motion))), logits)

    def _pairs(self, logits: ManyLogits) -> Float[Array, "*b n 2"]:
        k = self.column
        return paired(logits if k is None else logits[..., k : k + 1])

    def _back(self, u: Float[Array, "*r n 2"], logits: Logits) -> Float[Array, "*r m k"]:
        xp, k = namespace(u), self.column
        moved = 0.5 * (u[..., 1] - u[..., 0])
        moved = xp.reshape(moved, (*u.shape[:-2], logits.shape[0], -1))
        if k is None:
            return moved
        at = xp.arange(logits.shape[1], device=u.device) == k
        return moved * xp.astype(at, u.dtype)


class CoupledLabels(EachLabel, Coupled):
    """The same of a kernel whose rows depend on one another."""

    curvature = EachLabel.curvature

    def own(self, logits: Logits, motion: Logits) -> Logits:
        """Return the rows' own part of W s; labels of a row do not bend one another there."""
        kernel: Any = self.kernel
        return self._back(kernel.own(*map(self._pairs, (logits, motion))), logits)

    def coupling(self, logits: Logits) -> Coupling:
        """Return what couples the rows."""
        kernel: Any = self.kernel
        vectors, middle = kernel.coupling(self._pairs(logits))
        return Coupling(self._back(vectors, logits), middle)
