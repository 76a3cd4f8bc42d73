"""scikit-activeml: our strategy in its loops, and its strategies as baselines in ours.

Loaded when it is asked for, since it imports scikit-activeml.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import clone

from goalward.adapters.classifier import from_estimator
from goalward.core.arrays import is_sparse, stack_rows, to_numpy
from goalward.core.extras import needing
from goalward.errors import BadInput, UnseenClass, Unsupported
from goalward.goals import Goal
from goalward.learners import LogisticClassifier
from goalward.models import Fitted
from goalward.selection import Rule
from goalward.strategies import GoalOriented, Strategy, Suggestion
from goalward.strategies.engine import Engine
from goalward.strategies.request import Request, nameless

with needing("goalward.adapters.skactiveml"):
    from skactiveml.base import SingleAnnotatorPoolQueryStrategy, SkactivemlClassifier
    from skactiveml.classifier import SklearnClassifier
    from skactiveml.utils import (
        MISSING_LABEL,
        check_equal_missing_label,
        check_type,
        is_labeled,
        simple_batch,
    )

__all__ = ["GoalQuery", "QueryStrategy"]


class GoalQuery(SingleAnnotatorPoolQueryStrategy):  # type: ignore[misc]
    """Goal-oriented query strategy that follows scikit-activeml's conventions.

    The classifier should be a `SklearnClassifier` around a `LogisticRegression` (polished to its
    optimum here), a pipeline that ends in one, or, with `utility=Retrain()`, around anything
    with `predict_proba`. Until labels of two classes are known there is no model to
    improve: rows are drawn at random then, with a warning.

    Schedules follow the number of labelled rows. `Truth(labels)` has a label for every row of X, and
    needs candidates that are rows of X: all of them, or indices.

    Parameters
    ----------
    goal
        What should get better, such as `gw.goals.DevLoss(X_dev, y_dev)`.
    operator, utility, selection
        As in `gw.GoalOriented`, which has defaults for them.
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
    """

    def __init__(
        self,
        goal: Goal,
        operator: Any = None,
        utility: Any = None,
        selection: Any = None,
        missing_label: Any = MISSING_LABEL,
        random_state: Any = None,
    ) -> None:
        super().__init__(missing_label=missing_label, random_state=random_state)
        self.goal = goal
        self.operator = operator
        self.utility = utility
        self.selection = selection

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
        batch; rows taken earlier in it are NaN.
        """
        X, y, candidates, batch_size, return_utilities = self._validate_data(
            X, y, candidates, batch_size, return_utilities, reset=True
        )
        check_type(clf, "clf", SkactivemlClassifier)
        check_type(fit_clf, "fit_clf", bool)
        check_equal_missing_label(clf.missing_label, self.missing_label_)
        check_type(self.goal, "goal", Goal)
        rows, mapping = self._transform_candidates(candidates, X, y)
        known = is_labeled(y, self.missing_label_)
        where = np.arange(len(rows)) if mapping is None else mapping
        utilities = np.full(len(rows) if mapping is None else len(X), np.nan)
        if len(set(y[known].tolist())) < 2:
            warnings.warn(
                "Labels of fewer than two classes are known, so there is no model whose goal a label "
                "could improve: rows are drawn at random until there are.",
                UnseenClass,
                stacklevel=2,
            )
            utilities[where] = self.random_state_.random_sample(len(rows))
            return simple_batch(utilities, self.random_state_, batch_size, return_utilities)
        if fit_clf:
            weights = () if sample_weight is None else (sample_weight,)
            clf = clone(clf).fit(X, y, *weights)
        inner = getattr(clf, "estimator_", None)
        if inner is None:
            raise Unsupported(
                f"{type(clf).__name__} came as clf; a SklearnClassifier around a scikit-learn estimator was "
                "expected. Wrap a LogisticRegression, or anything with predict_proba and "
                "utility=gw.utility.Retrain()."
            )
        weighted = None if sample_weight is None else np.asarray(sample_weight)[known]
        fitted = from_estimator(inner, X[known], y[known], weighted, classes=clf.classes_.tolist())
        parts = {"operator": self.operator, "utility": self.utility, "selection": self.selection}
        given = {name: part for name, part in parts.items() if part is not None}
        seed = int(self.random_state_.randint(2**31))
        ids = nameless("candidates", len(rows)) if mapping is None else mapping
        strategy = GoalOriented(self.goal, **given, seed=seed)
        suggestion = strategy.suggest(fitted, rows, batch_size, rows=ids)
        utilities[where] = suggestion.utility
        chosen = where[suggestion.positions]
        if not return_utilities:
            return chosen
        table = np.tile(utilities, (batch_size, 1))
        for i in range(1, batch_size):
            table[i, chosen[:i]] = np.nan
        return chosen, table


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
        return Suggestion(request.names(rows), first)


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
