"""Conjugate gradients with exact line searches, for many models at once.

With the notation of `neighbours` and residuals r, α of labelled and added rows, the gradient is
g = Bᵀ W r + z̃ᵀ α + ρ∘Ψ, and α + ρ a in the own directions. The preconditioner is
P = 𝓗₀ ⊕ ρ + (added rows) D (added rows)ᵀ. Line searches need no product with the rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array, like, namespace, put_at, to_numpy
from goalward.utility.implicit_slopes import line_search
from goalward.utility.neighbours import AddedRows, each, times

LOOKS = 8
"""Most points of a line search."""
FOLLOWED = 3
"""Steps in which P is updated with the added rows' curvature."""
ROUGH, FINE = 0.1, 1e-2
"""Slope at which a line search ends, relative to its first slope: of many steps, of few."""


class Point(NamedTuple):
    """Ψ and a of M models (or of a step), with the logits of labelled and added rows."""

    psi: Float[Array, "q c m"]
    a: Float[Array, "b c m"]
    f: Float[Array, "n l m"]
    own: Float[Array, "b l m"]

    @classmethod
    def of(cls, rows: AddedRows, psi: Array, a: Array) -> Point:
        base = rows.base
        return cls(psi, a, times(base.B, base.lifted(psi)), base.lifted(rows.logits(psi, a)))


class Slope(NamedTuple):
    """Gradient of every model, inside and along own directions; `raised` is (𝓗₀ ⊕ ρ)⁻¹ times it."""

    g: Float[Array, "q c m"]
    own: Float[Array, "b c m"]
    raised: Float[Array, "q c m"]

    @classmethod
    def of(cls, rows: AddedRows, g: Array, own: Array) -> Slope:
        xp, matrix = namespace(g), rows.base.inverse.matrix
        return cls(g, own, xp.reshape(matrix @ xp.reshape(g, (-1, g.shape[2])), g.shape))

    def along(self, rows: AddedRows, psi: Array, a: Array) -> Float[Array, " m"]:
        """Return ⟨g, step⟩ of every model."""
        return dot(self.g, psi) + rows.base.rho * dot(self.own, each(rows.S, a))

    def preconditioned(self, rows: AddedRows, bend: Array) -> tuple[Array, Array]:
        """Return P⁻¹g: with the shared inverse, and the added rows' curvature by Woodbury."""
        y = each(bend, rows.logits(self.raised, self.own))
        return self.raised - each(rows.U, y), self.own - y / rows.base.rho


class Walk:
    """State of the descent: points of the models, laws of the rows there, and the last step."""

    def __init__(self, rows: AddedRows, psi: Array, a: Array) -> None:
        self.rows, self.point = rows, Point.of(rows, psi, a)
        self.laws = rows.base.law(self.point.f), rows.base.loss.law(self.point.own)
        self.bend = rows.bend(self.laws[1])
        self._steps = 0
        self._last: tuple[Array, ...] = ()

    def slope(self) -> Slope:
        rows, base, (law, own_law) = self.rows, self.rows.base, self.laws
        r = base.weights[:, None, None] * (law - base.targets[:, :, None])
        alpha = rows.weights * base.lowered(own_law) - rows.pulls
        ridge = base.inverse.coordinates.ridge[:, None, None]
        g = base.lowered(times(base.B.T, r)) + rows.pull(alpha) + ridge * self.point.psi
        return Slope.of(rows, g, alpha / base.rho + self.point.a)

    def step(self, slope: Slope, tolerance: float) -> None:
        """Go along the next direction to its lowest point."""
        rows = self.rows
        if 0 < self._steps < FOLLOWED:
            self.bend = rows.bend(self.laws[1])
        self._steps += 1
        z, z_own = slope.preconditioned(rows, self.bend)
        size = slope.along(rows, z, z_own)
        psi, a = -z, -z_own
        if self._last:
            xp = namespace(psi)
            before, before_own, before_size, before_psi, before_a = self._last
            turned = size - slope.along(rows, before, before_own)
            share = turned / xp.maximum(before_size, xp.full_like(size, 1e-300))
            share = xp.maximum(share, xp.zeros_like(share))
            downhill = share * slope.along(rows, before_psi, before_a) < size
            share = xp.where(downhill, share, xp.zeros_like(share))
            psi, a = psi + share * before_psi, a + share * before_a
        self._last = (z, z_own, size, psi, a)
        self._go(Point.of(rows, psi, a), size, tolerance)

    def _go(self, step: Point, size: Float[Array, " m"], tolerance: float) -> None:
        """Go to the lowest point of F⁺ along a step; `size` is minus the slope at its start."""
        rows, base, point = self.rows, self.rows.base, self.point
        xp, loss, weights = namespace(size), base.loss, base.weights[:, None, None]
        ridge, out = base.inverse.coordinates.ridge[:, None, None], each(rows.S, step.a)
        bend = dot(ridge * step.psi, step.psi) + base.rho * dot(step.a, out)
        pull = dot(ridge * point.psi, step.psi) + base.rho * dot(point.a, out)
        pull = pull - dot(weights * base.targets[:, :, None], step.f)
        pull = pull - dot(base.lifted(rows.pulls), step.own)

        def slope_at(length: Array) -> tuple[Array, tuple[Array, ...]]:
            f, own = point.f + length * step.f, point.own + length * step.own
            law, own_law = base.law(f), loss.law(own)
            slope = pull + length * bend + dot(weights * law, step.f)
            return slope + dot(rows.weights * own_law, step.own), (law, own_law, f, own)

        def bent(seen: tuple[Array, ...]) -> Float[Array, " m"]:
            second = bend + dot(weights * loss.bent(seen[0], step.f), step.f)
            second = second + dot(rows.weights * loss.bent(seen[1], step.own), step.own)
            return xp.maximum(second, xp.full_like(second, 1e-300))

        # Not below rounding, or converged models delay the others.
        enough = tolerance * size + 1e-13 * xp.abs(pull)
        length, seen = line_search(size / bent(self.laws), slope_at, bent, enough, LOOKS)
        law, own_law, f, own = seen
        self.laws = law, own_law
        self.point = Point(point.psi + length * step.psi, point.a + length * step.a, f, own)

    def only(self, left: NDArray[Any], slope: Slope) -> Slope:
        """Forget the models that are not at `left`; return the gradient of the others."""
        index, take = like(left, slope.g), namespace(slope.g).take
        point, (law, own_law), last, rest = (
            tuple(take(x, index, axis=x.ndim - 1) for x in arrays)
            for arrays in (self.point, self.laws, self._last, slope)
        )
        self.rows, self.point, self._last = self.rows.only(left), Point(*point), last
        self.laws, self.bend = (law, own_law), take(self.bend, index, axis=0)
        return Slope(*rest)


def descend(
    rows: AddedRows,
    psi: Float[Array, "q c m"],
    a: Float[Array, "b c m"],
    *,
    steps: int,
    target: NDArray[Any],
) -> tuple[Array, Array, NDArray[Any]]:
    """Return Ψ, a and the last decrements √(gᵀ(𝓗₀ ⊕ ρ)⁻¹g); models stop at their `target`."""
    walk = Walk(rows, psi, a)
    decrement = np.full(psi.shape[2], np.inf)
    active = np.arange(psi.shape[2])
    for step in range(steps + 1):
        slope = walk.slope()
        squared = to_numpy(slope.along(walk.rows, slope.raised, slope.own))
        decrement[active] = np.sqrt(np.maximum(squared, 0.0))
        keep = decrement[active] > target[active]
        last = step == steps or not keep.any()
        # Dropping a few models costs a copy of everything: wait for a quarter.
        if last or keep.mean() <= 0.75:
            psi = put_at(psi, active, walk.point.psi, axis=2)
            a = put_at(a, active, walk.point.a, axis=2)
            if last:
                break
            # Of several groups, all models of those with one to keep.
            groups = walk.rows.Z.shape[0]
            if groups > 1:
                keep = np.repeat(keep.reshape(groups, -1).any(axis=1), len(keep) // groups)
            left = np.flatnonzero(keep)
            active = active[left]
            slope = walk.only(left, slope)
        walk.step(slope, ROUGH)
    return psi, a, decrement


def first_decrement(rows: AddedRows) -> NDArray[Any]:
    """Return the decrement of every model at the old optimum, with residuals of 1e-6 at least."""
    base = rows.base
    alpha = rows.weights * base.lowered(base.loss.law(base.lifted(rows.logits_before())))
    alpha = alpha - rows.pulls
    squares = []
    for residual in (alpha, 1e-6 * rows.targets):
        own = dot(residual, each(rows.S, residual)) / base.rho
        inside = dot(rows.pull(residual), each(rows.U, residual))
        squares.append(to_numpy(inside + own))
    first: NDArray[Any] = np.sqrt(np.maximum(np.maximum(*squares), 0.0))
    return first


def dot(a: Array, b: Array) -> Float[Array, " m"]:
    """Return the sum of products over all but the model axis."""
    if isinstance(b, np.ndarray):
        total: Array = np.einsum("xym,xym->m", a, b)
        return total
    return namespace(b).sum(a * b, axis=(0, 1))
