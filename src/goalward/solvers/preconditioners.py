"""Cheap approximate inverses that make conjugate gradients short."""

from __future__ import annotations

from jaxtyping import Float

from goalward.core.arrays import Array, is_sparse, namespace
from goalward.errors import BadParameter
from goalward.solvers.solution import Apply, Preconditionable

__all__ = ["preconditioner"]

LARGEST_EIGENPROBLEM = 4096
"""Features (or rows, if fewer) up to which XᵀX is decomposed at all: 16 million numbers."""

SAVED = 40
"""Products that the Kronecker preconditioner saves, about, where problems are large."""


def preconditioner(name: str, curvature: Preconditionable | None) -> Apply:
    """Return the approximate inverse that a name stands for; None is a model that is not linear."""
    if name not in ("auto", "kronecker", "jacobi", "none"):
        raise BadParameter(
            f"preconditioner={name!r}; 'auto', 'kronecker', 'jacobi' or 'none' was expected. Leave it "
            "at 'auto'."
        )
    if name == "none" or (name == "auto" and curvature is None):
        return lambda r: r
    if curvature is None:
        raise BadParameter(
            "This preconditioner reads the rows of a linear model, and another model came. "
            "Use preconditioner='none'."
        )
    if name == "auto":
        name = "kronecker" if _pays(curvature) else "jacobi"
    return _kronecker(curvature) if name == "kronecker" else _jacobi(curvature)


def _pays(curvature: Preconditionable) -> bool:
    """Return whether the eigenvectors of XᵀX cost less than the products they save.

    About 25 s³ flops for s = min(n, p), at the rate of the 4 n p K of a product.
    """
    n_rows, (n_params, n_columns) = curvature.weights.shape[0], curvature.shape
    size = min(n_rows, n_params)
    if size > LARGEST_EIGENPROBLEM or is_sparse(curvature.X):
        return False
    return bool(25 * size**3 < SAVED * 4 * n_rows * n_params * n_columns)


def _jacobi(curvature: Preconditionable) -> Apply:
    diagonal = curvature.diagonal()
    return lambda r: r / diagonal


def _kronecker(curvature: Preconditionable) -> Apply:
    """Return the inverse of (mean Λ) ⊗ XᵀWX + ρ, by eigenvectors of both factors.

    A free intercept has ρ = 0 in its row only, which would break the product form; it is
    given the penalty of the weights here, which costs a preconditioner nothing. With fewer rows
    than features XᵀWX has eigenvectors for as many rows, and is zero on the rest.
    """
    xp = namespace(curvature.penalty)
    class_values, class_vectors = xp.linalg.eigh(curvature.mean_curvature())
    class_values = xp.maximum(class_values, xp.zeros_like(class_values))
    values, vectors = curvature.spectrum()
    ridge = float(xp.max(curvature.penalty))
    scale = values[:, None] * class_values[None, :] + ridge
    if vectors.shape[0] == vectors.shape[1]:
        return lambda r: vectors @ ((vectors.T @ r @ class_vectors) / scale) @ class_vectors.T

    def precondition(r: Float[Array, "p k"]) -> Float[Array, "p k"]:
        seen = vectors.T @ r
        bent = (seen @ class_vectors / scale) @ class_vectors.T
        return vectors @ (bent - seen / ridge) + r / ridge

    return precondition
