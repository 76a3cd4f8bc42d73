"""From a model and some labels to the rows worth a label next: in one call, and in loops of modAL."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, clone, is_regressor
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from goalward.adapters.sklearn import behind, from_classifier, from_estimator, is_logistic
from goalward.adapters.torch import from_head, network_in
from goalward.core.arguments import LEARNERS, described, in_place, room_of
from goalward.core.arrays import is_sparse
from goalward.core.draws import reference_rows
from goalward.core.labels import as_classes, clean_weights, encode, find_classes, plain
from goalward.core.pool import check_pool, n_rows
from goalward.core.rows import held
from goalward.errors import (
    BadParameter,
    Empty,
    LooseFit,
    NotConverged,
    NotFinite,
    Separable,
    ShapeMismatch,
    UnseenClass,
    Unsupported,
)
from goalward.goals import Goal
from goalward.labels.opinion import Opinion
from goalward.models import Fitted
from goalward.models.features import Linear, fitted_maps
from goalward.models.linear_fit import FEW
from goalward.models.logistic import Logistic
from goalward.models.refitted import last_step
from goalward.strategies import GoalOriented, Random, Strategy, Suggestion, recipe
from goalward.strategies.recipes import RECOMMENDED
from goalward.strategies.strategy import nameless

WITHOUT_CURVATURE = "coverage among 4000 by random, margin in turn"  # models without derivatives
OURS = "models.logistic"
OWN = Logistic(C="loo", features="auto")
"""The model where none is given."""


def suggest(
    model: Any,
    X_labelled: Any,
    y_labelled: Any,
    X_pool: Any,
    batch: int = 10,
    strategy: Any = "recommended",
    *,
    exclude: Iterable[Any] = (),
    classes: Sequence[Hashable] = (),
    dev: tuple[Any, Any] | None = None,
    sample_weight: Any = None,
    seed: int = 0,
    costs: Any = None,
    budget: float | None = None,
    guesses: Any = None,
) -> Suggestion:
    """Return the rows of a pool worth labelling next, best first; fewer than `batch` if no more are left.

    Parameters
    ----------
    model
        A scikit-learn classifier or `Pipeline` (cloned and fitted; used unchanged in a `FrozenEstimator`),
        a torch classifier or a transformers `pipeline` (a copy of its head is fitted), or None for
        `gw.Logistic(C="loo", features="auto")`. With a logistic regression the change by each label is
        predicted; others are only asked for predictions.
    X_labelled, y_labelled
        Labelled rows; None, or empty, to start without labels.
    X_pool, exclude
        An array, sparse matrix, frame, Hugging Face dataset, texts for a pipeline, or a `PoolFile`; positions
        in it not to suggest, as of rows that have an answer.
    batch, seed
        Rows to suggest, chosen together so that they do not repeat each other; the seed of all draws.
    strategy, dev
        "recommended", a recipe such as "margin", or a strategy; (X, y) of a dev set, for recipes with one.
    classes
        All classes, where some have no label yet.
    sample_weight
        How much each labelled row counts in the fit.
    costs, budget
        The cost of each row of the pool, and the most to spend: rows are chosen by gain per cost.
    guesses
        A guess or None for each row, a function of `X_pool`, or an `Opinion`; for our own model only.

    Returns
    -------
    Suggestion
        `rows`, positions in `X_pool` (`frame.iloc[rows]`); `values`, what chose them; `says`, how; and
        `model`, fitted to the labels given, with `predict` and `predict_proba`: None before two classes
        have labels; ours needs no label where classes are named.

    Examples
    --------
    >>> import goalward as gw
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = [[0.0, 1.0], [1.0, 0.0]], ["a", "b"]
    >>> best = gw.suggest(LogisticRegression(), X, y, [[0.0, 2.0], [1.0, 1.1], [3.0, 0.0]], batch=1)
    >>> best.rows
    array([1])
    >>> best.says.split("; ")[1]
    'rows by hedged: GoalOriented(Coverage) chose 1 of 3 rows.'
    """
    X_labelled, X_pool = held(X_labelled), held(X_pool)
    ours = model is None or room_of(model) == OURS
    named = ours and bool(len(classes) or getattr(model, "classes", None) is not None)
    if guesses is not None and X_pool is not None and n_rows(X_pool):
        model = OWN if model is None else model
        if not ours:
            raise BadParameter(
                f"guesses need our own model, got {_name(model)}. Pass None as the model, or no guesses."
            )
        if not hasattr(guesses, "fitted"):
            maps = fitted_maps(model.features, X_pool, X_labelled)
            model = model.having(features=maps)
            guesses = Opinion.of(X_pool, guesses, seed=seed, features=maps[0])
        model = model.having(opinion=guesses)
    fitted, how = model_for(model, X_labelled, y_labelled, X_pool, classes, sample_weight)
    if guesses is not None:
        how += ", with the guesses" if fitted.opinion else ", the guesses not used"
    chosen, name = strategy_for(strategy, fitted, X_pool, dev, seed)
    known = fitted.has_two_classes or fitted.model.predict_only
    if not known:
        name = "coverage, until two classes have labels"
    try:
        suggestion = chosen.suggest(fitted, X_pool, batch, exclude, costs=costs, budget=budget)
    except NotFinite:
        check_pool(X_pool)  # what was found may be a row of a sample: say which of the pool
        raise
    says = f"{how}; rows by {name}: {suggestion.says}"
    # Before classes are known there is no model, only a stand-in that knows the features.
    return replace(suggestion, says=says, model=fitted if known or named else None)


def modal_query(goal: Goal, **options: Any) -> Callable[..., tuple[NDArray[Any], NDArray[Any]]]:
    """Return a `query_strategy(learner, X_pool, n_instances=1)` for modAL's `ActiveLearner`.

    The learner's estimator is a `LogisticRegression`, or a pipeline that ends in one; with
    `utility=Retrain()`, anything with `predict_proba`. `options` are those of `gw.GoalOriented`. For
    `Truth(labels)` pass ids: `learner.query(X_pool[left], n_instances=5, rows=left)`.

    Examples
    --------
    >>> import goalward as gw
    >>> from types import SimpleNamespace
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = [[0.0], [1.0]], [0, 1]
    >>> learner = SimpleNamespace(estimator=LogisticRegression().fit(X, y), X_training=X, y_training=y)
    >>> query = gw.adapters.modal_query(gw.goals.DevLoss([[2.0], [-1.0]], [1, 0]))
    >>> positions, utilities = query(learner, [[0.5], [3.0]], n_instances=1)
    >>> positions
    array([0])
    """
    strategy = GoalOriented(goal, **options)

    def query_strategy(
        learner: Any, X_pool: Any, n_instances: int = 1, *, rows: Any = None, round: Any = None
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        if learner.X_training is None or not len(np.shape(learner.y_training)):
            raise Empty(
                "The learner has no training rows. Pass X_training and y_training to ActiveLearner, or "
                "teach it first."
            )
        fitted = from_estimator(learner.estimator, learner.X_training, learner.y_training)
        ids = nameless("X_pool", n_rows(X_pool)) if rows is None else rows
        suggestion = strategy.suggest(fitted, X_pool, n_instances, rows=ids, round=round)
        return suggestion.positions, suggestion.values

    return query_strategy


def strategy_for(
    strategy: Any, fitted: Fitted, X_pool: Any, dev: Any, seed: int
) -> tuple[Strategy, str]:
    """Return the strategy of a recipe, built with its data, and its name."""
    if not isinstance(strategy, str):
        example = "'recommended', a recipe such as 'margin', or gw.strategies.Margin()"
        in_place(strategy, "strategy", example, "suggest")
        return strategy, type(strategy).__name__
    if n_rows(X_pool) == 0:
        return Random(), strategy  # goals need rows, and there is nothing to choose
    if strategy == "recommended":
        strategy = RECOMMENDED if fitted.model.is_linear else WITHOUT_CURVATURE
    drawn = reference_rows(X_pool, seed=seed)
    return recipe(strategy).build(dev=dev, pool=drawn, seed=seed), strategy


def model_for(
    model: Any, X: Any, y: Any, X_pool: Any, classes: Sequence[Hashable], weights: Any = None
) -> tuple[Fitted, str]:
    """Return the model of the labelled rows, and a sentence on how it was made."""
    if getattr(y, "ndim", 1) > 1:
        raise ShapeMismatch(
            f"y_labelled must have one label per row, got shape {tuple(y.shape)}. Are rows and labels "
            "in each other's place?"
        )
    labels = [] if y is None else [plain(label) for label in y]
    own = getattr(model, "fitted_", model)
    if room_of(own) == "models" and not labels:
        return own, "Your model is used as it is"
    if (X is None) != (y is None):
        raise BadParameter(
            "X_labelled and y_labelled must both be given, or both be None, got rows without labels or "
            "labels without rows."
        )
    if X_pool is None:
        raise BadParameter("X_pool must be the rows to choose from, got None.")
    model = OWN if model is None else model
    if len(classes):
        encode(labels, as_classes(classes), "y_labelled", least=0)
    elif labels:
        find_classes(labels)  # refuses missing ones in our words, not in the classifier's
    ours = room_of(model) == OURS
    name = "Logistic" if ours else _name(model)
    many = f"{len(labels)} label{'s' * (len(labels) != 1)}"
    if not ours:
        _check_model(model)
        network = network_in(model)
        if network is not None:
            fitted = from_head(model, X, labels, X_pool, classes, weights)
            return fitted, f"The head of {type(network).__name__} was fitted to {many}"
    if len(set(labels)) < 2:
        standing = _stand_in(model, X, labels, X_pool, classes, prepared=False)
        return standing, f"{many} of fewer than two classes: too few to fit {name}"
    if not ours:
        return _adapted(model, X, labels, X_pool, classes, weights)
    if model.classes is None and len(classes):
        model = model.having(classes=list(classes))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseenClass)
        fitted = model.fit(X, labels, sample_weight=weights, pool=X_pool)
    chosen = ", by leave-one-out," if model.C == "loo" and len(labels) >= FEW else ""
    says = fitted.says[0].upper() + fitted.says[1:]
    return fitted, f"{says}{chosen} was fitted to {many}"


def _adapted(
    model: Any, X: Any, y: list[Any], X_pool: Any, classes: Sequence[Hashable], weights: Any
) -> tuple[Fitted, str]:
    frozen = isinstance(model, FrozenEstimator)
    if frozen:
        own = model.estimator
        how = f"{_name(own)}, frozen, is used as it is; it was fitted to {len(y)} labels"
    else:
        labels = np.asarray(y) if not isinstance(y[0], tuple) else y
        clf = clone(model).fit(X, labels, **_weighting(model, weights, len(y)))
        own = getattr(clf, "best_estimator_", clf)
        which = "A clone of" if own is clf else "The best"
        how = f"{which} {_name(own)} was fitted to {len(y)} labels"
    if not hasattr(own, "predict_proba"):
        how = f"a logistic regression of its features was fitted to {len(y)} labels instead"
        fitted = _stand_in(own, X, y, X_pool, classes, prepared=True)
        return fitted, f"{_name(model)} gives no probabilities: {how}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LooseFit)
            return from_estimator(own, X, y, weights, classes=classes, polish=not frozen), how
    except (Unsupported, Separable, NotConverged) as error:
        if not is_logistic(last_step(own)[0]):
            raise
        return from_classifier(own, X, y, weights), f"{how} ({str(error).split('. ')[0]})"


def _check_model(model: Any) -> None:
    expected = "a classifier such as sklearn's LogisticRegression(), or None for ours"
    room = room_of(model)
    if room == "models":
        raise BadParameter(
            "model must be a learner or a classifier where labels are given, got a Fitted. Pass None for "
            "X_labelled and y_labelled to use it as it is."
        )
    if not room and network_in(model) is not None:
        return
    if isinstance(model, str) or room not in ("", *LEARNERS):
        raise BadParameter(f"model must be {expected}, got {described(model)}.")
    in_place(model, "model", expected, "fit")
    # Some classifiers of classifiers have no `predict` before they are fitted.
    if not (hasattr(model, "predict") or isinstance(model, ClassifierMixin)):
        raise BadParameter(
            f"model must be {expected}, got {type(model).__name__}, which predicts nothing."
        )
    if is_regressor(model):
        raise BadParameter(f"model must be {expected}, got the regressor {type(model).__name__}.")


def _name(model: Any) -> str:
    return type(last_step(model)[0]).__name__


def _weighting(model: Any, weights: Any, n_rows: int) -> dict[str, Any]:
    if weights is None:
        return {}
    last, _ = last_step(model)
    if not has_fit_parameter(last, "sample_weight"):
        raise Unsupported(
            f"{type(last).__name__} does not support sample_weight. Leave the weights out, or use another "
            "classifier."
        )
    inside = f"{model.steps[-1][0]}__" if isinstance(model, Pipeline) else ""
    return {f"{inside}sample_weight": clean_weights(weights, n_rows)}


def _stand_in(
    model: Any, X: Any, y: list[Any], X_pool: Any, classes: Sequence[Hashable], *, prepared: bool
) -> Fitted:
    """Return a logistic regression of the features that a model sees, for any number of labels."""
    names = list(dict.fromkeys([*classes, *y]))
    names += ("(another)", "(one more)")[: max(0, 2 - len(names))]
    steps = model[:-1] if isinstance(model, Pipeline) else None
    if steps is not None and not prepared:
        # Too few labels: the steps in front learn from rows alone.
        steps = clone(steps).fit(reference_rows(X_pool))
    through = steps.transform if steps is not None else None
    # Without labels, one row of the pool tells the number of features.
    rows = X if y else reference_rows(X_pool if X is None or n_rows(X) == 0 else X)[:1]
    features = rows if through is None else through(rows)
    features = features if y else features[:0]
    # Of a model that is not ours the features may have any scale.
    scaled = "linear" if is_sparse(features) else [Linear(tame=True)]
    ours = room_of(model) == OURS
    learner = model.having(opinion=None) if ours else Logistic(features=scaled)
    C = learner.C if learner.C != "loo" else 1.0
    learner = learner.having(C=C, classes=names, penalize_intercept="until-seen")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseenClass)
        if through is None:
            return learner.fit(features, y, pool=X_pool)
        pool = through(reference_rows(X_pool)) if n_rows(X_pool) else None
        return behind(through, learner.fit(features, y, pool=pool))
