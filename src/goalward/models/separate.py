"""Losses of outcomes that do not bend one another: Λ is diagonal, and so is all that follows."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from goalward.core.arrays import Array, like, namespace
from goalward.models.loss import Loss

__all__ = ["Separate", "on_diagonal"]


class Separate(Loss):
    """A loss whose outcomes each have a logit of their own; `diagonal` says how each bends."""

    def basis(self, n_outcomes: int, reference: Array) -> Float[Array, "k k"]:
        """Return the identity: every logit counts by itself."""
        return like(np.eye(n_outcomes), reference, dtype=reference.dtype)

    def unseen(self, v: Float[Array, "p k"]) -> Float[Array, "p 1"]:
        """Return nothing: all is seen."""
        return namespace(v).zeros_like(v[:, :1])

    def curvature(
        self, proba: Float[Array, "*n k"], motion: Float[Array, "*n k"]
    ) -> Float[Array, "*n k"]:
        """Return Λs."""
        return self.diagonal(proba) * motion

    def blocks(self, proba: Float[Array, "n k"]) -> Float[Array, "n k k"]:
        """Return Λ of every row."""
        return on_diagonal(self.diagonal(proba))

    def factors(self, proba: Float[Array, "n k"]) -> Float[Array, "n k k"]:
        """Return √Λ of every row."""
        return on_diagonal(namespace(proba).sqrt(self.diagonal(proba)))

    def law(self, f: Float[Array, "n k m"]) -> Float[Array, "n k m"]:
        """Return p of m models side by side."""
        return self.proba(f)

    def bent(self, law: Float[Array, "n k m"], d: Float[Array, "n k m"]) -> Float[Array, "n k m"]:
        """Return Λd of m models side by side."""
        return self.curvature(law, d)

    def own_slopes(
        self,
        f: Float[Array, "n c"],
        M: Float[Array, "n c c"],
        targets: Float[Array, "_ c l"],
        weights: Float[Array, "_ c l"],
    ) -> Float[Array, "n c l"] | None:
        """Return the slopes outcome by outcome: M is diagonal, since 𝓗 couples no two of them."""
        xp = namespace(f)
        eye = xp.eye(f.shape[1], dtype=f.dtype, device=f.device)
        own = xp.sum(M * eye, axis=2)[:, :, None]
        return self.own_slope(f[:, :, None], own, targets, weights)

    def own_slope(
        self,
        f: Float[Array, "n c 1"],
        M: Float[Array, "n c 1"],
        t: Float[Array, "_ c l"],
        w: Float[Array, "_ c l"],
    ) -> Float[Array, "n c l"] | None:
        """Return r = w (p(f - Mr) - t) of each outcome by itself, where there is a short way to it."""
        return None


def on_diagonal(values: Float[Array, "n c"]) -> Float[Array, "n c c"]:
    """Return a diagonal matrix for every row."""
    xp, c = namespace(values), values.shape[1]
    return values[:, :, None] * xp.eye(c, dtype=values.dtype, device=values.device)
