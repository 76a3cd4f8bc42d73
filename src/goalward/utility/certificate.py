"""Proven bounds of the distance of a moved model's goal from its value at the model's optimum.

S is the model, S* the optimum of its objective F⁺, g = ∇F⁺(S), z = P⁻¹g with the P of `descent`,
and H = ∇²F⁺(S).

1. H ⪰ c P. A row's curvature is a variance, which shrinks by at most min_k p_k(now)/p_k(before);
   penalty and added row are the same in both. c is the least of these numbers.
2. Self-concordance: with κ the largest range of a row's logits per unit of ‖·‖_P, ν = ‖g‖_P⁻¹ and
   t = κν/c < 1, the optimum lies within R = -log(1 - t).
3. e = S* - S + z has ‖e‖_H ≤ (ψ ‖z‖_H + ‖g - Hz‖_H⁻¹)/φ, where φ = (1 - e^-R)/R and
   ψ = (e^R - 1)/R - 1 bound the mean curvature on the way by that at S.
4. |τ(S*) - τ(S)| ≤ |τ(S - z) - τ(S)| + ‖∇τ(S - z)‖_P⁻¹ ‖e‖_P + ½ b ‖e‖²_P, b the largest
   curvature of the goal.

The bound is infinite where t ≥ 1, and for goals whose kernel has no `bend_bound`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array, namespace, to_numpy
from goalward.solvers.inverse import shrunk
from goalward.utility.descent import Point, Slope, Walk
from goalward.utility.neighbours import AddedRows, Neighbours, each, times
from goalward.utility.utility import ROUNDING


@dataclass(frozen=True)
class Certificate:
    """κ of the labelled rows, and the curvature bounds of the goal: by term, and b inside."""

    neighbours: Neighbours
    reach: float
    bends: list[Float[Array, " _"]] | None
    inside: float

    @classmethod
    def of(cls, neighbours: Neighbours) -> Certificate:
        base, coordinates = neighbours.base, neighbours.goal_coordinates
        matrix, c = base.inverse.matrix, base.start.shape[1]
        reach = float(np.sqrt(_ranges(base.inverse.form(matrix, base.B), base.Q).max()))
        bounds = [getattr(term.kernel, "bend_bound", None) for term in neighbours.terms]
        if None in bounds:
            return cls(neighbours, reach, None, np.inf)
        bends = [
            abs(term.weight) * term.kernel.bend_bound(Z.shape[0], base.Q.shape[0], Z)  # type: ignore[attr-defined]
            for term, Z in zip(neighbours.terms, coordinates, strict=True)
        ]
        # The largest eigenvalue of Σ 2βJᵀJ in the metric of 𝓗₀: the squared range of a vector is at
        # most twice its squared length.
        pairs = zip(coordinates, bends, strict=True)
        gram: Any = sum(2.0 * to_numpy((Z * beta[:, None]).T @ Z) for Z, beta in pairs)
        root = np.linalg.cholesky(to_numpy(matrix))
        largest = np.linalg.eigvalsh(root.T @ np.kron(gram, np.eye(c)) @ root)[-1]
        return cls(neighbours, reach, bends, float(largest))

    def __call__(
        self, added: AddedRows, psi: Array, a: Array, before: NDArray[Any]
    ) -> NDArray[Any]:
        """Return bounds of |τ(S*) - τ(S)| of every model; `before` is the goal's change at S."""
        if self.bends is None:
            return np.full(psi.shape[2], np.inf)
        walk = Walk(added, psi, a)
        slope = walk.slope()
        z, z_own = slope.preconditioned(added, walk.bend)
        left, size = self._left(walk, slope, z, z_own)
        after, steep, outside = self._goal(walk, psi - z, a - z_own)
        bound = np.abs(after - before) + steep * left
        bound = bound + 0.5 * (self.inside + outside) * left * left
        scale = ROUNDING * (np.abs(before) + steep * size)
        scale = scale + 1e-13 * abs(self.neighbours.before)
        return np.where(np.isfinite(left), bound + scale, np.inf)

    def _left(
        self, walk: Walk, slope: Slope, z: Array, z_own: Array
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return a bound of ‖e‖_P, infinite where there is none, and ν."""
        rows, base, (law, own_law) = walk.rows, walk.rows.base, walk.laws
        loss, step = base.loss, Point.of(rows, z, z_own)
        squared = to_numpy(slope.along(rows, z, z_own))
        nu = np.sqrt(np.maximum(squared, 0.0))
        pulled = base.weights[:, None, None] * loss.bent(law, step.f)
        own = rows.weights * base.lowered(loss.bent(own_law, step.own))
        inside = base.lowered(times(base.B.T, pulled)) + rows.pull(own)
        g = slope.g - inside - base.inverse.coordinates.ridge[:, None, None] * z
        rest = Slope.of(rows, g, slope.own - own / base.rho - z_own)
        bent = to_numpy(rest.along(rows, z, z_own))
        in_H = np.sqrt(np.maximum(squared - bent, 0.0))
        law_before = base.law(times(base.B, base.lifted(base.start[:, :, None])))
        c = np.minimum(1.0, to_numpy(loss.least_ratio(law, law_before)))
        # κ of each model's own row: of its leverage once its curvature is counted.
        D = loss.law_blocks(own_law)[0, ...] * rows.weights[0, 0, :][:, None, None]
        M = namespace(D).repeat(rows.leverage, D.shape[0] // rows.leverage.shape[0], axis=0)
        reach = np.maximum(self.reach, np.sqrt(_ranges(shrunk(M, D), base.Q)))
        with np.errstate(all="ignore"):
            t = reach * nu / c
            R = np.maximum(-np.log1p(-t), 1e-8)
            phi, psi = -np.expm1(-R) / R, np.expm1(R) / R - 1.0
            left = (psi * in_H + _norm(rest, walk) / np.sqrt(c)) / phi / np.sqrt(c)
        return np.where(t < 1.0 - 1e-9, left, np.inf), nu

    def _goal(
        self, walk: Walk, psi: Array, a: Array
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return the change of τ in every model, ‖∇τ‖_P⁻¹, and b along each row's own direction."""
        assert self.bends is not None
        added, base = walk.rows, walk.rows.base
        xp, groups = namespace(psi), added.S.shape[0]
        inside, own = xp.zeros_like(psi), xp.zeros_like(a)
        change: Any = -self.neighbours.before
        outside = np.zeros(groups)
        squares = added.S[:, 0, 0]
        terms = self.neighbours.goal_logits(added, psi, a)
        for (term, Z_goal, logits, E), bend in zip(terms, self.bends, strict=True):
            change = change + term.weight * term.kernel.value(logits)
            u = term.weight * term.kernel.cotangent(logits)
            u = xp.permute_dims(u @ base.Q, (1, 2, 0))
            inside = inside + times(Z_goal.T, u)
            if E is not None:
                own = own + each(xp.permute_dims(E, (0, 2, 1)), u)
                weighted = np.sum(2.0 * to_numpy(bend) * to_numpy(E)[:, :, 0] ** 2, axis=1)
                outside += weighted / np.maximum(base.rho * to_numpy(squares), 1e-12)
        # In the units of a slope: the own direction's metric is ρ S.
        n_labels = psi.shape[2] // groups
        squares = xp.repeat(squares, n_labels, axis=0)
        tiny = xp.full_like(squares, 1e-12)
        own = xp.where(squares > tiny, own / (base.rho * xp.maximum(squares, tiny)), 0.0 * own)
        steep = _norm(Slope.of(added, inside, own), walk)
        return to_numpy(change), steep, np.repeat(outside, n_labels)


def _norm(slope: Slope, walk: Walk) -> Float[NDArray[Any], " m"]:
    """Return ‖·‖_P⁻¹ of a gradient."""
    squared = slope.along(walk.rows, *slope.preconditioned(walk.rows, walk.bend))
    norm: NDArray[Any] = np.sqrt(np.maximum(to_numpy(squared), 0.0))
    return norm


def _ranges(M: Float[Array, "n c c"], Q: Float[Array, "k c"]) -> NDArray[Any]:
    """Return the largest variance of a difference of two logits, row by row."""
    full = to_numpy(namespace(M).matmul(namespace(M).matmul(Q, M), Q.T))
    own = np.diagonal(full, axis1=1, axis2=2)
    ranges: NDArray[Any] = (own[:, :, None] + own[:, None, :] - 2.0 * full).max(axis=(1, 2))
    return ranges
