"""EK-FAC: a network's curvature layer by layer, diagonal in Kronecker eigenbases.

Per layer the Gauss-Newton matrix is Σ vec(G) vec(G)ᵀ over the slopes G (outputs by inputs) of the
rows' logits, each times a factor of Λ. Eigenvectors U of Σ GGᵀ and V of Σ GᵀG, one step of power
iteration towards the nearest Kronecker product, are a basis U ⊗ V; in it the diagonal of the matrix,
Σ (UᵀGV)², is kept as it is (George et al. 2018). What layers share, and what is off the diagonal, is
left out: the inverse then costs a few small products.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array, rows_at
from goalward.errors import Unsupported
from goalward.models.gauss_newton import NetworkCurvature

LARGEST = 8192
"""Outputs or inputs of a layer up to which eigenvectors are sought."""

AT_ONCE = 2**24
"""Numbers in the slopes of one block of rows: 128 MB."""


class Layer(NamedTuple):
    """Where a layer's parameters are, its two bases, and its curvature in them, penalty included."""

    where: NDArray[Any]
    U: Float[Array, "o o"]
    V: Float[Array, "i i"]
    scale: Float[Array, "o i"]


@dataclass(frozen=True, eq=False)
class EkFac(NetworkCurvature):
    """The Gauss-Newton matrix of a network, each layer's diagonal in its Kronecker eigenbasis."""

    def matvec(self, v: Float[Array, "p m"]) -> Float[Array, "p m"]:
        """Return 𝓗 v, of one column or several."""
        return self._scaled(v, 1)

    def near(self, v: Float[Array, "p m"]) -> Float[Array, "p m"]:
        """Return 𝓗⁻¹ v, of one column or several."""
        return self._scaled(v, -1)

    def _scaled(self, v: Float[Array, "p m"], power: int) -> Float[Array, "p m"]:
        rows, moved = v.T, v.T * 0.0
        for where, U, V, scale in self.layers:
            moved[:, where] = U @ ((U.T @ rows[:, where] @ V) * scale**power) @ V.T
        return moved.T

    @cached_property
    def layers(self) -> list[Layer]:
        """Every layer with its bases, by two passes over the labelled rows."""
        import torch

        found = _matrices(self.objective.model)
        sums: list[Any] = [[0.0, 0.0] for _ in found]
        for slopes in self._slopes():
            for total, index in zip(sums, found, strict=True):
                G = slopes[:, index]
                total[0] = total[0] + torch.einsum("noi,npi->op", G, G)
                total[1] = total[1] + torch.einsum("noi,noj->ij", G, G)
        bases = [[torch.linalg.eigh(part)[1] for part in total] for total in sums]
        ridge = self.penalty + self.damping
        # The penalty is a diagonal too, and its own in the basis where it is one number.
        scales = [
            (U.T**2) @ ridge[index] @ V**2 for (U, V), index in zip(bases, found, strict=True)
        ]
        for slopes in self._slopes():
            for j, ((U, V), index) in enumerate(zip(bases, found, strict=True)):
                scales[j] = scales[j] + ((U.T @ slopes[:, index] @ V) ** 2).sum(0)
        return [Layer(i, U, V, s) for i, (U, V), s in zip(found, bases, scales, strict=True)]

    def _slopes(self) -> Iterator[Float[Array, "m p"]]:
        """Yield JᵀL of blocks of rows, where LLᵀ = Λ times the row's weight."""
        F = self.objective
        model: Any = F.model.at(self.params)
        proba = F.loss.proba(self.logits)
        roots = F.loss.basis(proba.shape[1], proba) @ F.loss.factors(proba)
        roots = roots * F.labelled.weights[:, None, None] ** 0.5
        step = max(1, AT_ONCE // (self.shape[0] * roots.shape[2]))
        for first in range(0, roots.shape[0], step):
            part = slice(first, first + step)
            yield model.row_slopes(rows_at(F.labelled.X, part), roots[part])


def _matrices(model: Any) -> list[NDArray[Any]]:
    """Return where each layer's parameters are, outputs by inputs: weights, then the bias."""
    layers: dict[tuple[str, int], list[NDArray[Any]]] = {}
    first = 0
    for name, shape in zip(model.names, model.shapes, strict=True):
        index = np.arange(first, first + prod(shape)).reshape(*(shape[:1] or (1,)), -1)
        layers.setdefault((name.rpartition(".")[0], len(index)), []).append(index)
        first += index.size
        if max(index.shape) > LARGEST:
            raise Unsupported(
                f"{name} has {index.shape[0]} outputs and {index.shape[1]} inputs; at most "
                f"{LARGEST} were expected for curvature='ek-fac'. Pass layers= without it, or "
                "curvature='gauss-newton'."
            )
    return [np.hstack(parts) for parts in layers.values()]
