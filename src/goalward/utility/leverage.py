"""M and N of every row by matrix products: how rows move themselves, and the goal twice.

With y = 𝓗⁻¹J_xᵀ, in the K-1 contrasts and the coordinates of `Span`:

    M = J_x y                                    the row's leverage
    N = yᵀ (J_gᵀ W J_g + J_lᵀ T J_l) y            the goal's curvature along the row's step

W is the goal's curvature in logits, row by row (what couples rows is in `coupled`), T the third derivative of the labelled rows' loss along v:
T = w (diag(q) - q pᵀ - p qᵀ) with q = Λ s_l, s_l = J_l v. Both M and N are quadratic forms in the
row's coordinates, so a pool costs one product with a matrix made once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from jaxtyping import Float

from goalward.core.arrays import Array, Rows, astype, dense, namespace, rows_at, scale_rows
from goalward.solvers.cholesky import dense_curvature
from goalward.solvers.quadratic import numbers_per_row, quadratic
from goalward.utility.coupled import row_curvature
from goalward.utility.family import Family

__all__ = ["Curvatures", "goal_blocks", "rows_at_once", "third_blocks"]

LARGEST = 2**23
"""Numbers in one array of a block: 64 MB."""

WIDEST = 4096
"""Features up to which a d x d matrix is made for two classes."""


def rows_at_once(q: int, c: int) -> int:
    """Return the rows whose quadratic forms fit a block."""
    return max(1, LARGEST // numbers_per_row(q, c))


def goal_blocks(family: Family, index: int) -> Float[Array, "m c c"]:
    """Return QᵀWQ for every row of one term of the goal, weighted."""
    term, Z = family.terms[index], family.goal_coordinates[index]
    Q = family.base.Q
    xp = namespace(Z)
    logits = Z @ family.base.start @ Q.T
    bent = row_curvature(term.kernel, logits, xp.broadcast_to(Q[:, 0], logits.shape))
    columns = [bent(logits, xp.broadcast_to(Q[:, a], logits.shape)) @ Q for a in range(Q.shape[1])]
    return term.weight * xp.stack(columns, axis=2)


def third_blocks(family: Family, v: Float[Array, "p k"]) -> Float[Array, "n c c"]:
    """Return QᵀTQ for every labelled row."""
    fitted, Q = family.fitted, family.base.Q
    hessian = fitted.hessian
    xp = namespace(v)
    p = hessian.proba
    motion = fitted.linear("ImplicitStep").jvp(hessian.X, v)
    q = hessian.weights[:, None] * fitted.loss.curvature(p, motion)
    K, c = Q.shape
    pairs = xp.reshape(Q[:, :, None] * Q[:, None, :], (K, c * c))
    along, mean = q @ Q, p @ Q
    cross = along[:, :, None] * mean[:, None, :]
    return xp.reshape(q @ pairs, (-1, c, c)) - cross - xp.permute_dims(cross, (0, 2, 1))


@dataclass(frozen=True)
class Curvatures:
    """M and N of a family, ready for rows.

    Parameters
    ----------
    inside
        (q, c, q, c): 𝓗⁻¹ S 𝓗⁻¹ in the coordinates, S the curvature of goal and labelled rows.
    third
        The part of it that is the labelled rows'.
    blocks
        QᵀWQ of the goal's rows, by term, for what lies outside the span; none where the goal is
        evaluated instead.
    """

    family: Family
    inside: Float[Array, "q c q c"] = field(repr=False)
    third: Float[Array, "q c q c"] = field(repr=False)
    blocks: list[Float[Array, "_ c c"]] = field(repr=False)

    @classmethod
    def of(cls, family: Family, v: Float[Array, "p k"], *, goal: bool = True) -> Curvatures:
        """Return the curvatures of a family along the goal's direction v.

        With goal=False those of the labelled rows alone.
        """
        base = family.base
        xp = namespace(v)
        q, c = base.start.shape
        none = xp.zeros_like(base.ridge)
        inverse = xp.reshape(base.inverse, (q * c, q * c))
        third = dense_curvature(base.B, third_blocks(family, v), none)
        blocks = [goal_blocks(family, i) for i in range(len(family.terms))] if goal else []
        own = sum(
            dense_curvature(Z, W, none)
            for Z, W in zip(family.goal_coordinates, blocks, strict=goal)
        )
        shape = (q, c, q, c)
        return cls(
            family,
            xp.reshape(inverse @ (third + own) @ inverse, shape),
            xp.reshape(inverse @ third @ inverse, shape),
            blocks,
        )

    def leverage(self, rows: Rows, Z: Float[Array, "n q"]) -> Float[Array, "n c c"]:
        """Return M of every row."""
        base, span = self.family.base, self.family.span
        M = quadratic(Z, base.inverse)
        if span.basis is None:
            return M
        xp = namespace(Z)
        eye = xp.eye(M.shape[1], dtype=Z.dtype, device=Z.device)
        return M + (span.squared_outside(rows, Z) / base.rho)[:, None, None] * eye

    def bend(self, rows: Rows, Z: Float[Array, "n q"]) -> Float[Array, "n c c"]:
        """Return N of every row."""
        N = quadratic(Z, self.inside)
        if self.family.span.basis is None:
            return N
        if self._link is not None:
            return N + self._outside_binary(rows, Z, self._link)
        for term, Z_goal, W in zip(
            self.family.terms, self.family.goal_coordinates, self.blocks, strict=True
        ):
            N = N + self._outside(rows, Z, term.X, Z_goal, W)
        return N

    def _outside(
        self, rows: Rows, Z: Array, X_goal: Rows, Z_goal: Array, W: Float[Array, "m c c"]
    ) -> Float[Array, "n c c"]:
        """Return what the goal's rows add outside the span, by their products with the rows.

        A goal row moves by G = z_gᵀ𝓗⁻¹z + (e/ρ) I with e its product with the row outside:
        GᵀWG less the inside part is (e/ρ)(W G₀ + G₀ᵀ W) + (e/ρ)² W, summed over goal rows.
        """
        base, span = self.family.base, self.family.span
        xp = namespace(Z)
        (n, q), c = Z.shape, W.shape[1]
        square: Any = 0.0
        first: Any = 0.0
        step = max(1, LARGEST // (c * c * q))
        for start in range(0, W.shape[0], step):
            part = slice(start, min(start + step, W.shape[0]))
            W_part, Z_part = W[part, :, :], Z_goal[part, :]
            E = span.outside(rows, Z, rows_at(X_goal, part), Z_part)
            assert E is not None
            E = E / base.rho
            square = square + (E * E) @ xp.reshape(W_part, (-1, c * c))
            # Σ_g e W_g ⊗ z_g, to meet 𝓗⁻¹z below.
            weighted = W_part[:, :, :, None] * Z_part[:, None, None, :]
            first = first + E @ xp.reshape(weighted, (-1, c * c * q))
        y = xp.reshape(xp.permute_dims(base.inverse, (2, 1, 0, 3)), (q, c * q * c))
        moved = xp.reshape(Z @ y, (n, c * q, c))
        cross = xp.matmul(xp.reshape(first, (n, c, c * q)), moved)
        return xp.reshape(square, (n, c, c)) + cross + xp.permute_dims(cross, (0, 2, 1))

    @cached_property
    def _link(self) -> Float[Array, "d dq"] | None:
        """For two classes: what turns a row into its part of N outside the span, made once.

        [(I - EEᵀ) Σ w gᵀg (I - EEᵀ)/ρ² | (2/ρ)(I - EEᵀ) Σ w g z_gᵀ 𝓗⁻¹], E the span: the cost of a
        pool does not grow with rows times goal rows then. Single precision is enough for a
        second-order term, and twice as fast.
        """
        base, span = self.family.base, self.family.span
        if base.start.shape[1] > 1 or span.basis is None or span.X.shape[1] > WIDEST:
            return None
        xp = namespace(base.start)
        E = dense(span.X.T @ span.basis)
        spread: Any = 0.0
        link: Any = 0.0
        for term, Z_goal, W in zip(
            self.family.terms, self.family.goal_coordinates, self.blocks, strict=True
        ):
            w = W[:, 0, 0]
            spread = spread + dense(term.X.T @ scale_rows(term.X, w))
            link = link + dense(term.X.T @ (w[:, None] * Z_goal))
        left = spread - E @ (E.T @ spread)
        outer = (left - (left @ E) @ E.T) / base.rho**2
        link = (link - E @ (E.T @ link)) @ base.inverse[:, 0, :, 0] * (2.0 / base.rho)
        return astype(xp.concat([outer, link], axis=1), xp.float32)

    def _outside_binary(
        self, rows: Rows, Z: Array, link: Float[Array, "d dq"]
    ) -> Float[Array, "n 1 1"]:
        """Return the rows' part of N outside the span, in single precision.

        What lies in the span, a common offset above all, is taken off in double precision first:
        it would drown the rest.
        """
        xp = namespace(Z)
        span = self.family.span
        assert span.basis is not None
        inside = span.weights(Z) @ (dense(span.X.T @ span.basis)).T
        plain = astype(dense(rows) - inside, xp.float32)
        product = plain @ link
        d = link.shape[0]
        own = xp.sum(product[:, :d] * plain, axis=1)
        cross = xp.sum(product[:, d:] * astype(Z, xp.float32), axis=1)
        return astype(own + cross, Z.dtype)[:, None, None]
