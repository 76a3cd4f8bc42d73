"""What a solver is given and what it must return."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeGuard, runtime_checkable

from jaxtyping import Float

from goalward.core.arrays import Array, Rows, eps, norm
from goalward.errors import NotConverged

__all__ = [
    "Curvature",
    "LinearCurvature",
    "Solution",
    "Solve",
    "Solver",
    "certified",
    "is_linear",
    "refined",
]


@dataclass(frozen=True)
class Solution:
    """v with 𝓗 v = g, and how far it can be trusted.

    Parameters
    ----------
    value
        The solution of least norm.
    residual
        ‖𝓗 v - g‖ / ‖g‖, by a product with 𝓗 itself.
    iterations
        Products with 𝓗 that an iterative solver took; 0 for a direct one.
    solver, reason
        Which solver answered, and why it was picked.
    """

    value: Float[Array, "p k"]
    residual: float
    iterations: int
    solver: str
    reason: str = ""


@runtime_checkable
class Curvature(Protocol):
    """Anything that multiplies (p, K) parameters by 𝓗."""

    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def penalty(self) -> Float[Array, " p"]: ...
    def matvec(self, v: Float[Array, "p k"]) -> Float[Array, "p k"]: ...


@runtime_checkable
class LinearCurvature(Curvature, Protocol):
    """The curvature of a linear model, opened up for direct solvers."""

    @property
    def X(self) -> Rows: ...
    @property
    def intercept(self) -> bool: ...
    @property
    def weights(self) -> Float[Array, " n"]: ...
    @property
    def proba(self) -> Float[Array, "n k"]: ...
    def gram(self) -> Float[Array, "n n"]: ...
    def spectrum(self) -> tuple[Float[Array, " r"], Float[Array, "p r"]]: ...
    def blocks(self) -> Float[Array, "n c c"]: ...
    def factors(self) -> Float[Array, "n c c"]: ...
    def mean_curvature(self) -> Float[Array, "k k"]: ...
    def diagonal(self) -> Float[Array, "p k"]: ...


def is_linear(hessian: Curvature) -> TypeGuard[LinearCurvature]:
    """Return whether a curvature can be opened up."""
    # One look, where isinstance() of a protocol takes a dozen: fits ask at every step.
    return hasattr(hessian, "gram")


@runtime_checkable
class Solve(Protocol):
    """A factored 𝓗: g -> Solution."""

    def __call__(self, g: Float[Array, "p k"], *, tol: float | None = None) -> Solution: ...


@runtime_checkable
class Solver(Protocol):
    """A way to solve with 𝓗: `prepare` once, then call for each right-hand side."""

    def prepare(self, hessian: Any) -> Solve: ...


def refined(
    hessian: Curvature, g: Float[Array, "p k"], solve: Callable[[Array], Array]
) -> Float[Array, "p k"]:
    """Return solve(g), improved once by its own residual where rounding has spoilt it."""
    v = solve(g)
    residual = g - hessian.matvec(v)
    return v + solve(residual) if norm(residual) > 1e-10 * norm(g) else v


def certified(
    hessian: Curvature,
    g: Float[Array, "p k"],
    solution: Solution,
    tol: float | None,
) -> Solution:
    """Return `solution` with its true residual, or raise if it exceeds `tol`.

    The default tolerance is 1e-8, or 1e-3 in single precision.
    """
    size = norm(g)
    residual = norm(hessian.matvec(solution.value) - g) / size if size > 0.0 else 0.0
    limit = tol if tol is not None else (1e-8 if eps(g) < 1e-10 else 1e-3)
    if not residual <= limit:
        raise NotConverged(
            f"{solution.solver} left a relative residual of {residual:.1e} after "
            f"{solution.iterations} iterations; {limit:.0e} was asked for. The curvature is "
            "too ill-conditioned: lower C (a stronger penalty), rescale the features, or "
            "give the solver more iterations or a larger tol."
        )
    return replace(solution, residual=residual)
