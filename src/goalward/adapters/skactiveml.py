"""Our strategies in scikit-activeml's loops, and its strategies as baselines in ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from goalward.adapters.one_call import model_for, strategy_for
from goalward.adapters.sklearn import LogisticClassifier
from goalward.core.arguments import needing
from goalward.core.arrays import is_sparse, stack_rows, to_numpy
from goalward.core.labels import clean_weights
from goalward.errors import BadInput, BadParameter, UnknownLabel, Unsupported
from goalward.goals import Goal
from goalward.labels import Operator
from goalward.models import Fitted
from goalward.strategies import GoalOriented, Strategy, Suggestion
from goalward.strategies.engine import Engine
from goalward.strategies.goal_oriented import OperatorWord, SelectionWord
from goalward.strategies.selectors import Selector
from goalward.strategies.strategy import Request, nameless
from goalward.utility import Utility
from goalward.utility.ladder import UtilityWord
from goalward.utility.utility import Rule

with needing("goalward.adapters.skactiveml"):
    from skactiveml.base import SingleAnnotatorPoolQueryStrategy, SkactivemlClassifier
    from skactiveml.classifier import SklearnClassifier
    from skactiveml.exceptions import MappingError
    from skactiveml.utils import MISSING_LABEL, check_equal_missing_label, check_type, is_labeled

__all__ = ["GoalQuery", "QueryStrategy"]


class GoalQuery(SingleAnnotatorPoolQueryStrategy):  # type: ignore[misc]
    """Our strategies as a query strategy of scikit-activeml.

    It fits the classifier within `clf` to the labelled rows, as `gw.suggest` does. The change by each
    label is predicted for a `SklearnClassifier` of a `LogisticRegression`; others only predict, or are
    refitted (`utility="retrain"`). `Truth(labels)` has a label for every row of X.

    `goal`, `operator`, `utility` and `selection` are as in `gw.GoalOriented`; or `strategy` is a recipe or
    strategy, "recommended" by default.

    Examples
    --------
    >>> import goalward as gw, numpy as np
    >>> from skactiveml.classifier import SklearnClassifier
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = np.arange(6.0)[:, None], np.array([0, np.nan, np.nan, np.nan, np.nan, 1])
    >>> clf = SklearnClassifier(LogisticRegression(), classes=[0, 1])
    >>> GoalQuery(gw.goals.DevLoss([[2.0]], [1]), random_state=0).query(X, y, clf=clf).shape
    (1,)
    >>> GoalQuery(strategy="margin").query(X, y, clf=clf, batch_size=2)
    array([2, 3])
    """

    def __init__(
        self,
        goal: Goal | None = None,
        operator: Operator | OperatorWord | None = None,
        utility: Utility | UtilityWord | None = None,
        selection: Selector | SelectionWord | None = None,
        strategy: Any = None,
        missing_label: Any = MISSING_LABEL,
        random_state: Any = None,
    ) -> None:
        super().__init__(missing_label=missing_label, random_state=random_state)
        self.goal = goal
        self.operator = operator
        self.utility = utility
        self.selection = selection
        self.strategy = strategy

    def query(
        self,
        X: Any,
        y: Any,
        clf: Any,
        fit_clf: bool = True,
        sample_weight: Any = None,
        candidates: Any = None,
        batch_size: int = 1,
        return_utilities: bool = False,
    ) -> Any:
        """Return the indices of the best candidates, and their utilities with `return_utilities`.

        Utilities are those before the batch: NaN for rows taken earlier in it, -inf for rows not scored.
        """
        X, y, candidates, batch_size, return_utilities = self._validate_data(
            X, y, candidates, batch_size, return_utilities, reset=True
        )
        check_type(clf, "clf", SkactivemlClassifier)
        check_type(fit_clf, "fit_clf", bool)
        check_equal_missing_label(clf.missing_label, self.missing_label_)
        rows, mapping = self._transform_candidates(candidates, X, y)
        fitted = self._fitted(X, y, clf, fit_clf, sample_weight)
        strategy = self._strategy(fitted, X)
        ids, where, total = mapping, mapping, len(X)
        if mapping is None:
            ids, where, total = _known_rows(rows, X), np.arange(len(rows)), len(rows)
        try:
            suggestion = strategy.suggest(fitted, rows, batch_size, rows=ids)
        except UnknownLabel as error:
            raise error if mapping is not None else MappingError(str(error)) from error
        utilities = np.full(total, np.nan)
        utilities[where] = np.nan_to_num(suggestion.utility, nan=-np.inf, posinf=np.inf)
        chosen = where[suggestion.positions]
        if not return_utilities:
            return chosen
        table = np.tile(utilities, (batch_size, 1))
        for i in range(1, batch_size):
            table[i, chosen[:i]] = np.nan
        return chosen, table

    def _fitted(self, X: Any, y: Any, clf: Any, fit_clf: bool, sample_weight: Any) -> Fitted:
        known = is_labeled(y, self.missing_label_)
        weights = None if sample_weight is None else clean_weights(sample_weight, len(y))[known]
        # Plain labels: scikit-learn refuses whole numbers in an array of objects.
        labels = y[known].tolist()
        inside, two_classes = isinstance(clf, SklearnClassifier), len(set(labels)) > 1
        model = clf.estimator if inside else clf
        if not fit_clf:
            check_is_fitted(clf)
            model = FrozenEstimator(getattr(clf, "estimator_", clf))
            check_is_fitted(model)
        elif two_classes and not inside:
            given = {} if sample_weight is None else {"sample_weight": sample_weight}
            model = FrozenEstimator(clone(clf).fit(X, y, **given))
        named = [] if clf.classes is None else np.asarray(clf.classes).tolist()
        fitted = model_for(model, X[known], labels, X, named, weights)[0]
        if inside or not two_classes:
            return fitted
        again: Any = fitted.model
        fresh = lambda model: AllRows(again.fresh(model), X, y, sample_weight)
        return replace(fitted, model=replace(again, fresh=fresh))

    def _strategy(self, fitted: Fitted, X: Any) -> Strategy:
        seed = int(self.random_state_.randint(2**31))
        parts = ((name, getattr(self, name)) for name in ("operator", "utility", "selection"))
        given: dict[str, Any] = {name: part for name, part in parts if part is not None}
        if self.goal is not None and self.strategy is None:
            check_type(self.goal, "goal", Goal)
            return GoalOriented(self.goal, **given, seed=seed)
        if given or self.goal is not None:
            raise BadParameter(
                "GoalQuery needs a goal with its parts, or a strategy, got a strategy or no goal with "
                f"{', '.join(given) or 'goal'}."
            )
        return strategy_for(self.strategy or "recommended", fitted, X, None, seed)[0]


@dataclass(frozen=True, eq=False)
class AllRows:
    """An unfitted classifier that learns from rows without a label too, with all rows in its order."""

    clf: Any
    X: Any
    y: Any
    weights: Any = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Return the classifier fitted to all rows, with labels for the given ones only."""
        missing, total = self.clf.missing_label, len(self.X)
        places: dict[bytes, list[int]] = {}
        # Of equal rows, those that have a label are met first.
        for i in np.argsort(~is_labeled(self.y, missing), kind="stable").tolist():
            places.setdefault(self.X[i].tobytes(), []).append(i)
        equal = [places.get(row.tobytes(), []) for row in np.asarray(X, dtype=self.X.dtype)]
        new = iter(range(total, total + len(X)))
        at = np.array([where.pop(0) if where else next(new) for where in equal])
        rows = np.concatenate([self.X, X[at >= total]])
        labels: list[Any] = [missing] * len(rows)
        for i, label in zip(at.tolist(), np.asarray(y).tolist(), strict=True):
            labels[i] = label
        options = {}
        if sample_weight is not None:
            weights = options["sample_weight"] = np.ones(len(rows))
            weights[:total] = 1.0 if self.weights is None else self.weights
            weights[at] = sample_weight
        dtype = object if self.y.dtype == object else None
        return self.clf.fit(rows, np.array(labels, dtype=dtype), **options)


def _known_rows(rows: Any, X: Any) -> Any:
    """Return the positions of rows in X; ids outside X where rows are ambiguous."""
    index = {row.tobytes(): i for i, row in enumerate(X)}
    at = [index.get(row.tobytes(), -1) for row in np.asarray(rows, dtype=X.dtype)]
    sure = len(index) == len(X) and -1 not in at and len(set(at)) == len(at)
    return np.array(at) if sure else nameless("candidates", len(rows))


@dataclass(frozen=True, eq=False)
class QueryStrategy(Strategy):
    """A strategy of scikit-activeml as one of ours, such as a baseline in `gw.lab.simulate`.

    `strategy`, such as `skactiveml.pool.ProbabilisticAL()`, is cloned for every call; `options` are more
    arguments of `query`.

    Examples
    --------
    >>> from skactiveml.pool import RandomSampling
    >>> QueryStrategy(RandomSampling(), seed=1)
    QueryStrategy(strategy=RandomSampling(), seed=1)
    """

    strategy: Any
    options: Mapping[str, Any] = field(default_factory=dict, kw_only=True, repr=False)
    seed: int = field(default=0, kw_only=True)

    def bind(self, request: Request) -> Rule:
        raise Unsupported(f"{self!r} cannot score single rows. Use suggest() in memory.")

    def choose(self, request: Request, engine: Engine) -> Suggestion:
        if request.fidelity or not engine.whole:
            self.bind(request)
        fitted, free = request.fitted, request.free
        features = fitted.features(request.pool.source, "X_pool")
        if is_sparse(features):
            raise Unsupported(
                "scikit-activeml does not support sparse pools. Use one of our own strategies."
            )
        labelled, pool = to_numpy(fitted.labelled.X), to_numpy(features)
        codes = to_numpy(fitted.labelled.targets).argmax(axis=1).astype(float)
        seed = int(np.random.default_rng([self.seed, request.round]).integers(2**31))
        strategy = clone(self.strategy).set_params(random_state=seed)
        options = dict(self.options)
        if "clf" in signature(strategy.query).parameters:
            options.setdefault("clf", _as_classifier(fitted))
        chosen, utilities = strategy.query(
            stack_rows(labelled, pool.astype(labelled.dtype)),
            np.concatenate([codes, np.full(len(pool), np.nan)]),
            candidates=len(labelled) + free,
            batch_size=request.batch,
            return_utilities=True,
            **options,
        )
        first = np.asarray(utilities, dtype=float)[0, len(labelled) :]
        order = free[np.argsort(-np.nan_to_num(first[free], nan=-np.inf), kind="stable")]
        listed = dict.fromkeys([*(np.asarray(chosen) - len(labelled)).tolist(), *order.tolist()])
        rows = np.array(list(listed)[: request.batch], dtype=np.int64)
        return Suggestion(request.names(rows), first, positions=rows, values=first[rows])


def _as_classifier(fitted: Fitted) -> Any:
    model = fitted.model.linear("QueryStrategy with a classifier")
    if fitted.C is None:
        raise BadInput(
            "scikit-activeml cannot refit a model without C. Use a Logistic, or pass the classifier "
            "yourself: QueryStrategy(strategy, options={'clf': ...})."
        )
    penalised = model.intercept and float(fitted.penalty[-1]) > 0.0
    options: dict[str, Any] = {"fit_intercept": model.intercept, "penalize_intercept": penalised}
    estimator = LogisticClassifier(fitted.C, **options)
    return SklearnClassifier(estimator, classes=list(range(fitted.n_classes)))
