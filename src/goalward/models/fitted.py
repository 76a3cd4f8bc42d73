"""A model at its optimum, with everything that says how it would move."""

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
from goalward.core.rows import Candidates, Labelled, check_columns, clean_rows, held
from goalward.errors import Unsupported
from goalward.models.linear import LinearModel
from goalward.models.loss import Loss
from goalward.models.model import Model
from goalward.models.objective import Objective
from goalward.models.softmax import Softmax
from goalward.models.trust import Validity
from goalward.solvers import Auto, Inverse, Solve, Solver
from goalward.solvers.inverse import Coordinates

KINDS = {"class": "one class for each row", "labels": "several labels", "numbers": "numbers"}


@dataclass(frozen=True, eq=False)
class Fitted:
    """A trained classifier with its labelled rows, penalty and curvature; goals and utilities read it.

    Parameters
    ----------
    params
        (p, K): weights, then intercepts as a last row if there is one.
    labelled
        The rows it was trained on.
    penalty
        ρ for each row of `params`: 1/C on weights; 0 on a free intercept.
    classes
        (K,) original labels, in the order of the columns.
    gradient
        ‖∇F‖ at `params` relative to ‖∇F(0)‖: how well it was trained.
    transform
        What a pipeline does to raw rows before the model sees them.
    class_weights
        The weight that a row labelled now gets, by its class; ones by default.
    label_counts
        Labels of each class, where `class_weights` are balanced by them and change with each.
    free_penalty
        The penalty once every class has a label, where one has none yet and intercepts are
        penalised until then.
    columns
        Names of the features, where they came in a frame.
    validity
        Of a network: how near it is to a minimum, and its curvature there.

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

    @cached_property
    def n_classes(self) -> int:
        """K."""
        return len(self.classes)

    @cached_property
    def n_answers(self) -> int:
        """L: what may be answered to the questions of a row; for classes K."""
        return self.loss.n_answers(self.n_classes)

    @cached_property
    def n_features(self) -> int:
        """The number of features the model sees."""
        return self.model.n_features(self.params)

    def features(self, X: object, name: str = "X", *, finite: bool = True) -> Rows:
        """Return rows as the model sees them; with finite=False their numbers are not looked at."""
        X = held(X)
        if self.columns is not None:
            check_columns(X, self.columns, name)
        if self.transform is not None:
            X = self.transform(X)
        rows = clean_rows(X, name, n_features=self.n_features, finite=finite)
        if is_sparse(rows) and not array_api_compat.is_numpy_array(self.params):
            raise Unsupported(
                f"{name} is a SciPy sparse matrix and the model is not in NumPy; arrays of one "
                "library were expected. Fit on NumPy or sparse rows, or pass dense ones."
            )
        return like(rows, self.params)

    def targets(self, y: object, n_rows: int, name: str = "y") -> Float[Array, "n k"]:
        """Return labels, checked by the loss, as (n, K) targets in the model's library."""
        targets = self.loss.targets(y, self.classes, n_rows, name)
        return like(targets, self.params, dtype=self.params.dtype)

    def row_weights(self, weights: object, n_rows: int) -> Float[Array, " n"]:
        """Return row weights in the model's library; ones for None."""
        return like(clean_weights(weights, n_rows, "weights"), self.params, dtype=self.params.dtype)

    def logits(self, X: object) -> Float[Array, "n k"]:
        """Return the logits of raw rows."""
        return self.logits_of(self.features(X))

    def logits_of(self, rows: Rows) -> Float[Array, "n k"]:
        """Return the logits of rows that went through `features`."""
        return self.model.logits(astype(self.params, rows.dtype), rows)

    def proba_of(self, rows: Rows) -> Float[Array, "n k"]:
        """Return what is predicted for rows that went through `features`."""
        return self.loss.proba(self.logits_of(rows))

    def candidates(self, X: object, ids: NDArray[Any], start: int = 0) -> Candidates:
        """Return a block of a pool as this model sees it.

        Its numbers are not looked at: one that is none shows in every score.
        """
        return Candidates(ids, self.features(X, "X_pool", finite=False), self.proba_of, start)

    @cached_property
    def _bound(self) -> dict[int, tuple[Any, list[Any]]]:
        return {}

    def bound(self, goal: Any) -> list[Any]:
        """Return a goal's terms for this model, made once; for goals whose rows are in memory."""
        if id(goal) not in self._bound:
            goal.check_loss(self)
            self._bound[id(goal)] = goal, goal.terms(self)
        return self._bound[id(goal)][1]

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
        """Return what rows labelled now weigh: by their classes, or 1."""
        xp = namespace(targets)
        if self.loss.kind == "class":
            return xp.sum(targets * self.label_weights, axis=1)
        return xp.ones_like(targets[:, 0])

    def expecting(self, labels: Float[Array, " k"]) -> Fitted:
        """Return the same parameters and rows, weighted and penalised as more labels will have it.

        Balanced weights are n / (K n_k), so each label changes that of every row; and intercepts
        are free from the first label of the last class on.
        """
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

    @property
    def has_two_classes(self) -> bool:
        """Whether labels say enough to go by: two classes, or two rows of labels or numbers."""
        return (self.labelled.n_seen if self.loss.kind == "class" else len(self.labelled)) >= 2

    @property
    def seen(self) -> Array:
        """Which classes have a label with weight."""
        return self.labelled.weights @ self.labelled.targets > 0.0

    @property
    def freeing(self) -> int | None:
        """The index of the class whose first label would free the intercepts, if it is that near."""
        missing = np.flatnonzero(~to_numpy(self.seen))
        return int(missing[0]) if self.free_penalty is not None and len(missing) == 1 else None

    def predict_proba(self, X: object) -> Float[UsersArray, "n k"]:
        """Return (n, K) probabilities, columns in the order of `classes`."""
        proba: UsersArray = self.loss.proba(self.logits(X))
        return proba

    def predict(self, X: object) -> NDArray[Any]:
        """Return the most probable class of each row; 0 or 1 for each of several labels; or numbers."""
        return self.loss.decided(to_numpy(self.logits(X)), self.classes)

    @property
    def objective(self) -> Objective:
        """F, as a function of the parameters."""
        return Objective(self.labelled, self.penalty, self.model, self.loss)

    @cached_property
    def hessian(self) -> Any:
        """𝓗 at the optimum."""
        logits = self.model.logits(self.params, self.labelled.X)
        return self.model.curvature(self.objective, self.params, logits)

    @cached_property
    def solve(self) -> Solve:
        """The map g -> 𝓗⁻¹g by the solver that `Auto` picks; its factor is made once."""
        return Auto().prepare(self.hessian)

    def _repr_html_(self) -> str:
        word = "sum" if self.loss.kind == "numbers" else "labels"
        known = {"class": self.classes, word: np.nansum(to_numpy(self.labelled.targets), axis=0)}
        title = f"{self.n_features:,} features, {len(self.labelled):,} labelled rows"
        return card(title, known, bar=word, note="" if self.C is None else f"C = {self.C:.3g}")

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields alone: what follows from them is made again where it is wanted."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def posterior(self, rows: Rows, asker: str = "The posterior") -> Inverse:
        """Return the covariance of a linear model's parameters, for the rows that matter."""
        self.model.linear(asker)
        return Inverse.of(self.hessian, Coordinates.leading(self.hessian, rows))

    def polished(
        self, *, tol: float = 1e-8, max_iter: int | None = None, solver: Solver | None = None
    ) -> Fitted:
        """Return the model at its optimum, a network at the minimum nearby, others fitted again."""
        return self.model.polished(self, tol=tol, max_iter=max_iter, solver=solver)

    @cached_property
    def label_weights(self) -> Float[Array, " l"]:
        """The weight that a row labelled now gets, by its answer."""
        targets, count = self.labelled.targets, self.n_answers
        xp = namespace(targets)
        equal = xp.ones(count, dtype=targets.dtype, device=targets.device)
        return equal if self.class_weights is None else self.class_weights

    @property
    def weight_penalty(self) -> float:
        """ρ of the weights, which must be one number."""
        xp = namespace(self.penalty)
        weights = self.penalty[: self.n_features]
        low, high = float(xp.min(weights)), float(xp.max(weights))
        if low != high:
            raise Unsupported(
                f"The weights have penalties from {low:.3g} to {high:.3g}; one number was expected. "
                "Scale the features instead, or use FirstOrder()."
            )
        return high

    def check_kind(self, asker: str, kinds: tuple[str, ...] = ("class",)) -> None:
        """Raise unless what the model learns is of a kind that `asker` is written for."""
        if self.loss.kind not in kinds:
            raise Unsupported(
                f"{asker} came with a model of {KINDS[self.loss.kind]} ({self.loss!r}); one of "
                f"{' or '.join(KINDS[kind] for kind in kinds)} was expected. docs/goals.md says what serves which."
            )

    def flatness(self) -> float:
        """Return ‖∇F‖ at the parameters, measured now, relative to the model's scale of it."""
        F = self.objective
        here = F.gradient(self.params, self.model.logits(self.params, self.labelled.X))
        return norm(here) / self.model.gradient_scale(F, self.params)


def as_fitted(model: Any) -> Fitted:
    """Return the model behind what a caller passed: a `Fitted`, or a `LogisticClassifier`."""
    inner = getattr(model, "fitted_", model)
    if isinstance(inner, Fitted):
        return inner
    raise Unsupported(
        f"The model is {described(model)}; a Fitted was expected. Fit with gw.Logistic(), "
        "turn a fitted scikit-learn estimator into one with gw.adapters.from_sklearn(estimator, X, "
        "y), or let gw.suggest(model, X, y, X_pool) do all of it."
    )
