"""Many models moved together towards their optima: conjugate directions, exact line searches.

F⁺, the objective with a row added, is convex, and the model with the row lies near the one without.
From a first guess each step takes the gradient g of F⁺, the direction

    z = P⁻¹ g,   P = 𝓗₀ ⊕ ρ + (added rows) D (added rows)ᵀ

with the inverse 𝓗₀⁻¹ that all models share and the added row's own curvature D where the model is
in its first steps, made conjugate to the last direction (Polak and Ribière), and goes along it to
the lowest point. Logits are linear in the parameters, so that is Newton's method in one unknown on
n x K numbers, and no product with the rows. Without it the steps overshoot where a label surprises,
and get worse.

In the coordinates of the inverse, a model is Ψ (q, c), c = K-1 contrasts, and a dual number a (b, c)
for the direction of its own that each added row brings. Writing z̃ for the added rows' coordinates, S
for what is outside (their Gram matrix there), r for residuals p - t:

    added logits   f = z̃Ψ + S a
    gradient       g = Bᵀ W r + z̃ᵀ α + ρ∘Ψ,   and (in the own directions)  α + ρ a

The corrected steps of `ImplicitStep` are the first of these steps, `Retrain` takes them to the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array, like, namespace, put_at, to_numpy
from goalward.utility.added_rows import Added, Base, times

LINE_STEPS = 8
FOLLOWED = 3
"""Steps in which P follows the added rows' curvature; after these it stays as it is."""
ROUGH, FINE = 0.1, 1e-2
"""Slope at which a line search ends, as a share of the slope that it began with: one of many steps
needs no better, one of a few does."""


@dataclass(frozen=True)
class Point:
    """Where M models are, or a step of theirs: Ψ and a, with the logits that follow from them.

    Logits of labelled and of added rows are in the loss's own columns.
    """

    psi: Float[Array, "q c m"]
    a: Float[Array, "b c m"]
    f: Float[Array, "n l m"]
    own: Float[Array, "b l m"]

    @classmethod
    def of(cls, base: Base, rows: Added, psi: Array, a: Array) -> Point:
        """Return the point with its logits."""
        return cls(psi, a, times(base.B, base.lifted(psi)), base.lifted(rows.logits(psi, a)))

    def only(self, index: Array) -> Point:
        """Return the models at `index`."""
        take = namespace(self.psi).take
        parts = (self.psi, self.a, self.f, self.own)
        return Point(*(take(part, index, axis=2) for part in parts))


@dataclass(frozen=True)
class Slope:
    """∇F⁺ of every model: inside, and along the added rows' own directions in units of ρ.

    Parameters
    ----------
    raised
        The gradient times (𝓗₀ ⊕ ρ)⁻¹, inside; outside it is `own` itself.
    decrement
        √(gᵀ(𝓗₀ ⊕ ρ)⁻¹g): how far the gradient still moves the model, in the norm of 𝓗₀.
    """

    g: Float[Array, "q c m"]
    own: Float[Array, "b c m"]
    raised: Float[Array, "q c m"]
    decrement: Float[Array, " m"]

    @classmethod
    def at(cls, base: Base, rows: Added, point: Point, law: Array, own_law: Array) -> Slope:
        """Return the gradient at a point where the rows' laws are known."""
        xp = namespace(point.psi)
        r = base.weights[:, None, None] * (law - base.lifted_targets[:, :, None])
        pulled = base.lowered(times(base.B.T, r))
        alpha = rows.weights * base.lowered(own_law) - rows.pulls
        g = pulled + rows.pull(alpha) + base.coordinates.ridge[:, None, None] * point.psi
        own = alpha / base.rho + point.a
        raised = base.raised(g)
        squared = dot(g, raised) + base.rho * dot(own, rows.outside(own))
        return cls(g, own, raised, xp.sqrt(xp.maximum(squared, xp.zeros_like(squared))))

    def along(self, base: Base, rows: Added, psi: Array, a: Array) -> Float[Array, " m"]:
        """Return ⟨g, step⟩ of every model."""
        return dot(self.g, psi) + base.rho * dot(self.own, rows.outside(a))

    def preconditioned(self, base: Base, rows: Added, bend: Array) -> tuple[Array, Array]:
        """Return P⁻¹g: with the shared inverse, and the added rows' curvature by Woodbury."""
        y = rows.curved(bend, rows.logits(self.raised, self.own))
        return self.raised - rows.inverse_pull(y), self.own - y / base.rho

    def only(self, index: Array) -> Slope:
        """Return the models at `index`."""
        take = namespace(self.g).take
        parts = (self.g, self.own, self.raised, self.decrement)
        return Slope(*(take(part, index, axis=part.ndim - 1) for part in parts))


def descend(
    base: Base,
    rows: Added,
    psi: Float[Array, "q c m"],
    a: Float[Array, "b c m"],
    *,
    steps: int,
    target: NDArray[Any],
) -> tuple[Array, Array, NDArray[Any]]:
    """Return Ψ and a of the models after so many steps, and the decrement each was last seen with.

    Parameters
    ----------
    target
        (M,) decrements at which a model is done and leaves.
    """
    walk = Walk(base, rows, Point.of(base, rows, psi, a))
    decrement = np.full(psi.shape[2], np.inf)
    active = np.arange(psi.shape[2])
    for step in range(steps + 1):
        slope = walk.slope()
        decrement[active] = to_numpy(slope.decrement)
        keep = decrement[active] > target[active]
        last = step == steps or not keep.any()
        # Dropping a few models costs a copy of everything: wait for a quarter.
        if last or keep.mean() <= 0.75:
            psi = put_at(psi, active, walk.point.psi, axis=2)
            a = put_at(a, active, walk.point.a, axis=2)
            if last:
                break
            left = walk.rows.surviving(keep)
            active = active[left]
            slope = walk.only(left, slope)
        walk.step(slope, ROUGH)
    return psi, a, decrement


class Walk:
    """Models on their way: where they are, the laws of the rows there, and the last step."""

    def __init__(self, base: Base, rows: Added, point: Point) -> None:
        self.base, self.rows, self.point = base, rows, point
        self.laws = base.law_at(point.f), base.loss.law(point.own)
        self.bend = rows.bend(base, self.laws[1])
        self._steps = 0
        self._last: tuple[Array, Array, Array, Point] | None = None

    def slope(self) -> Slope:
        """Return the gradient where the models are."""
        return Slope.at(self.base, self.rows, self.point, *self.laws)

    def step(self, slope: Slope, tolerance: float) -> None:
        """Go along the next direction to its lowest point."""
        base, rows = self.base, self.rows
        if 0 < self._steps < FOLLOWED:
            self.bend = rows.bend(base, self.laws[1])
        self._steps += 1
        z, z_own = slope.preconditioned(base, rows, self.bend)
        size = slope.along(base, rows, z, z_own)
        psi, a = -z, -z_own
        if self._last is not None:
            xp = namespace(psi)
            before, before_own, before_size, last = self._last
            turned = size - slope.along(base, rows, before, before_own)
            share = turned / xp.maximum(before_size, xp.full_like(size, 1e-300))
            share = xp.maximum(share, xp.zeros_like(share))
            downhill = share * slope.along(base, rows, last.psi, last.a) < size
            share = xp.where(downhill, share, xp.zeros_like(share))
            psi, a = psi + share * last.psi, a + share * last.a
        step = Point.of(base, rows, psi, a)
        self._last = (z, z_own, size, step)
        self.point, self.laws = lowest(base, rows, self.point, self.laws, step, size, tolerance)

    def only(self, left: NDArray[Any], slope: Slope) -> Slope:
        """Forget the models that are not at `left`; return the gradient of the others."""
        index = like(left, self.point.psi)
        take = namespace(index).take
        self.rows, self.point = self.rows.only(left), self.point.only(index)
        law, own_law = (take(x, index, axis=2) for x in self.laws)
        self.laws, self.bend = (law, own_law), take(self.bend, index, axis=0)
        if self._last is not None:
            z, z_own, size, step = self._last
            z, z_own = (take(x, index, axis=2) for x in (z, z_own))
            self._last = (z, z_own, take(size, index, axis=0), step.only(index))
        return slope.only(index)


def lowest(
    base: Base,
    rows: Added,
    point: Point,
    laws: tuple[Array, Array],
    step: Point,
    size: Float[Array, " m"],
    tolerance: float,
) -> tuple[Point, tuple[Array, Array]]:
    """Return the lowest point of F⁺ along a step, a length for every model, and the laws there.

    Newton's method within a bracket. The slope of a convex function only rises, so where it is below
    zero the lowest point lies ahead. `laws` hold at the start, and `size` is minus the slope there.
    """
    xp = namespace(point.psi)
    loss, weights = base.loss, base.weights[:, None, None]
    ridge, out = base.coordinates.ridge[:, None, None], rows.outside(step.a)
    bend = dot(ridge * step.psi, step.psi) + base.rho * dot(step.a, out)
    pull = dot(ridge * point.psi, step.psi) + base.rho * dot(point.a, out)
    pull = pull - dot(weights * base.lifted_targets[:, :, None], step.f)
    pull = pull - dot(base.lifted(rows.pulls), step.own)
    # Nor better than rounding: models that have arrived must not hold up the others.
    enough = tolerance * size + 1e-13 * xp.abs(pull)

    def bent(law: Array, own_law: Array) -> Float[Array, " m"]:
        second = bend + dot(weights * loss.bent(law, step.f), step.f)
        second = second + dot(rows.weights * loss.bent(own_law, step.own), step.own)
        return xp.maximum(second, xp.full_like(second, 1e-300))

    length = size / bent(*laws)
    low, high = xp.zeros_like(bend), xp.full_like(bend, float("inf"))
    for left in reversed(range(LINE_STEPS)):
        f, own = point.f + length * step.f, point.own + length * step.own
        law, own_law = base.law_at(f), loss.law(own)
        slope = pull + length * bend + dot(weights * law, step.f)
        slope = slope + dot(rows.weights * own_law, step.own)
        going = xp.abs(slope) > enough
        if left == 0 or not bool(xp.any(going)):
            break
        low, high = xp.where(slope < 0.0, length, low), xp.where(slope < 0.0, high, length)
        newton = length - slope / bent(law, own_law)
        middle = xp.where(xp.isfinite(high), 0.5 * (low + high), 2.0 * length)
        moved = xp.where((newton > low) & (newton < high), newton, middle)
        length = xp.where(going, moved, length)
    psi, a = point.psi + length * step.psi, point.a + length * step.a
    return Point(psi, a, f, own), (law, own_law)


def first_decrement(base: Base, rows: Added) -> NDArray[Any]:
    """Return the decrement of every model at the optimum before: what its added rows pull with.

    A label the model is certain of pulls with nothing, so residuals count as 1e-6 at least.
    """
    alpha = rows.weights * base.mean(rows.logits(*rows.unmoved(base))) - rows.pulls
    pulls = []
    for residual in (alpha, 1e-6 * rows.targets):
        own = dot(residual, rows.outside(residual)) / base.rho
        inside = dot(rows.pull(residual), rows.inverse_pull(residual))
        pulls.append(np.sqrt(np.maximum(to_numpy(inside + own), 0.0)))
    first: NDArray[Any] = np.maximum(*pulls)
    return first


def dot(a: Array, b: Array) -> Float[Array, " m"]:
    """Return the sum of products over all but the model axis."""
    if isinstance(b, np.ndarray):
        total: Array = np.einsum("xym,xym->m", a, b)
        return total
    return namespace(b).sum(a * b, axis=(0, 1))
