"""The objective F(θ) = Σᵢ wᵢ ℓ(xᵢ, yᵢ) + ½ Σⱼ ρⱼ θⱼ², its slope and its curvature.

It is in sum form with scikit-learn's C (ρ = 1/C). The paper's mean objective is F/n
with λ = 1/(nC); holding C while n grows is what its experiments do, and what
"retraining with one more row" means here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from jaxtyping import Float

from goalward.core.arrays import Array, Rows, dense, is_sparse, namespace, scale_rows
from goalward.models.cross_entropy import CrossEntropy
from goalward.models.gauss_newton import GaussNewton
from goalward.models.linear import Linear
from goalward.solvers import least_norm

__all__ = ["Hessian", "Labelled", "Objective"]


@dataclass(frozen=True)
class Labelled:
    """Rows with what is known of their labels: a distribution and a weight each."""

    X: Rows
    targets: Float[Array, "n k"]
    weights: Float[Array, " n"]

    def __len__(self) -> int:
        return int(self.targets.shape[0])

    @cached_property
    def gram(self) -> Float[Array, "n n"]:
        """X Xᵀ, computed once for every solve and retraining that needs it."""
        return dense(self.X @ self.X.T)

    @cached_property
    def squares(self) -> Rows:
        """X∘X, computed once for all steps of a fit."""
        return self.X.multiply(self.X) if is_sparse(self.X) else self.X * self.X

    @cached_property
    def spectra(self) -> dict[bool, tuple[Array, Array]]:
        """Eigenvalues and eigenvectors of XᵀWX, without and with a constant column, as asked."""
        return {}

    def spectrum(self, intercept: bool) -> tuple[Float[Array, " r"], Float[Array, "p r"]]:
        """Return the eigenvalues and eigenvectors of XᵀWX, of which there are min(n, p).

        The labels do not enter, so one decomposition serves all steps of a fit.
        """
        if intercept not in self.spectra:
            xp = namespace(self.weights)
            root = dense(scale_rows(self.X, xp.sqrt(self.weights)))
            if intercept:
                root = xp.concat([root, xp.sqrt(self.weights)[:, None]], axis=1)
            if root.shape[0] < root.shape[1]:
                values, inner = xp.linalg.eigh(root @ root.T)
                # Directions that the rows do not reach, but for rounding, are left out.
                kept = xp.astype(values > 1e-12 * values[-1], values.dtype)
                scale = xp.sqrt(xp.maximum(values, 1e-12 * values[-1:]))
                vectors = (root.T @ inner) * (kept / scale)
            else:
                values, vectors = xp.linalg.eigh(root.T @ root)
            self.spectra[intercept] = (xp.maximum(values, xp.zeros_like(values)), vectors)
        return self.spectra[intercept]


@dataclass(frozen=True)
class Objective:
    """Penalised loss of a model on labelled rows, as a function of its parameters.

    Parameters
    ----------
    penalty
        ρ for each row of the parameters; 0 on a free intercept.
    """

    labelled: Labelled
    penalty: Float[Array, " p"]
    model: Any
    loss: CrossEntropy

    def value(self, params: Float[Array, "p c"], logits: Float[Array, "n k"]) -> float:
        """Return F, given the logits of the labelled rows."""
        xp = namespace(params)
        rows = self.loss.rows(logits, self.labelled.targets)
        fit = xp.sum(self.labelled.weights * rows)
        return float(fit + 0.5 * xp.sum(self.penalty[:, None] * params * params))

    def gradient(
        self, params: Float[Array, "p c"], logits: Float[Array, "n k"]
    ) -> Float[Array, "p c"]:
        """Return ∇F, given the logits of the labelled rows."""
        slope = self.loss.slope(logits, self.labelled.targets)
        model = self.model.at(params)
        pulled = model.vjp(self.labelled.X, self.labelled.weights[:, None] * slope)
        if not model.per_class:
            return pulled + self.penalty[:, None] * params
        # Slopes of a row sum to zero over the classes: rounding must not say otherwise, since a
        # weak penalty would magnify it.
        pulled = pulled - namespace(pulled).mean(pulled, axis=1, keepdims=True)
        return least_norm(pulled + self.penalty[:, None] * params, self.penalty)

    def hessian(
        self, params: Float[Array, "p c"], logits: Float[Array, "n k"]
    ) -> Hessian | GaussNewton:
        """Return ∇²F (of a network, its Gauss-Newton part), given the logits of the labelled rows."""
        if isinstance(self.model, Linear):
            return Hessian(self, self.loss.proba(logits))
        model = self.model.at(params)
        return GaussNewton(self, params, logits, model.damping, model.exact)


@dataclass(frozen=True)
class Hessian:
    """𝓗 = Jᵀ Λ J + diag(ρ), applied by `matvec` and opened up for direct solvers."""

    objective: Objective
    proba: Float[Array, "n k"]

    @property
    def shape(self) -> tuple[int, int]:
        """(p, K): the shape of the vectors it multiplies."""
        return int(self.penalty.shape[0]), int(self.proba.shape[1])

    @property
    def linear(self) -> Hessian:
        """Itself: direct solvers may open it."""
        return self

    @property
    def X(self) -> Rows:
        """The labelled rows."""
        return self.objective.labelled.X

    def gram(self) -> Float[Array, "n n"]:
        """Return X Xᵀ of the labelled rows."""
        return self.objective.labelled.gram

    def spectrum(self) -> tuple[Float[Array, " r"], Float[Array, "p r"]]:
        """Return the eigenvalues and eigenvectors of XᵀWX, its constant column included."""
        return self.objective.labelled.spectrum(self.intercept)

    @property
    def penalty(self) -> Float[Array, " p"]:
        """ρ for each row of the parameters."""
        return self.objective.penalty

    @property
    def intercept(self) -> bool:
        """Whether the last row of the parameters is an intercept."""
        return bool(self.objective.model.intercept)

    @property
    def weights(self) -> Float[Array, " n"]:
        """The weight of each labelled row."""
        return self.objective.labelled.weights

    def matvec(self, v: Float[Array, "p k"]) -> Float[Array, "p k"]:
        """Return 𝓗 v by one product with X and one with Xᵀ."""
        model = self.objective.model
        bent = self.objective.loss.curvature(self.proba, model.jvp(self.X, v), self._weighted)
        return model.vjp(self.X, bent) + self.penalty[:, None] * v

    @cached_property
    def _weighted(self) -> Float[Array, "n k"]:
        return self.weights[:, None] * self.proba

    def blocks(self) -> Float[Array, "n c c"]:
        """Return the weighted curvature of each row in its K-1 effective directions."""
        return self.weights[:, None, None] * self.objective.loss.blocks(self.proba)

    def factors(self) -> Float[Array, "n c c"]:
        """Return L with LLᵀ = `blocks()`."""
        xp = namespace(self.proba)
        root = xp.sqrt(self.weights)[:, None, None]
        return root * self.objective.loss.factors(self.proba)

    def mean_curvature(self) -> Float[Array, "k k"]:
        """Return the mean of Λ over the rows, by their weights."""
        xp = namespace(self.proba)
        total = self._weighted / xp.sum(self.weights)
        eye = xp.eye(total.shape[1], dtype=total.dtype, device=total.device)
        return eye * xp.sum(total, axis=0)[:, None] - self.proba.T @ total

    def diagonal(self) -> Float[Array, "p k"]:
        """Return the diagonal of 𝓗, for preconditioning."""
        bent = self._weighted * (1.0 - self.proba)
        squares = self.objective.labelled.squares
        return self.objective.model.vjp(squares, bent) + self.penalty[:, None]
