"""How far a moved model can still be from its optimum, and the goal from its value there: proven.

S is where a model stands, S* the optimum of its objective F⁺, g = ∇F⁺(S), z = P⁻¹g with the P of
`descent`, and the norms are those of P and of H = ∇²F⁺(S). Four facts make a bound of the goal:

1. H ⪰ c P. A row's curvature is a variance, which shrinks by at most min_k p_k(now)/p_k(before); the
   penalty and the added row's curvature are the same in both. c is the least of these numbers.
2. Along a line the curvature of a row changes by at most e^R, R the range of its logits' motion
   (self-concordance: a third moment is at most the range times the variance). With κ the largest
   range of a labelled or added row's logits per unit of ‖·‖_P, ν = ‖g‖_P⁻¹ and t = κν/c < 1, the
   optimum lies within R = -log(1 - t). This holds for free intercepts too: no penalty is needed.
3. What is left after z is e = S* - S + z, and ‖e‖_H ≤ (ψ ‖z‖_H + ‖g - Hz‖_H⁻¹)/φ, where φ = (1 - e^-R)/R
   and ψ = (e^R - 1)/R - 1 bound the mean curvature on the way by that at S. g - Hz is computed.
4. The goal: |τ(S*) - τ(S)| ≤ |τ(S - z) - τ(S)| + ‖∇τ(S - z)‖_P⁻¹ ‖e‖_P + ½ b ‖e‖²_P, b the most that the
   goal bends. Both values and the gradient are computed.

There is no certificate (the bound is infinite) where t ≥ 1, the model being too far from its optimum
for fact 2, and for goals whose kernel does not say how much it bends (`bend_bound`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array, Rows, namespace, to_numpy
from goalward.utility.added_rows import Singles, times
from goalward.utility.descent import Point, Slope, Walk
from goalward.utility.neighbours import Neighbours

__all__ = ["Certificate"]

ROUNDING = 1e-9
"""Share of a utility that rounding may take: the optimum before is known to 1e-10."""


@dataclass(frozen=True)
class Certificate:
    """What the certificates of all neighbours of a model share.

    Parameters
    ----------
    reach
        κ of the labelled rows.
    bends
        For each term of the goal, how much each of its rows bends at most, per squared range; None
        where its kernel does not say.
    inside
        b of motions inside the coordinates.
    """

    neighbours: Neighbours
    reach: float
    bends: list[Float[Array, " _"]] | None
    inside: float

    @classmethod
    def of(cls, neighbours: Neighbours) -> Certificate:
        """Return what is known before a row is looked at."""
        base = neighbours.base
        matrix = base.inverse.matrix
        reach = float(np.sqrt(_ranges(base.inverse.form(matrix, base.B), base.Q).max()))
        bends: list[Array] | None = []
        for term, Z in zip(neighbours.terms, neighbours.goal_coordinates, strict=True):
            bound = getattr(term.kernel, "bend_bound", None)
            if bound is None or bends is None:
                bends = None
                continue
            bends.append(abs(term.weight) * bound(Z.shape[0], base.Q.shape[0], Z))
        inside = 0.0 if bends is None else _largest(neighbours, bends)
        return cls(neighbours, reach, bends, inside)

    def __call__(
        self,
        added: Singles,
        psi: Array,
        a: Array,
        rows: Rows,
        Z: Float[Array, "n q"],
        before: NDArray[Any],
    ) -> NDArray[Any]:
        """Return how far the goal of every model can be from its value at the model's optimum.

        `before` is the change of the goal where the models are.
        """
        base = self.neighbours.base
        if self.bends is None:
            return np.full(psi.shape[2], np.inf)
        walk = Walk(base, added, Point.of(base, added, psi, a))
        slope = walk.slope()
        z, z_own = slope.preconditioned(base, added, walk.bend)
        left, size = self._left(walk, slope, z, z_own)
        after, pull = self._goal(added, psi - z, a - z_own, rows, Z)
        steep = to_numpy(_norm(pull, walk))
        outside = self._outside(added, rows, Z)
        bound = np.abs(to_numpy(after) - before) + steep * left
        bound = bound + 0.5 * (self.inside + outside) * left * left
        scale = ROUNDING * (np.abs(before) + steep * size)
        scale = scale + 1e-13 * abs(self.neighbours.before)
        return np.where(np.isfinite(left), bound + scale, np.inf)

    def _left(
        self, walk: Walk, slope: Slope, z: Array, z_own: Array
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return a bound of ‖e‖_P, infinite where there is none, and ν."""
        base, rows, (law, own_law) = walk.base, walk.rows, walk.laws
        squared = to_numpy(slope.along(base, rows, z, z_own))
        nu = np.sqrt(np.maximum(squared, 0.0))
        step = Point.of(base, rows, z, z_own)
        pulled = base.weights[:, None, None] * base.loss.bent(law, step.f)
        own = rows.weights * base.lowered(base.loss.bent(own_law, step.own))
        inside = base.lowered(times(base.B.T, pulled)) + rows.pull(own)
        g = slope.g - inside - base.coordinates.ridge[:, None, None] * z
        rest = Slope(g, slope.own - own / base.rho - z_own, base.raised(g), slope.decrement)
        bent = to_numpy(rest.along(base, rows, z, z_own))
        in_H = np.sqrt(np.maximum(squared - bent, 0.0))
        c = np.minimum(1.0, to_numpy(base.loss.least_ratio(law, base.law)))
        reach = np.maximum(self.reach, self._own_reach(walk))
        with np.errstate(all="ignore"):
            t = reach * nu / c
            R = np.maximum(-np.log1p(-t), 1e-8)
            phi, psi = -np.expm1(-R) / R, np.expm1(R) / R - 1.0
            left = (psi * in_H + to_numpy(_norm(rest, walk)) / np.sqrt(c)) / phi / np.sqrt(c)
        return np.where(t < 1.0 - 1e-9, left, np.inf), nu

    def _own_reach(self, walk: Walk) -> NDArray[Any]:
        """Return κ of each model's own row: of its leverage once its curvature is counted."""
        base, rows = walk.base, walk.rows
        assert isinstance(rows, Singles)
        xp = namespace(rows.leverage)
        n_labels = rows.targets.shape[2] // rows.leverage.shape[0]
        D = base.loss.law_blocks(walk.laws[1])[0, ...] * rows.weights[0, 0, :][:, None, None]
        M = xp.repeat(rows.leverage, n_labels, axis=0)
        eye = xp.eye(M.shape[1], dtype=M.dtype, device=M.device)
        reach: NDArray[Any] = np.sqrt(_ranges(xp.linalg.solve(eye + xp.matmul(M, D), M), base.Q))
        return reach

    def _goal(
        self, added: Singles, psi: Array, a: Array, rows: Rows, Z: Float[Array, "n q"]
    ) -> tuple[Float[Array, " m"], Slope]:
        """Return the change of τ in every model, and ∇τ there: inside, and along its row's own way."""
        base = self.neighbours.base
        xp = namespace(psi)
        inside, own = xp.zeros_like(psi), xp.zeros_like(a)
        change: Any = -self.neighbours.before
        for term, Z_goal, logits, E in self.neighbours.goal_logits(psi, a, rows, Z):
            change = change + term.weight * term.kernel.value(logits)
            u = term.weight * term.kernel.cotangent(logits)
            u = xp.permute_dims(u @ base.Q, (1, 2, 0))
            inside = inside + times(Z_goal.T, u)
            if E is not None:
                by_row = xp.reshape(u, (*u.shape[:2], E.shape[1], -1))
                own = own + xp.reshape(xp.sum(E[:, None, :, None] * by_row, axis=0), own.shape)
        # In the units of a slope: the own direction's metric is ρ S.
        squares = xp.repeat(added.S, own.shape[2] // added.S.shape[0], axis=0)
        tiny = xp.full_like(squares, 1e-12)
        own = xp.where(squares > tiny, own / (base.rho * xp.maximum(squares, tiny)), 0.0 * own)
        return change, Slope(inside, own, base.raised(inside), xp.zeros_like(squares))

    def _outside(self, added: Singles, rows: Rows, Z: Float[Array, "n q"]) -> NDArray[Any]:
        """Return b of motions along each row's own direction."""
        base = self.neighbours.base
        assert self.bends is not None
        total = np.zeros(rows.shape[0])
        pairs = zip(
            self.neighbours.terms, self.neighbours.goal_coordinates, self.bends, strict=True
        )
        for term, Z_goal, bend in pairs:
            E = base.coordinates.outside(term.X, Z_goal, rows, Z)
            if E is not None:
                weighted = np.sum(2.0 * to_numpy(bend)[:, None] * to_numpy(E) ** 2, axis=0)
                total += weighted / np.maximum(base.rho * to_numpy(added.S), 1e-12)
        return np.repeat(total, added.targets.shape[2] // len(total))


def _norm(slope: Slope, walk: Walk) -> Float[Array, " m"]:
    """Return ‖·‖_P⁻¹ of a gradient."""
    xp = namespace(slope.g)
    squared = slope.along(
        walk.base, walk.rows, *slope.preconditioned(walk.base, walk.rows, walk.bend)
    )
    return xp.sqrt(xp.maximum(squared, xp.zeros_like(squared)))


def _ranges(M: Float[Array, "n c c"], Q: Float[Array, "k c"]) -> NDArray[Any]:
    """Return the largest variance of a difference of two logits, row by row."""
    full = to_numpy(namespace(M).matmul(namespace(M).matmul(Q, M), Q.T))
    own = np.diagonal(full, axis1=1, axis2=2)
    found: NDArray[Any] = (own[:, :, None] + own[:, None, :] - 2.0 * full).max(axis=(1, 2))
    return found


def _largest(neighbours: Neighbours, bends: list[Array]) -> float:
    """Return b inside the coordinates: the largest eigenvalue of Σ 2βJᵀJ in the metric of 𝓗₀.

    The squared range of a vector is at most twice its squared length.
    """
    base = neighbours.base
    matrix = to_numpy(base.inverse.matrix)
    c = base.start.shape[1]
    pairs = zip(neighbours.goal_coordinates, bends, strict=True)
    gram: Any = sum(2.0 * to_numpy((Z * beta[:, None]).T @ Z) for Z, beta in pairs)
    root = np.linalg.cholesky(matrix)
    return float(np.linalg.eigvalsh(root.T @ np.kron(gram, np.eye(c)) @ root)[-1])
