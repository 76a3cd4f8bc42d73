"""A model at its optimum, with its labelled rows and curvature."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import array_api_compat
import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arguments import described
from goalward.core.arrays import (
    Array,
    Rows,
    UsersArray,
    astype,
    is_sparse,
    like,
    namespace,
    norm,
    stack_rows,
    to_numpy,
)
from goalward.core.card import card
from goalward.core.labels import clean_weights
from goalward.core.pool import as_pool, check_pool, n_rows
from goalward.core.rows import Candidates, Labelled, check_columns, clean_rows, held
from goalward.errors import Separable, Unsupported
from goalward.models.linear import LinearModel
from goalward.models.loss import Loss, Softmax
from goalward.models.model import Model
from goalward.models.network import Validity
from goalward.models.objective import Objective
from goalward.solvers import Auto, Inverse, Solve, Solver
from goalward.solvers.inverse import Coordinates, exact_route, own_leverages

NAMES = {
    "class": "softmax regression",
    "labels": "logistic regressions",
    "numbers": "ridge regression",
}
KINDS = {"class": "one class for each row", "labels": "several labels", "numbers": "numbers"}

WEAKEST = 2e-4
"""Penalty (C = 1e4) up to which steps from a separable fit are refused: they rank rows badly."""

MAPPED = 2**13
"""Rows that go through a feature map together: what it makes of them stays in the cache."""

FOLDS = 5
"""Fits that take the place of leave-one-out where it would take too long."""

LARGEST_RESIDUAL = 1e-8
"""Below this loss of every row, 1 - p_y, the curvature p(1-p) has lost half of its digits."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """A trained classifier with its labelled rows, penalty and curvature.

    Parameters
    ----------
    params
        (p, K): weights, then intercepts as a last row if there is one.
    penalty
        ρ for each row of `params`: 1/C on weights, 0 on a free intercept.
    classes
        (K,) labels in the order of the columns.
    gradient
        ‖∇F‖ at `params` relative to ‖∇F(0)‖.
    class_weights, label_counts
        Weight of a new row by class, and label counts if the weights are balanced.
    free_penalty
        The penalty once every class has a label, if intercepts are penalised until then.

    Examples
    --------
    >>> import goalward as gw
    >>> fitted = gw.Logistic().fit([[0.0], [1.0], [2.0]], ["a", "b", "b"])
    >>> fitted.classes
    array(['a', 'b'], dtype='<U1')
    >>> fitted.predict([[3.0]])
    array(['b'], dtype='<U1')
    """

    params: Float[Array, "p k"] = field(repr=False)
    labelled: Labelled = field(repr=False)
    penalty: Float[Array, " p"] = field(repr=False)
    classes: NDArray[Any]
    model: Model = LinearModel()
    loss: Loss = Softmax()
    gradient: float = 0.0
    iterations: int = 0
    C: float | None = None
    transform: Callable[[Any], Any] | None = field(default=None, repr=False)
    class_weights: Float[Array, " k"] | None = field(default=None, repr=False)
    label_counts: Float[Array, " k"] | None = field(default=None, repr=False)
    free_penalty: Float[Array, " p"] | None = field(default=None, repr=False)
    columns: tuple[str, ...] | None = field(default=None, repr=False)
    validity: Validity | None = field(default=None, repr=False)

    @property
    def feature_map(self) -> Any:
        """The map in front of the model, without an opinion beside it; None if there is none."""
        return getattr(self.transform, "features", self.transform)

    @property
    def opinion(self) -> Any:
        """The opinion whose guesses the model uses, if any."""
        return self.transform if hasattr(self.transform, "trust") else None

    @property
    def portable(self) -> bool:
        """Whether any thread and device may transform rows."""
        return self.transform is None or getattr(self.transform, "portable", False)

    @property
    def says(self) -> str:
        """The model in words."""
        columns = f"{self.n_features:,} column{'s' * (self.n_features != 1)}"
        if self.transform is not None:
            columns = getattr(self.feature_map, "says", columns)
        strength = "" if self.C is None else f", C = {self.C:.3g}"
        if self.C is not None and self.loss.kind == "numbers":
            strength = f", alpha = {1 / self.C:.3g}"
        return f"{NAMES[self.loss.kind]} on {columns}{strength}"

    @cached_property
    def n_classes(self) -> int:
        return len(self.classes)

    @cached_property
    def n_answers(self) -> int:
        """Number of possible answers of a row; K for classes."""
        return self.loss.n_answers(self.n_classes)

    @cached_property
    def n_features(self) -> int:
        """Number of features after preprocessing."""
        return self.model.n_features(self.params)

    def features(self, X: object, name: str = "X", *, finite: bool = True) -> Rows:
        """Return preprocessed rows; finite=False skips the check of values."""
        X = held(X)
        if self.columns is not None:
            check_columns(X, self.columns, name)
        if self.transform is not None:
            X = self.transform(clean_rows(X, name) if finite and self.portable else X)
        rows = clean_rows(X, name, n_features=self.n_features, finite=finite)
        if is_sparse(rows) and not array_api_compat.is_numpy_array(self.params):
            raise Unsupported(
                f"{name} must be of the model's array library, got a SciPy sparse matrix. Fit on NumPy "
                "or sparse rows, or pass dense ones."
            )
        return like(rows, self.params)

    def targets(self, y: object, n_rows: int, name: str = "y") -> Float[Array, "n k"]:
        """Return labels, checked by the loss, as (n, K) targets in the model's library."""
        targets = self.loss.targets(y, self.classes, n_rows, name)
        return like(targets, self.params, dtype=self.params.dtype)

    def row_weights(self, weights: object, n_rows: int) -> Float[Array, " n"]:
        return like(clean_weights(weights, n_rows, "weights"), self.params, dtype=self.params.dtype)

    def logits(self, X: object) -> Float[Array, "n k"]:
        """Return the logits of raw rows; those that go through a map, block by block."""
        X = held(X)
        if self.transform is None or not self.portable or n_rows(X) <= MAPPED:
            return self.logits_of(self.features(X))
        check_pool(X, "X")
        blocks = as_pool(X, "X").blocks(MAPPED)
        parts = [self.logits_of(self.features(part, finite=False)) for _, part in blocks]
        return namespace(parts[0]).concat(parts, axis=0)

    def logits_of(self, rows: Rows) -> Float[Array, "n k"]:
        """Return the logits of preprocessed rows."""
        return self.model.logits(astype(self.params, rows.dtype), rows)

    def proba_of(self, rows: Rows) -> Float[Array, "n k"]:
        return self.loss.proba(self.logits_of(rows))

    def candidates(self, X: object, ids: NDArray[Any], start: int = 0) -> Candidates:
        """Return a block of a pool for this model; its values are not checked."""
        return Candidates(ids, self.features(X, "X_pool", finite=False), self.proba_of, start)

    def bound(self, goal: Any) -> list[Any]:
        """Return the terms of a goal with rows in memory, cached for this model."""
        made: dict[int, tuple[Any, list[Any]]] = vars(self).setdefault("bound_goals", {})
        if id(goal) not in made:
            goal.check_loss(self)
            made[id(goal)] = goal, goal.terms(self)
        return made[id(goal)][1]

    def with_rows(self, rows: Rows, targets: Float[Array, "n k"]) -> Fitted:
        """Return the same parameters with more labelled rows, weighted by their classes."""
        xp = namespace(targets)
        expecting = self.expecting(xp.sum(targets, axis=0))
        old = expecting.labelled
        weights = xp.concat([old.weights, expecting.weights_of(targets)])
        X = stack_rows(old.X, rows)
        known = Labelled(X, xp.concat([old.targets, targets]), weights)
        return replace(expecting, labelled=known)

    def weights_of(self, targets: Float[Array, "n k"]) -> Float[Array, " n"]:
        """Return the weights of newly labelled rows by class, or 1."""
        xp = namespace(targets)
        if self.loss.kind == "class":
            return xp.sum(targets * self.label_weights, axis=1)
        return xp.ones_like(targets[:, 0])

    def expecting(self, labels: Float[Array, " k"]) -> Fitted:
        """Return this model with the balanced weights and penalty it has after more `labels`."""
        xp, known, after = namespace(labels), self.labelled, self
        if self.free_penalty is not None and bool(xp.all(self.seen | (labels > 0.5))):
            after = replace(after, penalty=self.free_penalty, free_penalty=None)
        if self.label_counts is None:
            return after
        counts = self.label_counts + labels
        by_class = xp.sum(counts) / (self.n_classes * counts)
        ratio = (known.targets @ by_class) / (known.targets @ self.label_weights)
        labelled = replace(known, weights=known.weights * ratio)
        return replace(after, labelled=labelled, class_weights=by_class, label_counts=counts)

    @cached_property
    def has_two_classes(self) -> bool:
        """Whether two classes, or two rows of labels or numbers, are known."""
        if self.loss.kind != "class":
            return len(self.labelled) >= 2
        return int(to_numpy(self.seen).sum()) >= 2

    @cached_property
    def seen(self) -> Array:
        """Which classes have a label with weight."""
        return self.labelled.weights @ self.labelled.targets > 0.0

    @property
    def freeing(self) -> int | None:
        """The class whose first label would free the intercepts, if it is the only one unseen."""
        missing = np.flatnonzero(~to_numpy(self.seen))
        return int(missing[0]) if self.free_penalty is not None and len(missing) == 1 else None

    def predict_proba(self, X: object) -> Float[UsersArray, "n k"]:
        """Return (n, K) probabilities, columns in the order of `classes`."""
        proba: UsersArray = self.loss.proba(self.logits(X))
        return proba

    def predict(self, X: object) -> NDArray[Any]:
        """Return the most probable class of each row, 0 or 1 for each label, or numbers."""
        return self.loss.decided(to_numpy(self.logits(X)), self.classes)

    @property
    def objective(self) -> Objective:
        return Objective(self.labelled, self.penalty, self.model, self.loss)

    @cached_property
    def hessian(self) -> Any:
        """𝓗 at the optimum."""
        logits = self.model.logits(self.params, self.labelled.X)
        return self.model.curvature(self.objective, self.params, logits)

    @cached_property
    def solve(self) -> Solve:
        """The map g -> 𝓗⁻¹g by the solver that `Auto` picks, cached."""
        return Auto().prepare(self.hessian)

    def _repr_html_(self) -> str:
        word = "sum" if self.loss.kind == "numbers" else "labels"
        known = {"class": self.classes, word: np.nansum(to_numpy(self.labelled.targets), axis=0)}
        title = f"{self.n_features:,} features, {len(self.labelled):,} labelled rows"
        return card(title, known, bar=word, note="" if self.C is None else f"C = {self.C:.3g}")

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def posterior(self, rows: Rows, asker: str = "The posterior") -> Inverse:
        """Return the parameter covariance of a linear model, in coordinates of `rows`."""
        self.model.linear(asker)
        return Inverse.of(self.hessian, Coordinates.leading(self.hessian, rows))

    def polished(
        self, *, tol: float = 1e-8, max_iter: int | None = None, solver: Solver | None = None
    ) -> Fitted:
        """Return the model at its optimum; a network at a nearby minimum, others refitted."""
        return self.model.polished(self, tol=tol, max_iter=max_iter, solver=solver)

    @cached_property
    def label_weights(self) -> Float[Array, " l"]:
        """Weight of a newly labelled row by its answer."""
        targets, count = self.labelled.targets, self.n_answers
        xp = namespace(targets)
        equal = xp.ones(count, dtype=targets.dtype, device=targets.device)
        return equal if self.class_weights is None else self.class_weights

    def check_kind(self, asker: str, kinds: tuple[str, ...] = ("class",)) -> None:
        """Raise unless the loss is of a kind that `asker` supports."""
        if self.loss.kind not in kinds:
            raise Unsupported(
                f"{asker} does not support models of {KINDS[self.loss.kind]} ({self.loss!r}); it needs "
                f"one of {' or '.join(KINDS[kind] for kind in kinds)}. See docs/goals.md."
            )

    def flatness(self) -> float:
        """Return ‖∇F‖ at the parameters relative to the model's scale."""
        F = self.objective
        here = F.gradient(self.params, self.model.logits(self.params, self.labelled.X))
        return norm(here) / self.model.gradient_scale(F, self.params)

    def newton_distance(self) -> float:
        """Return ‖𝓗⁻¹∇F‖ / ‖θ‖, the distance to the optimum even where curvature is weak."""
        logits = self.model.logits(self.params, self.labelled.X)
        gradient = self.objective.gradient(self.params, logits)
        step = norm(Auto(tol=1e-2).prepare(self.hessian)(gradient).value)
        size = norm(self.params)
        return step / size if size > 0.0 else float(step > 0.0)

    def refuse_separable(self) -> None:
        """Raise if every labelled row is fitted so well that no curvature is left."""
        known = self.labelled
        # Rows without any answer do not count.
        answered = ~np.isnan(to_numpy(known.targets)).all(axis=1)
        answered &= to_numpy(known.weights) > 0.0
        if not answered.any():
            return
        logits = self.model.logits(self.params, known.X)
        worst = to_numpy(self.loss.rows(logits, known.targets))[answered].max()
        if worst < LARGEST_RESIDUAL:
            C = "the penalty" if self.C is None else f"C={self.C:g}"
            raise Separable(
                f"The classes are perfectly separable and {C} hardly penalises: every label is "
                f"predicted to within {worst:.1e}, which leaves no curvature to work with. Lower C, or "
                "rescale the features."
            )

    def refuse_flat(self, asker: str) -> None:
        """Raise if labels are separated and the penalty is too weak for `asker`."""
        if not self.model.is_linear or float(self.penalty[0]) > WEAKEST:
            return
        known = self.labelled
        right = to_numpy(self.hessian.proba).argmax(axis=1) == to_numpy(known.targets).argmax(
            axis=1
        )
        if right[to_numpy(known.weights) > 0].all():
            raise Unsupported(
                f"{asker} needs classes that overlap or a penalty (1/C) above {WEAKEST:g}, got perfectly "
                f"separable classes and {float(self.penalty[0]):.1g}: one label moves the model further "
                "than its curvature tells. Use Retrain(), ImplicitStep(corrections=3) or "
                "utility='auto', or lower C."
            )


def as_fitted(model: Any) -> Fitted:
    """Return the `Fitted` of a `Fitted` or `LogisticClassifier`."""
    inner = getattr(model, "fitted_", model)
    if isinstance(inner, Fitted):
        return inner
    raise Unsupported(
        f"The model must be a Fitted, got {described(model)}. Fit with gw.Logistic(), turn a fitted "
        "scikit-learn estimator into one with gw.adapters.from_sklearn(estimator, X, y), or let "
        "gw.suggest(model, X, y, X_pool) do all of it."
    )


# Approximate leave-one-out predictions, by one Newton step per row.


def left_out_pull(
    fitted: Fitted, rows: Rows, targets: Any, weights: Any
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return (I - wΛM)⁻¹w(p - y) of labelled rows, the motion of their logits, and its basis."""
    fitted.model.linear("Leaving rows out")
    M = to_numpy(own_leverages(fitted.hessian, rows))
    logits = np.asarray(to_numpy(fitted.logits_of(rows)), dtype=np.float64)
    w = to_numpy(weights)[:, None, None]
    Q = fitted.loss.basis(logits.shape[1], logits)
    # Missing answers have neither slope nor curvature.
    known = np.asarray(to_numpy(targets), dtype=np.float64)
    proba = fitted.loss.seen(fitted.loss.proba(logits), known)
    slope = w * (fitted.loss.slope(logits, known) @ Q)[:, :, None]
    kept = np.eye(Q.shape[1]) - w * fitted.loss.blocks(proba) @ M
    pull = np.linalg.solve(kept, slope)
    return pull[:, :, 0], (M @ pull)[:, :, 0] @ Q.T, Q


def left_out(fitted: Fitted) -> NDArray[Any]:
    """Return (n, k) leave-one-out logits of the labelled rows; by folds where there are too many."""
    known = fitted.labelled
    if exact_route(fitted.hessian) is None:
        return _by_folds(fitted)
    _, shift, _ = left_out_pull(fitted, known.X, known.targets, known.weights)
    return np.asarray(to_numpy(fitted.logits_of(known.X)) + shift)


def _by_folds(fitted: Fitted) -> NDArray[Any]:
    """Return logits of the labelled rows by models fitted without a fifth of them each."""
    known, xp = fitted.labelled, namespace(fitted.penalty)
    # A class that is in one fold alone must not send its free intercept to -∞.
    penalty = xp.maximum(fitted.penalty, 1e-3 * fitted.penalty[0])
    fold = np.random.default_rng(0).permutation(len(known)) % FOLDS
    logits = np.array(to_numpy(fitted.logits_of(known.X)), dtype=np.float64)
    for k in range(FOLDS):
        weights = known.weights * like(fold != k, known.weights, dtype=known.weights.dtype)
        part = replace(fitted, labelled=replace(known, weights=weights), penalty=penalty)
        rows = to_numpy(part.polished(tol=1e-4).logits_of(known.X))
        logits[fold == k] = rows[fold == k]
    return logits


def left_out_likelihood(fitted: Fitted) -> float:
    """Return the log-likelihood of the labelled rows, each left out; of numbers, up to a constant."""
    known, logits = fitted.labelled, left_out(fitted)
    weights, targets = to_numpy(known.weights), np.asarray(to_numpy(known.targets), np.float64)
    if fitted.loss.kind == "numbers":
        spread = weights @ (logits - targets) ** 2 / weights.sum()
        return -0.5 * float(weights.sum() * np.log(np.maximum(spread, 1e-300)).sum())
    return -float(weights @ to_numpy(fitted.loss.rows(logits, targets)))
