"""Cross-entropy of the softmax: slope p - t and curvature Λ = diag(p) - ppᵀ, of rank K - 1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array, like, log_softmax, namespace, softmax
from goalward.core.labels import encode
from goalward.errors import ShapeMismatch
from goalward.models.loss import Loss, own_logit


@cache
def _contrasts(n_classes: int) -> NDArray[Any]:
    return np.ascontiguousarray(scipy.linalg.helmert(n_classes).T)


@dataclass(frozen=True)
class Softmax(Loss):
    """Minus the log-probability of the label: the loss of softmax regression.

    Examples
    --------
    >>> import numpy as np
    >>> Softmax().proba(np.array([[0.0, 0.0]]))
    array([[0.5, 0.5]])
    """

    kind: ClassVar[str] = "class"
    fused: ClassVar[bool] = True

    def targets(self, y: object, classes: NDArray[Any], n_rows: int, name: str) -> NDArray[Any]:
        targets = encode(y, classes, name, least=min(1, n_rows))
        if targets.shape[0] != n_rows:
            raise ShapeMismatch(
                f"{name} must have {n_rows} labels, one for each row, got {targets.shape[0]}. Pass a "
                "label for every row."
            )
        return targets

    def basis(self, n_outcomes: int, reference: Array) -> Float[Array, "k c"]:
        return like(_contrasts(n_outcomes), reference, dtype=reference.dtype)

    def proba(self, logits: Float[Array, "*n k"]) -> Float[Array, "*n k"]:
        return softmax(logits)

    def rows(
        self, logits: Float[Array, "*n k"], targets: Float[Array, "n k"]
    ) -> Float[Array, "*n"]:
        xp = namespace(logits)
        return -xp.sum(targets * log_softmax(logits), axis=-1)

    def n_answers(self, n_outcomes: int) -> int:
        return n_outcomes

    def answers(self, proba: Float[Array, "n k"]) -> Float[Array, "1 l k"]:
        xp = namespace(proba)
        return xp.eye(proba.shape[1], dtype=proba.dtype, device=proba.device)[None, :, :]

    def chances(self, proba: Float[Array, "n k"]) -> Float[Array, "n k"]:
        return proba

    def even(self, proba: Float[Array, "n k"]) -> Float[Array, "n k"]:
        return namespace(proba).full_like(proba, 1.0 / proba.shape[1])

    def softened(self, proba: Float[Array, "n k"], T: float) -> Float[Array, "n k"]:
        return tempered(proba, T)

    def standing_for(
        self, targets: Float[Array, "n k"], proba: Float[Array, "n k"]
    ) -> Float[Array, "n k"]:
        return like(targets, proba, dtype=proba.dtype)

    def supposed(
        self, belief: Float[Array, "n k"], proba: Float[Array, "n k"]
    ) -> Float[Array, "n k"]:
        return belief

    def decided(self, logits: NDArray[Any], classes: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(classes[logits.argmax(axis=1)])

    def along(self, proba: Float[Array, "n k"], motion: Float[Array, "n k"]) -> Float[Array, "n k"]:
        """Return d loss((x, k)) = Σ_j p_j s_j - s_k for every class k, with s the `motion`."""
        xp = namespace(proba, motion)
        return xp.sum(proba * motion, axis=-1, keepdims=True) - motion

    def own_slopes(
        self,
        f: Float[Array, "n c"],
        M: Float[Array, "n c c"],
        targets: Float[Array, "_ c l"],
        weights: Float[Array, "_ c l"],
    ) -> Float[Array, "n c l"] | None:
        if f.shape[1] > 1:
            return None
        t, w = targets[:, 0, :], weights[:, 0, :]
        root = own_logit(f, w * M[:, 0, :], t)
        return (w * (self.law(root[:, None, :])[:, 0, :] - t))[:, None, :]

    def curvature(
        self, proba: Float[Array, "*n k"], motion: Float[Array, "*n k"]
    ) -> Float[Array, "*n k"]:
        xp = namespace(proba, motion)
        return proba * (motion - xp.sum(proba * motion, axis=-1, keepdims=True))

    def weighted(
        self, proba: Float[Array, "n k"], weights: Float[Array, " n"]
    ) -> Callable[[Float[Array, "n k"]], Float[Array, "n k"]]:
        xp, heavy = namespace(proba), weights[:, None] * proba
        return lambda s: heavy * (s - xp.sum(proba * s, axis=-1, keepdims=True))

    def third(
        self, proba: Float[Array, "n k"], motion: Float[Array, "n k"]
    ) -> Float[Array, "n c c"]:
        xp = namespace(proba)
        Q = self.basis(proba.shape[-1], proba)
        q = self.curvature(proba, motion)
        cross = (q @ Q)[:, :, None] * (proba @ Q)[:, None, :]
        return _spread(q, Q) - cross - xp.permute_dims(cross, (0, 2, 1))

    def unseen(self, v: Float[Array, "p k"]) -> Float[Array, "p 1"]:
        return namespace(v).sum(v, axis=-1, keepdims=True) / v.shape[-1]

    def columns(self, Q: Float[Array, "k c"]) -> Float[Array, "l c"]:
        return Q if Q.shape[0] > 2 else namespace(Q).ones_like(Q[:1, :])

    def law(self, f: Float[Array, "n l m"]) -> Float[Array, "n l m"]:
        xp = namespace(f)
        if f.shape[1] == 1:
            return xp.tanh(f * 0.5**0.5) * 0.5**0.5
        law = xp.exp(f - xp.max(f, axis=1, keepdims=True))
        law /= xp.sum(law, axis=1, keepdims=True)
        return law

    def bent(self, law: Float[Array, "n l m"], d: Float[Array, "n l m"]) -> Float[Array, "n l m"]:
        if d.shape[1] == 1:
            return (0.5 - law * law) * d
        return law * (d - namespace(d).sum(law * d, axis=1, keepdims=True))

    def least_ratio(
        self, law: Float[Array, "n l m"], before: Float[Array, "n l 1"]
    ) -> Float[Array, " m"]:
        xp = namespace(law)
        now, then = (0.5 - x * x if law.shape[1] == 1 else x for x in (law, before))
        return xp.min(now / xp.maximum(then, xp.full_like(then, 1e-300)), axis=(0, 1))

    def law_blocks(self, law: Float[Array, "n l m"]) -> Float[Array, "n m c c"]:
        if law.shape[1] > 1:
            return super().law_blocks(law)
        return (0.5 - law * law)[:, 0, :, None, None]

    def blocks(self, proba: Float[Array, "n k"]) -> Float[Array, "n c c"]:
        Q = self.basis(proba.shape[-1], proba)
        mean = proba @ Q
        return _spread(proba, Q) - mean[:, :, None] * mean[:, None, :]

    def factors(self, proba: Float[Array, "n k"]) -> Float[Array, "n c c"]:
        """Return L with LLᵀ = QᵀΛQ for every row, exact also where Λ is singular.

        Λ = D^½(I - ssᵀ)D^½ with s = √p; columns of a reflector that sends s to -e₀ span I - ssᵀ.
        """
        xp = namespace(proba)
        Q = self.basis(proba.shape[-1], proba)
        eye = xp.eye(proba.shape[-1], dtype=proba.dtype, device=proba.device)
        root = xp.sqrt(proba)
        h = root + eye[0, :]
        reflector = eye - h[:, :, None] * (h / (1.0 + root[:, :1]))[:, None, :]
        return xp.matmul(Q.T, root[:, :, None] * reflector[:, :, 1:])

    def diagonal(self, proba: Float[Array, "n k"]) -> Float[Array, "n k"]:
        return proba * (1.0 - proba)

    def mean_curvature(
        self, proba: Float[Array, "n k"], weights: Float[Array, " n"]
    ) -> Float[Array, "k k"]:
        xp = namespace(proba)
        total = weights[:, None] * proba / xp.sum(weights)
        eye = xp.eye(total.shape[1], dtype=total.dtype, device=total.device)
        return eye * xp.sum(total, axis=0)[:, None] - proba.T @ total


def _spread(share: Float[Array, "n k"], Q: Float[Array, "k c"]) -> Float[Array, "n c c"]:
    """Return Σ_k share_k q_k q_kᵀ for all rows."""
    xp = namespace(share)
    K, c = Q.shape
    pairs = xp.reshape(Q[:, :, None] * Q[:, None, :], (K, c * c))
    return xp.reshape(share @ pairs, (-1, c, c))


def tempered(p: Float[Array, "*n k"], T: float) -> Float[Array, "*n k"]:
    """Return softmax(log p / T); T = 0 is the argmax, shared among ties."""
    xp = namespace(p)
    if T == 1.0:
        return p
    if T == 0.0:
        best = xp.astype(p == xp.max(p, axis=-1, keepdims=True), p.dtype)
        return best / xp.sum(best, axis=-1, keepdims=True)
    tiny = float(xp.finfo(p.dtype).smallest_normal)
    log_p = xp.log(xp.maximum(p, xp.full_like(p, tiny)))
    return softmax(log_softmax(log_p) / T)
