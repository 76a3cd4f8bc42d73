"""The softmax and minus the log-probability of a label under it (cross-entropy).

With p = softmax(f) and a target distribution t, the loss is -Σ t log p, its slope p - t and its
curvature Λ = diag(p) - ppᵀ. Λ is singular along "all logits up together", so K classes have K - 1
effective directions: contrasts, the vectors that sum to zero.
"""

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
        """Return labels as one-hot rows, or distributions over the classes as they are."""
        targets = encode(y, classes, name)
        if targets.shape[0] != n_rows:
            raise ShapeMismatch(
                f"{name} has {targets.shape[0]} labels; {n_rows} were expected, one for each "
                "row. Pass a label for every row."
            )
        return targets

    def basis(self, n_outcomes: int, reference: Array) -> Float[Array, "k c"]:
        """Return an orthonormal basis, K x (K-1), of the vectors that sum to zero."""
        return like(_contrasts(n_outcomes), reference, dtype=reference.dtype)

    def proba(self, logits: Float[Array, "*n k"]) -> Float[Array, "*n k"]:
        """Return softmax(logits)."""
        return softmax(logits)

    def rows(
        self, logits: Float[Array, "*n k"], targets: Float[Array, "n k"]
    ) -> Float[Array, "*n"]:
        """Return -Σ_k t_k log p_k for each row."""
        xp = namespace(logits)
        return -xp.sum(targets * log_softmax(logits), axis=-1)

    def questions(self, n_outcomes: int) -> int:
        """Return 1: which class it is."""
        return 1

    def n_answers(self, n_outcomes: int) -> int:
        """Return K."""
        return n_outcomes

    def answers(self, proba: Float[Array, "n k"]) -> Float[Array, "1 l k"]:
        """Return each class alone, the same for all rows."""
        xp = namespace(proba)
        return xp.eye(proba.shape[1], dtype=proba.dtype, device=proba.device)[None, :, :]

    def chances(self, proba: Float[Array, "n k"]) -> Float[Array, "n k"]:
        """Return p."""
        return proba

    def even(self, proba: Float[Array, "n k"]) -> Float[Array, "n k"]:
        """Return 1/K."""
        return namespace(proba).full_like(proba, 1.0 / proba.shape[1])

    def softened(self, proba: Float[Array, "n k"], T: float) -> Float[Array, "n k"]:
        """Return softmax(log p / T); of T = 0 the likeliest class."""
        return tempered(proba, T)

    def standing_for(
        self, targets: Float[Array, "n k"], proba: Float[Array, "n k"]
    ) -> Float[Array, "n k"]:
        """Return the target: it is a distribution over the answers."""
        return like(targets, proba, dtype=proba.dtype)

    def supposed(
        self, belief: Float[Array, "n k"], proba: Float[Array, "n k"]
    ) -> Float[Array, "n k"]:
        """Return the belief, a soft label."""
        return belief

    def decided(self, logits: NDArray[Any], classes: NDArray[Any]) -> NDArray[Any]:
        """Return the most probable class of each row."""
        return np.asarray(classes[logits.argmax(axis=1)])

    def along(self, proba: Float[Array, "n k"], motion: Float[Array, "n k"]) -> Float[Array, "n k"]:
        """Return d loss((x, k)) for every class k when the logits move by `motion`.

        With s the motion, ⟨p - e_k, s⟩ = Σ_j p_j s_j - s_k, so all K classes of a row cost one row
        of logits and no gradient for each.
        """
        xp = namespace(proba, motion)
        return xp.sum(proba * motion, axis=-1, keepdims=True) - motion

    def own_slopes(
        self,
        f: Float[Array, "n c"],
        M: Float[Array, "n c c"],
        targets: Float[Array, "_ c l"],
        weights: Float[Array, "_ c l"],
    ) -> Float[Array, "n c l"] | None:
        """Return the slopes of two classes, by their one contrast."""
        if f.shape[1] > 1:
            return None
        t, w = targets[:, 0, :], weights[:, 0, :]
        root = own_logit(f, w * M[:, 0, :], t)
        return (w * (self.law(root[:, None, :])[:, 0, :] - t))[:, None, :]

    def curvature(
        self, proba: Float[Array, "*n k"], motion: Float[Array, "*n k"]
    ) -> Float[Array, "*n k"]:
        """Return Λs = p∘(s - ⟨p, s⟩)."""
        xp = namespace(proba, motion)
        return proba * (motion - xp.sum(proba * motion, axis=-1, keepdims=True))

    def weighted(
        self, proba: Float[Array, "n k"], weights: Float[Array, " n"]
    ) -> Callable[[Float[Array, "n k"]], Float[Array, "n k"]]:
        """Return the map s -> wp∘(s - ⟨p, s⟩), with wp made once."""
        xp, heavy = namespace(proba), weights[:, None] * proba
        return lambda s: heavy * (s - xp.sum(proba * s, axis=-1, keepdims=True))

    def third(
        self, proba: Float[Array, "n k"], motion: Float[Array, "n k"]
    ) -> Float[Array, "n c c"]:
        """Return QᵀTQ with T = diag(q) - q pᵀ - p qᵀ, q = Λs."""
        xp = namespace(proba)
        Q = self.basis(proba.shape[-1], proba)
        q = self.curvature(proba, motion)
        cross = (q @ Q)[:, :, None] * (proba @ Q)[:, None, :]
        return _spread(q, Q) - cross - xp.permute_dims(cross, (0, 2, 1))

    def unseen(self, v: Float[Array, "p k"]) -> Float[Array, "p 1"]:
        """Return the mean over the classes."""
        return namespace(v).sum(v, axis=-1, keepdims=True) / v.shape[-1]

    def columns(self, Q: Float[Array, "k c"]) -> Float[Array, "l c"]:
        """Return Q; for two classes their contrast itself, one function in place of two."""
        return Q if Q.shape[0] > 2 else namespace(Q).ones_like(Q[:1, :])

    def law(self, f: Float[Array, "n l m"]) -> Float[Array, "n l m"]:
        """Return softmax(f); of two classes (p₀ - p₁)/√2 = tanh(f/√2)/√2."""
        xp = namespace(f)
        if f.shape[1] == 1:
            return xp.tanh(f * 0.5**0.5) * 0.5**0.5
        law = xp.exp(f - xp.max(f, axis=1, keepdims=True))
        law /= xp.sum(law, axis=1, keepdims=True)
        return law

    def bent(self, law: Float[Array, "n l m"], d: Float[Array, "n l m"]) -> Float[Array, "n l m"]:
        """Return p∘(d - ⟨p, d⟩); of two classes (½ - p²) d."""
        if d.shape[1] == 1:
            return (0.5 - law * law) * d
        return law * (d - namespace(d).sum(law * d, axis=1, keepdims=True))

    def least_ratio(
        self, law: Float[Array, "n l m"], before: Float[Array, "n l 1"]
    ) -> Float[Array, " m"]:
        """Return min p_k/q_k: a variance is a least square, so it shrinks by no more than that."""
        xp = namespace(law)
        now, then = (0.5 - x * x if law.shape[1] == 1 else x for x in (law, before))
        return xp.min(now / xp.maximum(then, xp.full_like(then, 1e-300)), axis=(0, 1))

    def law_blocks(self, law: Float[Array, "n l m"]) -> Float[Array, "n m c c"]:
        """Return QᵀΛQ of m models side by side; of two classes ½ - p²."""
        if law.shape[1] > 1:
            return super().law_blocks(law)
        return (0.5 - law * law)[:, 0, :, None, None]

    def blocks(self, proba: Float[Array, "n k"]) -> Float[Array, "n c c"]:
        """Return QᵀΛQ for every row."""
        Q = self.basis(proba.shape[-1], proba)
        mean = proba @ Q
        return _spread(proba, Q) - mean[:, :, None] * mean[:, None, :]

    def factors(self, proba: Float[Array, "n k"]) -> Float[Array, "n c c"]:
        """Return L with LLᵀ = QᵀΛQ for every row, exact also where Λ is singular.

        Λ = D^½(I - ssᵀ)D^½ with s = √p, a unit vector. The reflector I - hhᵀ/(1 + s₀),
        h = s + e₀, sends s to -e₀, so its other columns span what I - ssᵀ keeps:
        L = QᵀD^½ (those columns). No difference of nearly equal numbers is taken.
        """
        xp = namespace(proba)
        Q = self.basis(proba.shape[-1], proba)
        eye = xp.eye(proba.shape[-1], dtype=proba.dtype, device=proba.device)
        root = xp.sqrt(proba)
        h = root + eye[0, :]
        reflector = eye - h[:, :, None] * (h / (1.0 + root[:, :1]))[:, None, :]
        return xp.matmul(Q.T, root[:, :, None] * reflector[:, :, 1:])

    def diagonal(self, proba: Float[Array, "n k"]) -> Float[Array, "n k"]:
        """Return p∘(1 - p)."""
        return proba * (1.0 - proba)

    def mean_curvature(
        self, proba: Float[Array, "n k"], weights: Float[Array, " n"]
    ) -> Float[Array, "k k"]:
        """Return the mean of Λ over the rows, by their weights."""
        xp = namespace(proba)
        total = weights[:, None] * proba / xp.sum(weights)
        eye = xp.eye(total.shape[1], dtype=total.dtype, device=total.device)
        return eye * xp.sum(total, axis=0)[:, None] - proba.T @ total


def _spread(share: Float[Array, "n k"], Q: Float[Array, "k c"]) -> Float[Array, "n c c"]:
    """Return Σ_k share_k q_k q_kᵀ for all rows: one product with the stacked outer products."""
    xp = namespace(share)
    K, c = Q.shape
    pairs = xp.reshape(Q[:, :, None] * Q[:, None, :], (K, c * c))
    return xp.reshape(share @ pairs, (-1, c, c))


def tempered(p: Float[Array, "*n k"], T: float) -> Float[Array, "*n k"]:
    """Return softmax(log p / T); of T = 0 the likeliest, shared where several are."""
    xp = namespace(p)
    if T == 1.0:
        return p
    if T == 0.0:
        best = xp.astype(p == xp.max(p, axis=-1, keepdims=True), p.dtype)
        return best / xp.sum(best, axis=-1, keepdims=True)
    tiny = float(xp.finfo(p.dtype).smallest_normal)
    log_p = xp.log(xp.maximum(p, xp.full_like(p, tiny)))
    return softmax(log_softmax(log_p) / T)
