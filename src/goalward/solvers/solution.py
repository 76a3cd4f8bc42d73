"""What a solver is given and what it must return.

Adding a constant to all logits of a row changes no softmax, so 𝓗 acts on "all classes up together"
as the bare penalty, and on the effective directions of the outcomes, the columns of `basis`, as a
definite matrix. A solver inverts the second part only (`in_basis`); the first is a division, and
where the penalty is 0 (a free intercept) the solution of least norm has nothing there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias, runtime_checkable

from jaxtyping import Float

from goalward.core.arrays import Array, astype, eps, namespace, norm
from goalward.core.rows import Labelled
from goalward.errors import NotConverged, Unsupported


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
class Products(Protocol):
    """Anything that multiplies (p, K) parameters by a matrix with a penalty in it."""

    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def penalty(self) -> Float[Array, " p"]: ...
    def matvec(self, v: Float[Array, "p k"]) -> Float[Array, "p k"]: ...


@runtime_checkable
class Curvature(Products, Protocol):
    """𝓗, as solvers are given it."""

    @property
    def linear(self) -> LinearCurvature | None:
        """Itself, where the model is linear; None where all that is known are products."""
        ...

    @property
    def near(self) -> Apply | None:
        """A map close to 𝓗⁻¹, where the curvature brings one."""
        ...


@runtime_checkable
class Preconditionable(Products, Protocol):
    """What a preconditioner reads of a linear model's curvature."""

    @property
    def labelled(self) -> Labelled: ...
    @property
    def intercept(self) -> bool: ...
    def mean_curvature(self) -> Float[Array, "k k"]: ...
    def diagonal(self) -> Float[Array, "p k"]: ...


@runtime_checkable
class LinearCurvature(Curvature, Preconditionable, Protocol):
    """The curvature of a linear model, opened up for direct solvers."""

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
    """A way to solve with 𝓗: `prepare` once, then call for each right-hand side."""

    def prepare(self, hessian: Any) -> Solve: ...


Apply: TypeAlias = Callable[[Array], Array]
"""A linear map of parameters: an inverse, or what stands for one."""


@dataclass(frozen=True)
class Direct(ABC):
    """A solver that factors 𝓗 in the effective directions: exact but for rounding.

    Parameters
    ----------
    tol
        The relative residual above which `NotConverged` is raised.
    """

    tol: float | None = None

    @abstractmethod
    def factored(self, hessian: LinearCurvature) -> Apply:
        """Return 𝓗⁻¹ in the effective directions, a map (p, c) -> (p, c)."""

    def prepare(self, hessian: LinearCurvature) -> Solve:
        """Return the map g -> 𝓗⁻¹g.

        A solution is improved once by its own residual where rounding has spoilt it.
        """
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


def certified(
    g: Float[Array, "p k"], left: Float[Array, "p k"], solution: Solution, tol: float | None
) -> Solution:
    """Return `solution` with its residual, of which `left` = g - 𝓗v, or raise if it exceeds `tol`.

    The default tolerance is 1e-8, or 1e-3 in single precision.
    """
    size = norm(g)
    residual = norm(left) / size if size > 0.0 else 0.0
    limit = tol if tol is not None else (1e-8 if eps(g) < 1e-10 else 1e-3)
    if not residual <= limit:
        raise NotConverged(
            f"{solution.solver} left a relative residual of {residual:.1e} after "
            f"{solution.iterations} iterations; {limit:.0e} was asked for. The curvature is "
            "too ill-conditioned: lower C (a stronger penalty), rescale the features, or "
            "give the solver more iterations or a larger tol."
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
    """Return ρ of the weights, which must be one positive number, and of the intercept."""
    penalty = hessian.penalty
    xp = namespace(penalty)
    weights = penalty[:-1] if hessian.intercept else penalty
    low, high = float(xp.min(weights)), float(xp.max(weights))
    if low != high or low <= 0.0:
        raise Unsupported(
            f"The weights have penalties from {low:.3g} to {high:.3g}; one positive number "
            "was expected. Use Cholesky() or ConjugateGradient()."
        )
    return high, float(penalty[-1]) if hessian.intercept else 0.0
