"""A torch network: logits f_θ(x), and products of J and Jᵀ, without any matrix."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal
from scipy.optimize import minimize

from goalward.core.arrays import Array, Rows, astype, like, namespace, norm, rows_at, to_numpy
from goalward.errors import LooseFit, NotConverged
from goalward.models.model import Model
from goalward.models.objective import Objective, Optimum
from goalward.solvers import Curvature, Solver

if TYPE_CHECKING:
    from goalward.models.fitted import Fitted

TIGHT, LOOSE = 1e-4, 1e-2
"""Relative gradients up to which a network is accepted without and with a warning."""


@dataclass(frozen=True, eq=False)
class Network(Model):
    """Logits of a torch module as a function of its parameters `names`; see `from_torch`.

    Rows are flat, of `row_shape` for the module, `block` in a pass; `damping` is added to the
    curvature, not to the objective.
    """

    module: Any = field(repr=False)
    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    row_shape: tuple[int, ...] = ()
    row_dtype: Any = None
    block: int = 1024
    damping: float = 0.0
    point: Any = field(default=None, repr=False)

    def at(self, params: Float[Array, "p 1"]) -> Network:
        return self if self.point is params else replace(self, point=params)

    def n_features(self, params: Float[Array, "p 1"]) -> int:
        return prod(self.row_shape)

    def logits(self, params: Float[Array, "p 1"], X: Rows) -> Float[Array, "n k"]:
        import torch

        with torch.no_grad():
            forward = [self._forward(rows, params[:, 0]) for rows in self._blocks(X, params)]
        return torch.cat(forward)

    def moving(
        self, params: Float[Array, "p 1"], v: Float[Array, "p 1"]
    ) -> Callable[[Rows], tuple[Array, Array]]:
        import torch

        def both(X: Rows) -> tuple[Array, Array]:
            with torch.no_grad():
                parts = [
                    _along(partial(self._forward, rows), params[:, 0], v[:, 0])
                    for rows in self._blocks(X, params)
                ]
            logits, motions = zip(*parts, strict=True)
            return torch.cat(logits), torch.cat(motions)

        return both

    def jvp(self, X: Rows, v: Float[Array, "p 1"]) -> Float[Array, "n k"]:
        return self.moving(self.point, v)(X)[1]

    def vjp(self, X: Rows, cotangent: Float[Array, "n k"]) -> Float[Array, "p 1"]:
        from torch.func import vjp

        total: Any = 0.0
        first = 0
        for rows in self._blocks(X, self.point):
            _, pull = vjp(partial(self._forward, rows), self.point[:, 0])
            total = total + pull(cotangent[first : first + rows.shape[0], :])[0]
            first += rows.shape[0]
        return total[:, None]

    def turning(
        self, X: Rows, slope: Callable[[Array, slice], Array], v: Float[Array, "p 1"]
    ) -> Float[Array, "p 1"]:
        """Return the derivative of Jᵀ slope(f) along v."""
        from torch.func import vjp

        total: Any = 0.0
        first = 0
        for rows in self._blocks(X, self.point):
            part = slice(first, first + rows.shape[0])

            def pulled(theta: Any, rows: Any = rows, part: slice = part) -> Any:
                logits, pull = vjp(partial(self._forward, rows), theta)
                return pull(slope(logits, part))[0]

            total = total + _along(pulled, self.point[:, 0], v[:, 0])[1]
            first += rows.shape[0]
        return total[:, None]

    def curvature(
        self, objective: Objective, params: Float[Array, "p 1"], logits: Float[Array, "n k"]
    ) -> GaussNewton:
        return GaussNewton(objective, params, logits, self.damping)

    def gradient_scale(self, objective: Objective, params: Float[Array, "p 1"]) -> float:
        """Return √Σ‖∇ℓᵢ‖² at random labels, by random signs instead of a gradient per row."""
        X, weights = objective.labelled.X, objective.labelled.weights
        logits = self.logits(params, X)
        n, K = logits.shape
        rng = np.random.default_rng(0)
        drawn = like(np.eye(K)[rng.integers(K, size=n)], logits, dtype=logits.dtype)
        signs = like(rng.choice([-1.0, 1.0], size=(n, 1)), logits, dtype=logits.dtype)
        slope = objective.loss.slope(logits, drawn)
        return norm(self.at(params).vjp(X, signs * weights[:, None] * slope)) or 1.0

    def polished(
        self, fitted: Fitted, *, tol: float, max_iter: int | None, solver: Solver | None
    ) -> Fitted:
        best = descend(fitted.objective, fitted.params, tol=tol, max_iter=max_iter or 500)
        return replace(fitted, **best._asdict())

    def _forward(self, rows: Any, theta: Any) -> Any:
        from torch.func import functional_call

        named = {}
        first = 0
        for name, shape in zip(self.names, self.shapes, strict=True):
            named[name] = theta[first : first + prod(shape)].reshape(shape)
            first += prod(shape)
        shaped = rows.reshape(rows.shape[0], *self.row_shape)
        output = functional_call(self.module, named, (shaped.to(self.row_dtype),))
        return getattr(output, "logits", output)

    def _blocks(self, X: Rows, params: Array) -> Iterator[Any]:
        xp = namespace(params)
        for first in range(0, X.shape[0], self.block):
            rows = rows_at(X, slice(first, first + self.block))
            yield astype(xp.asarray(like(rows, params)), params.dtype)


def _along(function: Callable[[Any], Any], at: Any, v: Any) -> tuple[Any, Any]:
    """Return function(at) and its derivative along v, in one forward-mode pass."""
    from torch.func import jvp

    with warnings.catch_warnings():
        # torch compiles its forward-mode rules with a tool that it has deprecated.
        warnings.filterwarnings("ignore", message=".*torch.jit.script", category=DeprecationWarning)
        value, slope = jvp(function, (at,), (v,))
    return value, slope


@dataclass(frozen=True, eq=False)
class GaussNewton:
    """𝓗 = Jᵀ Λ J + diag(ρ) + damping at `params`, matrix-free; `exact` adds Σ (p - t) ∂²f."""

    objective: Objective
    params: Float[Array, "p 1"]
    logits: Float[Array, "n k"]
    damping: float = 0.0
    exact: bool = False
    is_linear: ClassVar[bool] = False

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.params.shape[0]), 1

    @property
    def penalty(self) -> Float[Array, " p"]:
        return self.objective.penalty

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
    """Return the smallest eigenvalue by Lanczos' method, an upper bound of the true one."""
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
        # Orthogonalise twice (Kahan), against copies of converged eigenvalues.
        r -= B.T @ (B @ r)
        size = norm(r)
        if size <= 1e-12 * max(map(abs, diagonal)):
            break
        beside.append(size)
        basis.append(r / size)
    values = eigh_tridiagonal(diagonal, beside[: len(diagonal) - 1], eigvals_only=True)
    return float(values[0])


def descend(
    objective: Objective, start: Float[Array, "p 1"], *, tol: float = 1e-8, max_iter: int = 200
) -> Optimum:
    """Return the minimum reached from `start` by trust-region Newton, to ‖∇F‖ ≤ tol · scale."""
    X, model = objective.labelled.X, objective.model
    scale = model.gradient_scale(objective, start)
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
    best = minimize(value, origin, jac=slope, hessp=bent, method="trust-ncg", options=options)
    params, logits = column(best.x)
    flatness = norm(objective.gradient(params, logits)) / scale
    # A search that stalls at a small gradient, by rounding of F or a kink of a ReLU, is finished.
    if flatness > max(tol, TIGHT):
        raise NotConverged(
            f"The network stopped at a relative gradient of {flatness:.1e} after {best.nit} steps; "
            f"{tol:.0e} was asked for. Train it longer first, raise its weight decay, or raise tol."
        )
    return Optimum(params, flatness, int(best.nit))


@dataclass(frozen=True)
class Validity:
    """How near a network is to a minimum.

    Parameters
    ----------
    gradient
        ‖∇F‖ relative to √Σ‖∇ℓᵢ‖².
    curvature
        The smallest eigenvalue of ∇²F found; below 0 this is no minimum.
    damping, penalty
        Added to the curvature in every solve; smallest and largest ρ.
    """

    gradient: float
    curvature: float
    damping: float
    penalty: tuple[float, float]

    def __str__(self) -> str:
        return (
            f"relative gradient {self.gradient:.1e}, smallest curvature {self.curvature:.2g}, "
            f"damping {self.damping:.2g}, penalty {self.penalty[0]:.2g} to {self.penalty[1]:.2g}"
        )


def inspected(fitted: Fitted) -> Fitted:
    """Return a network with its `validity`; warn or raise if it is not at a minimum."""
    gradient = fitted.flatness()
    logits = fitted.model.logits(fitted.params, fitted.labelled.X)
    curvature = smallest_eigenvalue(
        GaussNewton(fitted.objective, fitted.params, logits, exact=True)
    )
    network: Any = fitted.model
    damping = float(network.damping)
    penalty = float(fitted.penalty.min()), float(fitted.penalty.max())
    validity = Validity(gradient, curvature, damping, penalty)
    if not gradient <= LOOSE:
        raise NotConverged(
            f"The network is not at a minimum in evaluation mode ({validity}); its relative gradient "
            f"must be at most {LOOSE:g}. Train it longer, check weight_decay and loss_reduction, or "
            "pass polish=True to move it to the minimum nearby."
        )
    if curvature + damping < 0.0:
        raise NotConverged(
            f"The network is at a saddle, not at a minimum ({validity}). Pass polish=True, a larger "
            f"weight decay, or damping={-2 * curvature:.1g}."
        )
    if min(penalty) + damping <= 0.0:
        raise NotConverged(
            f"All parameters need a penalty or damping ({validity}): without, the curvature is singular "
            "along what rows do not see. Train with weight decay on all of them, or pass damping=1e-3."
        )
    if gradient > TIGHT:
        warnings.warn(
            f"The network is not quite at a minimum ({validity}); its relative gradient should be at "
            f"most {TIGHT:g}. Pass polish=True to move it there.",
            LooseFit,
            stacklevel=3,
        )
    return replace(fitted, gradient=gradient, validity=validity)
