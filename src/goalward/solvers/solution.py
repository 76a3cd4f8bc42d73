"""Interfaces of curvatures, solvers and solutions.

𝓗 is definite on the columns of `basis`, which solvers invert; elsewhere it is the penalty alone,
and the solution of least norm is 0 where that is 0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias, runtime_checkable

from jaxtyping import Float

from goalward.core.arrays import Array, astype, namespace, norm
from goalward.core.rows import Labelled
from goalward.errors import NotConverged, Unsupported


@dataclass(frozen=True)
class Solution:
    """v with 𝓗 v = g, and its accuracy.

    Parameters
    ----------
    residual
        ‖𝓗 v - g‖ / ‖g‖, by a product with 𝓗 itself.
    iterations
        Products with 𝓗 of an iterative solver; 0 for a direct one.
    solver, reason
        The solver used, and why it was chosen.
    """

    value: Float[Array, "p k"]
    residual: float
    iterations: int
    solver: str
    reason: str = ""


@runtime_checkable
class Curvature(Protocol):
    """𝓗 as a product with (p, K) parameters."""

    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def penalty(self) -> Float[Array, " p"]: ...
    def matvec(self, v: Float[Array, "p k"]) -> Float[Array, "p k"]: ...
    @property
    def is_linear(self) -> bool:
        """Whether it is a `LinearCurvature`; otherwise only products are known."""
        ...


@runtime_checkable
class LinearCurvature(Curvature, Protocol):
    """The curvature of a linear model, for direct solvers and preconditioners."""

    @property
    def labelled(self) -> Labelled: ...
    @property
    def intercept(self) -> bool: ...
    def mean_curvature(self) -> Float[Array, "k k"]: ...
    def diagonal(self) -> Float[Array, "p k"]: ...
    @property
    def proba(self) -> Float[Array, "n k"]: ...
    @property
    def basis(self) -> Float[Array, "k c"]: ...
    def unseen(self, v: Float[Array, "p k"]) -> Array: ...
    def bend(self, motion: Float[Array, "n k"]) -> Float[Array, "n k"]: ...
    def blocks(self) -> Float[Array, "n c c"]: ...
    def factors(self) -> Float[Array, "n c c"]: ...


@runtime_checkable
class Solve(Protocol):
    """A factored 𝓗: g -> Solution."""

    def __call__(self, g: Float[Array, "p k"], *, tol: float | None = None) -> Solution: ...


@runtime_checkable
class Solver(Protocol):
    """A method to solve with 𝓗: `prepare` once, then call for each right-hand side."""

    def prepare(self, hessian: Any) -> Solve: ...


Apply: TypeAlias = Callable[[Array], Array]
"""A linear map of parameters, such as an (approximate) inverse."""


@dataclass(frozen=True)
class Direct(ABC):
    """A solver that factors 𝓗 in the effective directions."""

    tol: float | None = None

    @abstractmethod
    def factored(self, hessian: LinearCurvature) -> Apply:
        """Return 𝓗⁻¹ in the effective directions, a map (p, c) -> (p, c)."""

    def prepare(self, hessian: LinearCurvature) -> Solve:
        """Return the map g -> 𝓗⁻¹g, with one step of iterative refinement where needed."""
        apply, name = self.factored(hessian), type(self).__name__

        def solve(g: Float[Array, "p k"], *, tol: float | None = None) -> Solution:
            v = in_basis(hessian, g, apply)
            residual = g - hessian.matvec(v)
            if norm(residual) > 1e-10 * norm(g):
                v = v + in_basis(hessian, residual, apply)
                residual = g - hessian.matvec(v)
            limit = self.tol if tol is None else tol
            return certified(g, residual, Solution(v, 0.0, 0, name), limit)

        return solve


def tolerance(
    g: Array, tol: float | None, default: float | None = None, *, single: float = 1e-4
) -> float:
    """Return the tolerance of the residual: 1e-8 by default, `single` in single precision."""
    limit = default if tol is None else tol
    return limit if limit is not None else 1e-8 if g.dtype == namespace(g).float64 else single


def certified(
    g: Float[Array, "p k"], left: Float[Array, "p k"], solution: Solution, tol: float | None
) -> Solution:
    """Return `solution` with the residual of `left` = g - 𝓗v; raise if it exceeds `tol`."""
    size = norm(g)
    residual = norm(left) / size if size > 0.0 else 0.0
    limit = tolerance(g, tol, single=1e-3)
    if not residual <= limit:
        raise NotConverged(
            f"{solution.solver} left a relative residual of {residual:.1e} after "
            f"{solution.iterations} iterations; {limit:.0e} was asked for. Lower C (a stronger penalty), "
            "rescale the features, or give the solver more iterations or a larger tol."
        )
    return replace(solution, residual=residual)


def in_basis(hessian: LinearCurvature, g: Float[Array, "p k"], apply: Apply) -> Float[Array, "p k"]:
    """Return 𝓗⁻¹g, given the solution map (p, c) -> (p, c) in the effective directions."""
    xp = namespace(g)
    Q, penalty = astype(hessian.basis, g.dtype), hessian.penalty[:, None]
    unseen = hessian.unseen(g)
    safe = xp.where(penalty > 0.0, penalty, xp.ones_like(penalty))
    level = xp.where(penalty > 0.0, unseen / safe, xp.zeros_like(unseen))
    return apply(g @ Q) @ Q.T + level


def least_norm(
    v: Float[Array, "p k"], penalty: Float[Array, " p"], unseen: Apply
) -> Float[Array, "p k"]:
    """Return v without its part along the flat directions of a free intercept."""
    xp = namespace(v)
    flat = unseen(v)
    return v - xp.where(penalty[:, None] > 0.0, xp.zeros_like(flat), flat)


def uniform_penalty(hessian: LinearCurvature) -> tuple[float, float]:
    """Return ρ of the weights, which must be equal and positive, and of the intercept."""
    penalty = hessian.penalty
    xp = namespace(penalty)
    weights = penalty[:-1] if hessian.intercept else penalty
    low, high = float(xp.min(weights)), float(xp.max(weights))
    if low != high or low <= 0.0:
        raise Unsupported(
            f"All weights must have one positive penalty, got {low:.3g} to {high:.3g}. Use Cholesky() or "
            "ConjugateGradient()."
        )
    return high, float(penalty[-1]) if hessian.intercept else 0.0
