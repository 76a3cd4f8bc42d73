"""The curvature of a network's objective, by products alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from scipy.linalg import eigh_tridiagonal

from goalward.core.arrays import Array, like, norm, to_numpy

if TYPE_CHECKING:
    from goalward.models.objective import Objective

__all__ = ["GaussNewton", "smallest_eigenvalue"]


@dataclass(frozen=True, eq=False)
class GaussNewton:
    """𝓗 = Jᵀ Λ J + diag(ρ) + damping, with J at `params`; no entry of it is ever formed.

    Parameters
    ----------
    exact
        Add what Gauss-Newton leaves out, Σ (p - t) ∂²f: the Hessian itself, which is
        definite at a strict minimum only.
    """

    objective: Objective
    params: Float[Array, "p 1"]
    logits: Float[Array, "n k"]
    damping: float = 0.0
    exact: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """(P, 1): the shape of the vectors it multiplies."""
        return int(self.params.shape[0]), 1

    @property
    def penalty(self) -> Float[Array, " p"]:
        """ρ for each parameter."""
        return self.objective.penalty

    @property
    def linear(self) -> None:
        """Products are all that is known."""
        return

    def matvec(self, v: Float[Array, "p 1"]) -> Float[Array, "p 1"]:
        """Return 𝓗 v by one forward-mode and one reverse pass over the labelled rows."""
        F = self.objective
        X, weights = F.labelled.X, F.labelled.weights[:, None]
        model = F.model.at(self.params)
        ridge = (self.penalty[:, None] + self.damping) * v
        if self.exact:
            targets = F.labelled.targets

            def slope(logits: Array, rows: slice) -> Array:
                return weights[rows] * F.loss.slope(logits, targets[rows])

            return model.turning(X, slope, v) + ridge
        bent = weights * F.loss.curvature(F.loss.proba(self.logits), model.jvp(X, v))
        return model.vjp(X, bent) + ridge


def smallest_eigenvalue(hessian: Any, *, steps: int = 60, seed: int = 0) -> float:
    """Return the smallest eigenvalue of a symmetric product, as Lanczos sees it.

    It is never below the true one: a negative number proves negative curvature, a positive
    one says that `steps` products found none.
    """
    p, k = hessian.shape
    rng = np.random.default_rng(seed)
    q = rng.normal(size=p * k)
    basis = [q / np.linalg.norm(q)]
    diagonal: list[float] = []
    beside: list[float] = []
    for _ in range(min(steps, p * k)):
        v = like(basis[-1].reshape(p, k), hessian.penalty, dtype=hessian.penalty.dtype)
        r = to_numpy(hessian.matvec(v)).ravel().astype(np.float64)
        diagonal.append(float(r @ basis[-1]))
        B = np.array(basis)
        r -= B.T @ (B @ r)
        # Twice is enough (Kahan), and keeps ghosts of converged eigenvalues out.
        r -= B.T @ (B @ r)
        size = norm(r)
        if size <= 1e-12 * max(map(abs, diagonal)):
            break
        beside.append(size)
        basis.append(r / size)
    found = eigh_tridiagonal(diagonal, beside[: len(diagonal) - 1], eigvals_only=True)
    return float(found[0])
