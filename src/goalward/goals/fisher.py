"""Minus the trace of the Fisher information on unlabelled rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from jaxtyping import Float

from goalward.core.arrays import Array, like, namespace, softmax
from goalward.goals.goal import Goal, Term, file_parts

__all__ = ["Fisher", "NegativeTrace"]


@dataclass(frozen=True, eq=False)
class Fisher(Goal):
    """τ = -mean (1 - ‖p‖²)‖x‖², minus the trace of the mean Fisher information.

    x has its constant column if the model has an intercept. The paper adds the trace of
    λI and prints it as λK; for d features it is λdK. It is a constant of the model that
    only changes with n (λ = 1/(nC)), so it is left out here: it would make τ rise with
    every label, whichever row is labelled.

    Parameters
    ----------
    X
        Rows over which the information is averaged: the pool, as a rule.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Logistic().fit([[0.0], [1.0]], [0, 1])
    >>> gw.goals.Fisher([[0.5]]).value(fitted)  # -(1 - 1/2) (0.5² + 1)
    -0.625
    """

    X: Any = field(repr=False)

    def pieces(self) -> list[tuple[float, Goal]]:
        """Return the goal over parts of a file, each by its share of the mean."""
        parts = [X for _, X in file_parts(self.X)]
        if len(parts) == 1:
            return [(1.0, self)]
        return [(len(X) / len(self.X), Fisher(X)) for X in parts]

    def terms(self, fitted: Any) -> list[Term]:
        """Return the goal bound to a model."""
        X = fitted.features(self.X, "X of Fisher")
        norms = like(fitted.model.squared_norms(X, fitted.params), fitted.params)
        return [Term(1.0, X, NegativeTrace(norms / X.shape[0]))]


@dataclass(frozen=True)
class NegativeTrace:
    """-Σ c (1 - ν) with c = ‖x‖²/m and ν = ‖p‖²; u = c ũ with ũ = 2p∘(p - ν)."""

    scale: Float[Array, " m"]

    def value(self, logits: Float[Array, "*b m k"]) -> Float[Array, "*b"]:
        """Return -Σ c (1 - ‖p‖²)."""
        xp = namespace(logits)
        p = softmax(logits)
        return xp.sum(self.scale * (xp.sum(p * p, axis=-1) - 1.0), axis=-1)

    def cotangent(self, logits: Float[Array, "m k"]) -> Float[Array, "m k"]:
        """Return c ũ."""
        _, _, u = self._parts(logits)
        return self.scale[:, None] * u

    def curvature(
        self, logits: Float[Array, "m k"], motion: Float[Array, "m k"]
    ) -> Float[Array, "m k"]:
        """Return c [2 diag(ũ + νp) - 2ũpᵀ - 2pũᵀ - 2νppᵀ] s."""
        xp = namespace(logits)
        p, nu, u = self._parts(logits)
        ps = xp.sum(p * motion, axis=-1, keepdims=True)
        us = xp.sum(u * motion, axis=-1, keepdims=True)
        bent = (u + nu * p) * motion - u * ps - p * us - nu * p * ps
        return 2.0 * self.scale[:, None] * bent

    def _parts(self, logits: Float[Array, "m k"]) -> tuple[Array, Array, Array]:
        xp = namespace(logits)
        p = softmax(logits)
        nu = xp.sum(p * p, axis=-1, keepdims=True)
        return p, nu, 2.0 * p * (p - nu)
