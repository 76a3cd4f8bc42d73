"""A torch network: logits = f_θ(x), known to us by its products with J and Jᵀ.

Parameters are one (P, 1) column: the tensors that may move, flattened one after another.
J and Jᵀ are those at a point θ, so a network is asked for them through `at(params)`. All K
logits of a row and their motion come from one forward-mode pass; slopes are pulled back by one
reverse pass over a block of rows. No gradient of a single row is ever held.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

from jaxtyping import Float

from goalward.core.arrays import Array, Rows, astype, like, namespace, rows_at
from goalward.models.ek_fac import EkFac
from goalward.models.gauss_newton import GaussNewton, descend, push
from goalward.models.model import Model
from goalward.solvers import Solver

if TYPE_CHECKING:
    from goalward.models.fitted import Fitted
    from goalward.models.objective import Objective


@dataclass(frozen=True, eq=False)
class Network(Model):
    """Logits of a torch module as a function of some of its parameters.

    Made by `gw.adapters.from_torch`.

    Parameters
    ----------
    module
        In evaluation mode, a copy of its own: nothing here changes the caller's.
    names, shapes
        The parameters that may move; the others stay what they are.
    row_shape, row_dtype
        What a row looks like to the module; here rows are flat lists of numbers.
    block
        Rows in one pass.
    damping
        Added to the curvature, not to the objective: how far the quadratic is distrusted.
    bend
        The curvature: "gauss-newton", "ek-fac", or "exact" for that of the objective itself.
    """

    module: Any = field(repr=False)
    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    row_shape: tuple[int, ...] = ()
    row_dtype: Any = None
    block: int = 1024
    damping: float = 0.0
    bend: str = "gauss-newton"
    point: Any = field(default=None, repr=False)

    def at(self, params: Float[Array, "p 1"]) -> Network:
        """Return the network linearised at `params`."""
        return self if self.point is params else replace(self, point=params)

    def n_features(self, params: Float[Array, "p 1"]) -> int:
        """Return the numbers in one row."""
        return prod(self.row_shape)

    def logits(self, params: Float[Array, "p 1"], X: Rows) -> Float[Array, "n k"]:
        """Return the logits, block by block."""
        import torch

        with torch.no_grad():
            forward = [self._forward(rows, params[:, 0]) for rows in self._blocks(X, params)]
        return torch.cat(forward)

    def moving(
        self, params: Float[Array, "p 1"], v: Float[Array, "p 1"]
    ) -> Callable[[Rows], tuple[Array, Array]]:
        """Return the map from rows to their logits, and to how these move along v."""
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
        """Return J v: how the logits of the rows move when the parameters move by v."""
        return self.moving(self.point, v)(X)[1]

    def vjp(self, X: Rows, cotangent: Float[Array, "n k"]) -> Float[Array, "p 1"]:
        """Return Jᵀ c: logit-space slopes pulled back to the parameters."""
        from torch.func import vjp

        total: Any = 0.0
        first = 0
        for rows in self._blocks(X, self.point):
            _, pull = vjp(partial(self._forward, rows), self.point[:, 0])
            total = total + pull(cotangent[first : first + rows.shape[0], :])[0]
            first += rows.shape[0]
        return total[:, None]

    def row_slopes(self, X: Rows, cotangents: Float[Array, "n k c"]) -> Float[Array, "nc p"]:
        """Return Jᵀc of every row by itself, for each of its cotangents: n · c lines."""
        from torch.func import vjp, vmap

        def one(row: Any, columns: Any) -> Any:
            _, pull = vjp(lambda theta: self._forward(row[None], theta)[0], self.point[:, 0])
            return vmap(pull, in_dims=1)(columns)[0]

        rows = astype(like(X, self.point), self.point.dtype)
        return vmap(one)(rows, cotangents).reshape(-1, self.point.shape[0])

    def turning(
        self, X: Rows, slope: Callable[[Array, slice], Array], v: Float[Array, "p 1"]
    ) -> Float[Array, "p 1"]:
        """Return how Jᵀ slope(f) changes along v: the whole second derivative, in one pass.

        Parameters
        ----------
        slope
            (logits, which rows) -> their slopes.
        """
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
    ) -> GaussNewton | EkFac:
        """Return the Gauss-Newton part of ∇²F, layer by layer with EK-FAC, or the whole."""
        if self.bend == "ek-fac":
            return EkFac(objective, params, logits, self.damping)
        return GaussNewton(objective, params, logits, self.damping, self.bend == "exact")

    def gradient_scale(self, objective: Objective, params: Float[Array, "p 1"]) -> float:
        """Return √Σ‖∇ℓᵢ‖² with labels drawn at random: nothing can be learned from a network at 0."""
        return push(objective, params)

    def polished(
        self, fitted: Fitted, *, tol: float, max_iter: int | None, solver: Solver | None
    ) -> Fitted:
        """Return the fitted model at the minimum nearby."""
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
        # torch compiles its own forward-mode rules with a tool that it has deprecated.
        warnings.filterwarnings("ignore", message=".*torch.jit.script", category=DeprecationWarning)
        value, slope = jvp(function, (at,), (v,))
    return value, slope
