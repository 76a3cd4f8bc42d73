"""What all models have in common that differ by a few added rows: labelled rows, inverse, optimum."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from jaxtyping import Float

from goalward.core.arrays import Array, namespace
from goalward.models import Loss
from goalward.solvers import Inverse
from goalward.solvers.coordinates import Coordinates

__all__ = ["Base", "times"]


@dataclass(frozen=True)
class Base:
    """What all retrained models share.

    Parameters
    ----------
    inverse
        𝓗₀⁻¹, and the coordinates it is held in.
    B, targets, weights
        The labelled rows: (n, q) coordinates, (n, c) targets in contrasts, (n,) weights.
    rho
        Penalty of the weights.
    start
        (q, c) optimum before.
    Q
        (K, c) contrasts.
    loss
        What a label costs.
    answered
        Which outcomes of the labelled rows have a target, where some have none.
    """

    inverse: Inverse
    B: Float[Array, "n q"]
    targets: Float[Array, "n c"]
    weights: Float[Array, " n"]
    rho: float
    start: Float[Array, "q c"]
    Q: Float[Array, "k c"]
    loss: Loss
    answered: Float[Array, "n l 1"] | None = None

    @property
    def coordinates(self) -> Coordinates:
        """How rows are written."""
        return self.inverse.coordinates

    @cached_property
    def columns(self) -> Float[Array, "l c"]:
        """The loss's own columns."""
        return self.loss.columns(self.Q)

    @cached_property
    def law(self) -> Float[Array, "n l 1"]:
        """The labelled rows' law at the optimum before."""
        return self.law_at(times(self.B, self.lifted(self.start[:, :, None])))

    def law_at(self, f: Float[Array, "n l m"]) -> Float[Array, "n l m"]:
        """Return the labelled rows' law at some logits; nothing where there is no target."""
        law = self.loss.law(f)
        return law if self.answered is None else law * self.answered

    @cached_property
    def lifted_targets(self) -> Float[Array, "n l"]:
        """The labelled rows' targets in the loss's columns, up to what it does not see."""
        return self.targets @ self.columns.T

    def lifted(self, x: Float[Array, "s c m"]) -> Float[Array, "s l m"]:
        """Return x in the loss's columns."""
        return x if self.columns.shape[0] == 1 else namespace(x).matmul(self.columns, x)

    def lowered(self, x: Float[Array, "s l m"]) -> Float[Array, "s c m"]:
        """Return x, of the loss's columns, in contrasts."""
        return x if self.columns.shape[0] == 1 else namespace(x).matmul(self.columns.T, x)

    def raised(self, g: Float[Array, "q c m"]) -> Float[Array, "q c m"]:
        """Return 𝓗₀⁻¹ g."""
        xp = namespace(g)
        q, c, m = g.shape
        return xp.reshape(self.inverse.matrix @ xp.reshape(g, (q * c, m)), (q, c, m))

    def mean(self, f: Float[Array, "n c m"]) -> Float[Array, "n c m"]:
        """Return what is predicted at logits f, in contrasts."""
        return self.loss.mean(f, self.Q)


def times(A: Float[Array, "r s"], x: Float[Array, "s c m"]) -> Float[Array, "r c m"]:
    """Return A x along the first axis, for every class and model."""
    xp = namespace(x)
    return xp.reshape(A @ xp.reshape(x, (x.shape[0], -1)), (A.shape[0], *x.shape[1:]))
