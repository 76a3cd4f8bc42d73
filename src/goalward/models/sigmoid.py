"""Several labels of a row, each a yes or a no by itself.

With p = 1/(1 + exp(-f)) the loss is Σ_k log(1 + exp f_k) - t_k f_k, its slope p - t and its curvature
Λ = diag(p (1 - p)): no label bends another. A label that nobody answered has the target NaN. It
costs nothing, and pulls and bends nothing, so a row may be answered in part.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array, is_sparse, namespace, to_numpy
from goalward.errors import BadInput, ShapeMismatch, UnknownLabel
from goalward.models.loss import Separate, on_diagonal, own_logit
from goalward.models.softmax import tempered

NAMED = (Set, Mapping)


@dataclass(frozen=True)
class Sigmoid(Separate):
    """Yes or no to each of K labels: the loss of one-vs-rest logistic regression.

    Targets are (n, K): 1 for yes, 0 for no, a number between for a soft answer, NaN for none.

    Examples
    --------
    >>> import numpy as np
    >>> Sigmoid().proba(np.array([[0.0, 0.0]]))
    array([[0.5, 0.5]])
    >>> Sigmoid().rows(np.array([[0.0, 0.0]]), np.array([[1.0, np.nan]]))  # log 2: one is answered
    array([0.69314718])
    """

    kind: ClassVar[str] = "labels"
    steepest: ClassVar[float] = 0.25

    def targets(self, y: object, classes: NDArray[Any], n_rows: int, name: str) -> NDArray[Any]:
        """Return yes and no to each label, from a table, or from sets or dicts of label names."""
        return _answers(y, classes, n_rows, name)

    def proba(self, logits: Float[Array, "*n k"]) -> Float[Array, "*n k"]:
        """Return p = 1/(1 + exp(-f))."""
        return 0.5 + 0.5 * namespace(logits).tanh(0.5 * logits)

    def rows(
        self, logits: Float[Array, "*n k"], targets: Float[Array, "n k"]
    ) -> Float[Array, "*n"]:
        """Return Σ_k log(1 + exp f_k) - t_k f_k over the labels that are answered."""
        xp = namespace(logits)
        each = xp.logaddexp(xp.zeros_like(logits), logits) - targets * logits
        return xp.sum(xp.where(xp.isnan(targets), xp.zeros_like(each), each), axis=-1)

    def slope(
        self, logits: Float[Array, "*n k"], targets: Float[Array, "n k"]
    ) -> Float[Array, "*n k"]:
        """Return p - t; 0 where there is no answer."""
        xp = namespace(logits)
        slope = self.proba(logits) - targets
        return xp.where(xp.isnan(slope), xp.zeros_like(slope), slope)

    def answered(self, targets: Float[Array, "n k"]) -> Float[Array, "n k"] | None:
        """Return which labels have an answer; None if all have."""
        xp = namespace(targets)
        missing = xp.isnan(targets)
        return xp.astype(~missing, targets.dtype) if bool(xp.any(missing)) else None

    def seen(self, proba: Float[Array, "n k"], targets: Float[Array, "n k"]) -> Float[Array, "n k"]:
        """Return p, and 0 where there is no answer: the curvature p (1 - p) vanishes there."""
        answered = self.answered(targets)
        return proba if answered is None else proba * answered

    def diagonal(self, proba: Float[Array, "*n k"]) -> Float[Array, "*n k"]:
        """Return p (1 - p)."""
        return proba * (1.0 - proba)

    def third(
        self, proba: Float[Array, "n k"], motion: Float[Array, "n k"]
    ) -> Float[Array, "n k k"]:
        """Return p (1 - p) (1 - 2p) s on the diagonal."""
        return on_diagonal(self.diagonal(proba) * (1.0 - 2.0 * proba) * motion)

    def given(self, proba: Float[Array, "n k"]) -> Float[Array, "n k 2"]:
        """Return 0 and 1: no and yes."""
        xp = namespace(proba)
        return xp.stack([xp.zeros_like(proba), xp.ones_like(proba)], axis=2)

    def chances(self, proba: Float[Array, "n k"]) -> Float[Array, "n l"]:
        """Return 1 - p and p of each label."""
        return self.softened(proba, 1.0)

    def even(self, proba: Float[Array, "n k"]) -> Float[Array, "n l"]:
        """Return ½ for no and yes of each label."""
        xp = namespace(proba)
        shape = (proba.shape[0], 2 * proba.shape[1])
        return xp.full(shape, 0.5, dtype=proba.dtype, device=proba.device)

    def softened(self, proba: Float[Array, "n k"], T: float) -> Float[Array, "n l"]:
        """Return no and yes of each label as a softmax of two classes at a temperature."""
        xp = namespace(proba)
        pairs = tempered(xp.stack([1.0 - proba, proba], axis=2), T)
        return xp.reshape(pairs, (proba.shape[0], -1))

    def decided(self, logits: NDArray[Any], classes: NDArray[Any]) -> NDArray[Any]:
        """Return 1 for the labels that are more likely than not, else 0."""
        return (logits > 0.0).astype(np.int64)

    def own_slope(
        self,
        f: Float[Array, "n c 1"],
        M: Float[Array, "n c 1"],
        t: Float[Array, "_ c l"],
        w: Float[Array, "_ c l"],
    ) -> Float[Array, "n c l"]:
        """Return w (p(f - Mr) - t): a label is a contrast of two classes, f/√2, with the law √2 (p - ½)."""
        t = 2.0**0.5 * (t - 0.5)
        root = own_logit(f * 0.5**0.5, 0.5 * w * M, t)
        return w * (0.5 * namespace(f).tanh(root * 0.5**0.5) - 0.5**0.5 * t)


def _answers(y: Any, labels: NDArray[Any], n_rows: int, name: str) -> NDArray[Any]:
    """Return (n, K) answers, checked."""
    K, rows = len(labels), y.toarray() if is_sparse(y) else y
    if isinstance(y, list) and y and isinstance(y[0], NAMED):
        rows = _named(y, labels.tolist(), name)
    table = np.asarray(rows if isinstance(rows, list) else to_numpy(rows))
    table = table.reshape(-1, K) if table.size == 0 or (table.ndim == 1 and K == 1) else table
    if table.shape != (n_rows, K):
        raise ShapeMismatch(
            f"{name} has shape {table.shape}; ({n_rows}, {K}) was expected. Pass a 1 (yes), 0 (no) or NaN "
            "(not answered) for each row and label, or the set of labels of each row."
        )
    if table.dtype.kind not in "biuf":
        try:
            table = np.where(table == None, np.nan, table).astype(np.float64)  # noqa: E711
        except (TypeError, ValueError) as error:
            raise BadInput(
                f"{name} holds other things than numbers; 1 (yes), 0 (no) or NaN (not answered) was expected."
            ) from error
    table = table.astype(np.float64)
    wrong = np.argwhere((table < 0.0) | (table > 1.0))
    if len(wrong):
        row, column = wrong[0]
        raise BadInput(
            f"{name} holds {table[row, column]:g} in row {row}; 1 (yes), 0 (no) or NaN (not answered) was "
            "expected."
        )
    return table


def _named(y: list[Any], labels: list[Any], name: str) -> NDArray[Any]:
    """Return answers that came by name: a set says yes to some and no to the rest, a dict leaves out."""
    places = {label: k for k, label in enumerate(labels)}
    table = np.zeros((len(y), len(labels)))
    for i, row in enumerate(y):
        unknown = [label for label in row if label not in places]
        if unknown:
            raise UnknownLabel(
                f"Row {i} of {name} has the label {unknown[0]!r}; one of {labels[:10]!r} was expected. "
                "Correct it, or fit with labels=[...] that name every label."
            )
        if isinstance(row, Mapping):
            table[i] = np.nan
            for label, answer in row.items():
                table[i, places[label]] = np.nan if answer is None else float(answer)
        else:
            table[i, [places[label] for label in row]] = 1.0
    return table
