"""The labelled rows themselves, with other labels and without one, as rows that moved models add."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from jaxtyping import Float

from goalward.core.arrays import Array, Rows, namespace, rows_at
from goalward.errors import Unsupported
from goalward.models import Fitted
from goalward.utility.added_rows import Singles
from goalward.utility.base import Base

__all__ = ["ChangedRows", "relative_weights"]


@dataclass(frozen=True)
class ChangedRows(Singles):
    """Labelled rows under each of K labels instead of their own, and last without one.

    With label k instead of y, and w_k its weight, the objective gains w_k ℓ(f, k) and loses
    w ℓ(f, y): mostly a pull w(e_k - y) that is the same wherever the model is. Without the row it
    loses w ℓ(f, y). So `targets` hold the pulls, weight and all, and `weights` what becomes of the
    row's curvature, w_k - w or -w. A row's own label moves nothing; the row is dropped there once
    more.
    """

    @classmethod
    def of_labelled(
        cls, base: Base, part: slice, rows: Rows, ratios: Float[Array, "n k"]
    ) -> ChangedRows:
        """Return the models of some labelled rows, K + 1 of each; ratios are w_k / w."""
        Z, y, w = (rows_at(x, part) for x in (base.B, base.targets, base.weights))
        xp = namespace(Z)
        heavy = w[:, None] * ratios
        moved = heavy[:, :, None] * base.Q[None, :, :] - (w[:, None] * y)[:, None, :]
        own = xp.max(xp.abs(moved), axis=2) <= 1e-12 * w[:, None]
        dropped = xp.concat([own, own[:, :1] | True], axis=1)
        moved = xp.concat([moved, moved[:, :1, :]], axis=1)
        bends = xp.concat([heavy, heavy[:, :1]], axis=1) - w[:, None]
        pulls = xp.where(dropped[:, :, None], -(w[:, None] * y)[:, None, :], moved)
        bends = xp.where(dropped, -w[:, None], bends)
        pulls = xp.reshape(xp.permute_dims(pulls, (2, 0, 1)), (1, y.shape[1], -1))
        made = cls.of(base, rows, Z, pulls, xp.reshape(bends, (1, 1, -1)))
        return cast(ChangedRows, made)

    @property
    def pulls(self) -> Float[Array, "1 c m"]:
        """What the labels pull with."""
        return self.targets

    def bend(self, base: Base, law: Array) -> Float[Array, "m c c"]:
        """Return (I + DM)⁻¹D at the optimum before, wherever the model is by now.

        There a row's curvature is a part of 𝓗₀, and what is left without it is positive.
        """
        return super().bend(base, base.loss.law(base.lifted(self.logits(*self.unmoved(base)))))

    def implicit(self, base: Base) -> tuple[Array, Array]:
        """Return the optimum before: the step from there is Newton's, as far as the line search goes."""
        return self.unmoved(base)


def relative_weights(fitted: Fitted) -> Float[Array, "n k"]:
    """Return what each labelled row would weigh with each label, as a share of what it does."""
    fitted.check_kind("gw.relabel")
    if fitted.label_counts is not None:
        raise Unsupported(
            "gw.relabel came with a goal and class_weight='balanced': a label that changes changes the "
            "weights of all rows. Weights that stay were expected: pass class_weight as a dict."
        )
    by_class = fitted.label_weights
    return by_class[None, :] / (fitted.labelled.targets @ by_class)[:, None]
