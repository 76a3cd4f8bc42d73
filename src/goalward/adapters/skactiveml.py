"""scikit-activeml: our strategy in its loops, and its strategies as baselines in ours.

Loaded when it is asked for, since it imports scikit-activeml.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from goalward.adapters.estimator import LogisticClassifier
from goalward.adapters.one_call import model_for, strategy_for
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
    from skactiveml.utils import (
        MISSING_LABEL,
        check_equal_missing_label,
        check_type,
        is_labeled,
    )

__all__ = ["GoalQuery", "QueryStrategy"]


class GoalQuery(SingleAnnotatorPoolQueryStrategy):  # type: ignore[misc]
    """Our strategies, as a query strategy that follows scikit-activeml's conventions.

    As `gw.suggest`, it fits the classifier within `clf` to the rows that have a label; scikit-activeml's
    own classifiers are fitted to all rows, as its strategies do. Of a `SklearnClassifier` around a `LogisticRegression`, or a pipeline that ends in one, it is known what
    each label would change. Others are asked what they predict, or refitted (`utility="retrain"`). Until
    labels of two classes are known, rows are asked for that cover the candidates.

    Schedules follow the number of labelled rows. `Truth(labels)` has a label for every row of X, and
    needs candidates that are rows of X.

    Parameters
    ----------
    goal
        What should get better, such as `gw.goals.DevLoss(X_dev, y_dev)`.
    operator, utility, selection
        As in `gw.GoalOriented`, which has defaults for them.
    strategy
        Instead of a goal: "recommended", another recipe such as "margin", or a strategy with a seed of
        its own. Without a goal it is the recommended one.
    missing_label, random_state
        As in every strategy of scikit-activeml.

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
        """Return the indices of the candidates worth a label, and the utilities if asked for.

        Parameters are those of scikit-activeml's strategies. Utilities are those before the
        batch; rows taken earlier in it are NaN, and rows that the strategy did not look at are -inf.
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
        ids = _known_rows(rows, X) if mapping is None else mapping
        try:
            suggestion = strategy.suggest(fitted, rows, batch_size, rows=ids)
        except UnknownLabel as error:
            raise error if mapping is not None else MappingError(str(error)) from error
        where = np.arange(len(rows)) if mapping is None else mapping
        utilities = np.full(len(rows) if mapping is None else len(X), np.nan)
        utilities[where] = np.nan_to_num(suggestion.utility, nan=-np.inf, posinf=np.inf)
        chosen = where[suggestion.positions]
        if not return_utilities:
            return chosen
        table = np.tile(utilities, (batch_size, 1))
        for i in range(1, batch_size):
            table[i, chosen[:i]] = np.nan
        return chosen, table

    def _fitted(self, X: Any, y: Any, clf: Any, fit_clf: bool, sample_weight: Any) -> Fitted:
        """Return the classifier, or the one within, with the rows that have a label."""
        known = is_labeled(y, self.missing_label_)
        weights = None if sample_weight is None else clean_weights(sample_weight, len(y))[known]
        # Plain labels: scikit-learn refuses whole numbers in an array of objects.
        labels = y[known].tolist()
        inside, told = isinstance(clf, SklearnClassifier), len(set(labels)) > 1
        model = clf.estimator if inside else clf
        if not fit_clf:
            check_is_fitted(clf)
            model = FrozenEstimator(getattr(clf, "estimator_", clf))
            check_is_fitted(model)
        elif told and not inside:
            given = {} if sample_weight is None else {"sample_weight": sample_weight}
            model = FrozenEstimator(clone(clf).fit(X, y, **given))
        named = [] if clf.classes is None else np.asarray(clf.classes).tolist()
        fitted = model_for(model, X[known], labels, X, named, weights)[0]
        if inside or not told:
            return fitted
        again: Any = fitted.model
        fresh = lambda model: AllRows(again.fresh(model), X, y, sample_weight)
        return replace(fitted, model=replace(again, fresh=fresh))

    def _strategy(self, fitted: Fitted, X: Any) -> Strategy:
        """Return the strategy that was asked for, seeded."""
        seed = int(self.random_state_.randint(2**31))
        parts = {"operator": self.operator, "utility": self.utility, "selection": self.selection}
        given: dict[str, Any] = {name: part for name, part in parts.items() if part is not None}
        if self.goal is not None and self.strategy is None:
            check_type(self.goal, "goal", Goal)
            return GoalOriented(self.goal, **given, seed=seed)
        if given or self.goal is not None:
            raise BadParameter(
                "GoalQuery came with a strategy, or without a goal, and with parts of another one "
                f"({', '.join(given) or 'goal'}); a goal with its parts, or a strategy, was expected."
            )
        return strategy_for(self.strategy or "recommended", fitted, X, None, seed)[0]


@dataclass(frozen=True, eq=False)
class AllRows:
    """A classifier that may learn from rows without a label, to be fitted to labelled ones among all.

    Parameters
    ----------
    clf
        Of scikit-activeml, unfitted.
    X, y, weights
        All rows, in the order in which it sees them.
    """

    clf: Any
    X: Any
    y: Any
    weights: Any = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Return the classifier fitted: rows that come have their labels where they stand, others none."""
        missing, total = self.clf.missing_label, len(self.X)
        places: dict[bytes, list[int]] = {}
        # Of equal rows, those that have a label are met first.
        for i in np.argsort(~is_labeled(self.y, missing), kind="stable").tolist():
            places.setdefault(self.X[i].tobytes(), []).append(i)
        found = [places.get(row.tobytes(), []) for row in np.asarray(X, dtype=self.X.dtype)]
        fresh = iter(range(total, total + len(X)))
        at = np.array([where.pop(0) if where else next(fresh) for where in found])
        rows = np.concatenate([self.X, X[at >= total]])
        labels, weights = [missing] * len(rows), np.ones(len(rows))
        for i, label in zip(at.tolist(), np.asarray(y).tolist(), strict=True):
            labels[i] = label
        weighted = sample_weight is not None
        if weighted:
            weights[:total] = 1.0 if self.weights is None else self.weights
            weights[at] = sample_weight
        told = np.array(labels, dtype=object if self.y.dtype == object else None)
        return self.clf.fit(rows, told, **({"sample_weight": weights} if weighted else {}))


def _known_rows(rows: Any, X: Any) -> Any:
    """Return which rows of X some rows are, where there is no doubt; names that stand for none else."""
    index = {row.tobytes(): i for i, row in enumerate(X)}
    found = [index.get(row.tobytes(), -1) for row in np.asarray(rows, dtype=X.dtype)]
    sure = len(index) == len(X) and -1 not in found and len(set(found)) == len(found)
    return np.array(found) if sure else nameless("candidates", len(rows))


@dataclass(frozen=True, eq=False)
class QueryStrategy(Strategy):
    """A strategy of scikit-activeml, used here: a baseline in `gw.lab.simulate`, say.

    It sees the labelled rows and the pool as one array, and, where it asks for `clf`, our
    model as a `SklearnClassifier`: strategies that refit, refit that. It answers with distinct
    rows, also where the strategy itself repeats one.

    Parameters
    ----------
    strategy
        Such as `skactiveml.pool.ProbabilisticAL()`; cloned for every call.
    options
        More arguments of its `query`: a discriminator, an ensemble.

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
        """Refuse: scikit-activeml answers with rows, not with a number for any row."""
        raise Unsupported(
            f"{self!r} came where a rule for single rows is needed; a strategy of our own was expected. "
            "Use suggest() in memory."
        )

    def choose(self, request: Request, engine: Engine) -> Suggestion:
        """Return the rows that scikit-activeml's strategy asks for; others than free ones are NaN."""
        if request.fidelity or not engine.whole:
            self.bind(request)
        fitted, free = request.fitted, request.free
        features = fitted.features(request.pool.source, "X_pool")
        if is_sparse(features):
            raise Unsupported(
                "The pool is sparse, which scikit-activeml does not take; dense rows were expected. "
                "Use one of our own strategies."
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
    """Return our model as scikit-activeml's classifier, unfitted."""
    model = fitted.model.linear("QueryStrategy with a classifier")
    if fitted.C is None:
        raise BadInput(
            "The model has no C, so scikit-activeml cannot refit it; a Logistic was expected. Pass the "
            "classifier yourself: QueryStrategy(strategy, options={'clf': ...})."
        )
    penalised = model.intercept and float(fitted.penalty[-1]) > 0.0
    estimator = LogisticClassifier(
        C=fitted.C, fit_intercept=model.intercept, penalize_intercept=penalised
    )
    return SklearnClassifier(estimator, classes=list(range(fitted.n_classes)))
