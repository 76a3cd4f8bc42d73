"""One logistic regression for each of several labels, fitted together."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence, Set
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array, is_sparse, namespace, to_numpy
from goalward.core.rows import Labelled
from goalward.errors import BadInput, ShapeMismatch, UnknownLabel
from goalward.models.linear_fit import Learner, names_of
from goalward.models.loss import (
    Answers,
    Blocks,
    Loss,
    Own,
    Table,
    Tables,
    diagonal_of,
    on_diagonal,
    own_logit,
    tempered,
)

NAMED = (Set, Mapping)


@dataclass(frozen=True)
class Sigmoid(Loss):
    """The loss of one-vs-rest logistic regression for K binary labels.

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
        return _answers(y, classes, n_rows, name)

    def proba(self, logits: Tables) -> Tables:
        return 0.5 + 0.5 * namespace(logits).tanh(0.5 * logits)

    def rows(self, logits: Tables, targets: Table) -> Float[Array, "*n"]:
        xp = namespace(logits)
        each = xp.logaddexp(xp.zeros_like(logits), logits) - targets * logits
        return xp.sum(xp.where(xp.isnan(targets), xp.zeros_like(each), each), axis=-1)

    def slope(self, logits: Tables, targets: Table) -> Tables:
        xp = namespace(logits)
        slope = self.proba(logits) - targets
        return xp.where(xp.isnan(slope), xp.zeros_like(slope), slope)

    def answered(self, targets: Table) -> Table | None:
        xp = namespace(targets)
        missing = xp.isnan(targets)
        return xp.astype(~missing, targets.dtype) if bool(xp.any(missing)) else None

    def seen(self, proba: Table, targets: Table) -> Table:
        answered = self.answered(targets)
        return proba if answered is None else proba * answered

    def diagonal(self, proba: Tables) -> Tables:
        return proba * (1.0 - proba)

    def third(self, proba: Table, motion: Table) -> Blocks:
        return on_diagonal(self.diagonal(proba) * (1.0 - 2.0 * proba) * motion)

    def given(self, proba: Table) -> Float[Array, "n k 2"]:
        xp = namespace(proba)
        return xp.stack([xp.zeros_like(proba), xp.ones_like(proba)], axis=2)

    def chances(self, proba: Table) -> Answers:
        return self.softened(proba, 1.0)

    def even(self, proba: Table) -> Answers:
        xp = namespace(proba)
        shape = (proba.shape[0], 2 * proba.shape[1])
        return xp.full(shape, 0.5, dtype=proba.dtype, device=proba.device)

    def softened(self, proba: Table, T: float) -> Answers:
        xp = namespace(proba)
        pairs = tempered(xp.stack([1.0 - proba, proba], axis=2), T)
        return xp.reshape(pairs, (proba.shape[0], -1))

    def decided(self, logits: NDArray[Any], classes: NDArray[Any]) -> NDArray[Any]:
        return (logits > 0.0).astype(np.int64)

    def own_slopes(self, f: Float[Array, "n c"], M: Blocks, targets: Own, weights: Own) -> Own:
        t = 2.0**0.5 * (targets - 0.5)
        root = own_logit(f[:, :, None] * 0.5**0.5, 0.5 * weights * diagonal_of(M), t)
        return weights * (0.5 * namespace(f).tanh(root * 0.5**0.5) - 0.5**0.5 * t)


def _answers(y: Any, labels: NDArray[Any], n_rows: int, name: str) -> NDArray[Any]:
    K, rows = len(labels), y.toarray() if is_sparse(y) else y
    if isinstance(y, list) and y and isinstance(y[0], NAMED):
        rows = _named(y, labels.tolist(), name)
    table = np.asarray(rows if isinstance(rows, list) else to_numpy(rows))
    table = table.reshape(-1, K) if table.size == 0 or (table.ndim == 1 and K == 1) else table
    if table.shape != (n_rows, K):
        raise ShapeMismatch(
            f"{name} must have shape ({n_rows}, {K}), got {table.shape}. Pass a 1 (yes), 0 (no) or NaN "
            "(not answered) for each row and label, or the set of labels of each row."
        )
    if table.dtype.kind not in "biuf":
        try:
            table = np.where(table == None, np.nan, table).astype(np.float64)  # noqa: E711
        except (TypeError, ValueError) as error:
            raise BadInput(
                f"{name} must hold 1 (yes), 0 (no) or NaN (not answered), got {table.dtype}."
            ) from error
    table = table.astype(np.float64)
    wrong = np.argwhere((table < 0.0) | (table > 1.0))
    if len(wrong):
        row, column = wrong[0]
        raise BadInput(
            f"{name} must hold 1 (yes), 0 (no) or NaN (not answered), got {table[row, column]:g} in row {row}."
        )
    return table


def _named(y: list[Any], labels: list[Any], name: str) -> NDArray[Any]:
    """Return answers given by name: a set is complete, a dict may leave labels out."""
    places = {label: k for k, label in enumerate(labels)}
    table = np.zeros((len(y), len(labels)))
    for i, row in enumerate(y):
        unknown = [label for label in row if label not in places]
        if unknown:
            raise UnknownLabel(
                f"Labels of {name} must be among {labels[:10]!r}, got {unknown[0]!r} in row {i}. "
                "Correct it, or fit with labels=[...] that name every label."
            )
        if isinstance(row, Mapping):
            table[i] = np.nan
            for label, answer in row.items():
                table[i, places[label]] = np.nan if answer is None else float(answer)
        else:
            table[i, [places[label] for label in row]] = 1.0
    return table


@dataclass(eq=False, repr=False)
class MultiLabel(Learner):
    """One-vs-rest logistic regression: K binary labels, which may be missing.

    It is scikit-learn's `OneVsRestClassifier(LogisticRegression(C=C))`.

    Parameters
    ----------
    labels
        Column names, by default from a frame or 0, 1, ...; needed to fit without labelled rows.
    fit_intercept
        Whether logits have a constant; it is penalised while a label lacks a yes or a no.
    C, tol, solver
        As for `Logistic`.
    features
        As for `Logistic`; C may be "loo".

    Examples
    --------
    >>> import goalward as gw
    >>> X = [[0.0], [1.0], [2.0], [3.0]]
    >>> y = [{"cold"}, {"cold", "wet"}, {"wet"}, {"wet": True}]  # of the last, one label is answered
    >>> fitted = gw.MultiLabel(C=10.0, labels=["cold", "wet"]).fit(X, y)
    >>> fitted.predict([[0.0], [3.0]])
    array([[1, 0],
           [0, 1]])
    """

    names: ClassVar[str] = "labels"

    C: float | str = 1.0
    _: KW_ONLY
    labels: Sequence[Hashable] | None = None
    fit_intercept: bool = True
    tol: float = 1e-8
    solver: Any = "auto"
    features: Any = "linear"

    def _columns(self, y: Any) -> tuple[NDArray[Any], Loss]:
        return names_of(y, self.labels), Sigmoid()

    def _penalty(self, known: Labelled, *others: Any) -> tuple[float, bool]:
        answers = to_numpy(known.targets)[to_numpy(known.weights) > 0.0]
        yes, no = np.nansum(answers, axis=0) > 0.0, np.nansum(1.0 - answers, axis=0) > 0.0
        return float(self.C), bool((yes & no).all())
