"""The curvature of a network's objective and the way to a minimum, by products alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal
from scipy.optimize import minimize

from goalward.core.arrays import Array, like, norm, to_numpy
from goalward.errors import NotConverged
from goalward.models.newton import Optimum
from goalward.models.objective import Objective
from goalward.solvers import Curvature

STALLED = 1e-4
"""Relative gradient up to which a search that cannot go on is taken for finished."""


@dataclass(frozen=True, eq=False)
class NetworkCurvature:
    """What the curvatures of a network share: products are all that is known of them."""

    objective: Objective
    params: Float[Array, "p 1"]
    logits: Float[Array, "n k"]
    damping: float = 0.0
    linear: ClassVar[None] = None

    @property
    def shape(self) -> tuple[int, int]:
        """(P, 1): the shape of the vectors it multiplies."""
        return int(self.params.shape[0]), 1

    @property
    def penalty(self) -> Float[Array, " p"]:
        """ρ for each parameter."""
        return self.objective.penalty


@dataclass(frozen=True, eq=False)
class GaussNewton(NetworkCurvature):
    """𝓗 = Jᵀ Λ J + diag(ρ) + damping, with J at `params`; no entry of it is ever formed.

    Parameters
    ----------
    exact
        Add what Gauss-Newton leaves out, Σ (p - t) ∂²f: the Hessian itself, which is
        definite at a strict minimum only.
    """

    exact: bool = False
    near: ClassVar[None] = None

    def matvec(self, v: Float[Array, "p 1"]) -> Float[Array, "p 1"]:
        """Return 𝓗 v by one forward-mode and one reverse pass over the labelled rows."""
        F = self.objective
        X, weights = F.labelled.X, F.labelled.weights[:, None]
        model: Any = F.model.at(self.params)
        ridge = (self.penalty[:, None] + self.damping) * v
        if self.exact:
            targets = F.labelled.targets

            def slope(logits: Array, rows: slice) -> Array:
                return weights[rows] * F.loss.slope(logits, targets[rows])

            return model.turning(X, slope, v) + ridge
        bent = weights * F.loss.curvature(F.loss.proba(self.logits), model.jvp(X, v))
        return model.vjp(X, bent) + ridge


def smallest_eigenvalue(hessian: Curvature, *, steps: int = 60, seed: int = 0) -> float:
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


def descend(
    objective: Objective, start: Float[Array, "p 1"], *, tol: float = 1e-8, max_iter: int = 200
) -> Optimum:
    """Return the minimum that Newton's method reaches from `start`, to ‖∇F‖ ≤ tol · scale.

    A network has many minima; the one nearest to the trained weights is what fine-tuning
    finds. Steps are those of the Hessian itself, whose negative curvature a trust region
    turns into descent; Gauss-Newton steps would converge too, only slowly.
    """
    X, model = objective.labelled.X, objective.model
    scale = push(objective, start)
    seen: dict[bytes, tuple[Array, Array]] = {}

    def column(theta: NDArray[Any]) -> tuple[Array, Array]:
        key = theta.tobytes()
        if key not in seen:
            seen.clear()
            params = like(theta.reshape(-1, 1), start, dtype=start.dtype)
            seen[key] = params, model.logits(params, X)
        return seen[key]

    def value(theta: NDArray[Any]) -> float:
        return objective.value(*column(theta))

    def slope(theta: NDArray[Any]) -> NDArray[Any]:
        return to_numpy(objective.gradient(*column(theta))).ravel().astype(np.float64)

    def bent(theta: NDArray[Any], v: NDArray[Any]) -> NDArray[Any]:
        true = GaussNewton(objective, *column(theta), exact=True)
        product = true.matvec(like(v.reshape(-1, 1), start, dtype=start.dtype))
        return to_numpy(product).ravel().astype(np.float64)

    origin = to_numpy(start).ravel().astype(np.float64)
    options = {"gtol": tol * scale, "maxiter": max_iter, "initial_trust_radius": 1.0}
    found = minimize(value, origin, jac=slope, hessp=bent, method="trust-ncg", options=options)
    params, logits = column(found.x)
    flatness = norm(objective.gradient(params, logits)) / scale
    # The region shrinks to nothing where rounding of F, or a kink of a ReLU, hides what a step gains.
    if flatness > max(tol, STALLED):
        raise NotConverged(
            f"The network stopped at a relative gradient of {flatness:.1e} after {found.nit} steps; "
            f"{tol:.0e} was asked for. Train it longer first, raise its weight decay, or raise tol."
        )
    return Optimum(params, flatness, int(found.nit))


def push(objective: Objective, params: Float[Array, "p 1"]) -> float:
    """Return √Σ‖∇ℓᵢ‖² with labels drawn at random: the size of what rows push with.

    Random signs add squares without a gradient per row being made. Rows that push with nothing
    give no scale: then it is 1.
    """
    X, weights = objective.labelled.X, objective.labelled.weights
    logits = objective.model.logits(params, X)
    n, K = logits.shape
    rng = np.random.default_rng(0)
    drawn = like(np.eye(K)[rng.integers(K, size=n)], logits, dtype=logits.dtype)
    signs = like(rng.choice([-1.0, 1.0], size=(n, 1)), logits, dtype=logits.dtype)
    slope = objective.loss.slope(logits, drawn)
    return norm(objective.model.at(params).vjp(X, signs * weights[:, None] * slope)) or 1.0
