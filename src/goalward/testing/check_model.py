"""What a model must satisfy."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["check_model"]


def check_model(model: Any, n_features: int = 4, n_classes: int = 3, seed: int = 0) -> None:
    """Check that `vjp` is the adjoint of `jvp`, and `jvp` the slope of `logits`.

    Examples
    --------
    >>> from goalward.models import LinearModel
    >>> check_model(LinearModel(intercept=True))
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(7, n_features))
    shape = (model.n_params(n_features), n_classes)
    params, v = rng.normal(size=(2, *shape))
    c = rng.normal(size=(7, n_classes))
    left = np.sum(model.jvp(X, v) * c)
    right = np.sum(v * model.vjp(X, c))
    np.testing.assert_allclose(left, right, rtol=1e-12, err_msg="⟨Jv, c⟩ differs from ⟨v, Jᵀc⟩")
    h = 1e-6
    slope = (model.logits(params + h * v, X) - model.logits(params - h * v, X)) / (2 * h)
    np.testing.assert_allclose(
        model.jvp(X, v), slope, rtol=1e-6, atol=1e-8, err_msg="jvp is not the slope of logits"
    )
