"""Goals whose rows depend on one another, to second order: what the rows share, pulled to a row.

The goal's curvature is W = W_rows + Σ_ij C_ij z_i z_jᵀ. The first part is a block for each goal
row. The second adds Σ_ij C_ij y_i y_jᵀ to N, with y_i = J_x 𝓗⁻¹ J_gᵀ z_i: how the row's logits
move along 𝓗⁻¹ J_gᵀ z_i, a direction like the goal's own, solved for once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from goalward.core.arrays import Array, Rows, like, namespace
from goalward.errors import Unsupported
from goalward.goals import Coupled, Kernel
from goalward.models import Linear
from goalward.solvers import Solve
from goalward.utility.family import Family

__all__ = ["RowCoupling", "couplings_of", "row_curvature"]

LEAK = 1e-3
"""Share of a curvature that other rows may have before a goal counts as coupled; second
differences of a goal of the user's own are noisy to about 1e-5."""


def row_curvature(
    kernel: Kernel, logits: Float[Array, "m k"], probe: Float[Array, "m k"]
) -> Callable[[Array, Array], Array]:
    """Return W_rows of a kernel; refuse one that couples rows and does not say how.

    Rows that do not depend on one another bend alike when some of the motions are reversed.
    """
    if isinstance(kernel, Coupled):
        return kernel.own
    xp = namespace(logits)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(logits.shape[0], 1))
    sign = like(signs, logits, dtype=logits.dtype)
    together = kernel.curvature(logits, probe)
    leak = xp.max(xp.abs(kernel.curvature(logits, sign * probe) - sign * together))
    if float(leak) > LEAK * float(xp.max(xp.abs(together))):
        raise Unsupported(
            f"The goal's rows depend on one another ({type(kernel).__name__}), and ImplicitStep() "
            "takes its curvature row by row. Use ImplicitStep(exact_goal=True), FirstOrder() or "
            "Retrain(), or give the kernel the methods of goals.Coupled."
        )
    return kernel.curvature


@dataclass(frozen=True)
class RowCoupling:
    """What one term of the goal adds to N because its rows are coupled.

    Parameters
    ----------
    directions
        𝓗⁻¹ J_gᵀ z_i side by side, each in the K-1 contrasts.
    middle
        C, times the term's weight.
    """

    directions: Float[Array, "p rc"] = field(repr=False)
    middle: Float[Array, "r r"] = field(repr=False)

    def bend(self, model: Linear, rows: Rows) -> Float[Array, "n c c"]:
        """Return Σ_ij C_ij y_i y_jᵀ of every row."""
        xp = namespace(self.middle)
        moved = model.jvp(rows, self.directions)
        y = xp.reshape(moved, (moved.shape[0], self.middle.shape[0], -1))
        return xp.matmul(xp.permute_dims(y, (0, 2, 1)), xp.matmul(self.middle, y))


def couplings_of(family: Family, solve: Solve) -> list[RowCoupling]:
    """Return the couplings of the goal's terms that have any."""
    fitted, Q = family.fitted, family.base.Q
    model = fitted.linear("ImplicitStep")
    found = []
    for term in family.terms:
        if not isinstance(term.kernel, Coupled):
            continue
        xp = namespace(Q)
        vectors, middle = term.kernel.coupling(fitted.logits_of(term.X))
        pulled = [model.vjp(term.X, vectors[i, :, :]) for i in range(vectors.shape[0])]
        directions = xp.concat([solve(g).value @ Q for g in pulled], axis=1)
        found.append(RowCoupling(directions, term.weight * middle))
    return found
