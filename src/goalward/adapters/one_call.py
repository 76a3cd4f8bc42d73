"""One call from a model and some labels to the rows worth a label next."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, clone, is_regressor
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from goalward.adapters.classifier import from_classifier, from_estimator
from goalward.adapters.sklearn import is_logistic
from goalward.adapters.torch import from_head, network_in
from goalward.core.arguments import LEARNERS, described, in_place, room_of
from goalward.core.draws import reference_rows
from goalward.core.labels import as_classes, clean_weights, encode
from goalward.core.pool import n_rows
from goalward.core.rows import held
from goalward.errors import (
    BadParameter,
    LooseFit,
    NotConverged,
    Separable,
    ShapeMismatch,
    UnseenClass,
    Unsupported,
)
from goalward.labels.opinion import Opinion
from goalward.models import Fitted
from goalward.models.logistic import Logistic
from goalward.models.refitted import last_step
from goalward.strategies import Random, Strategy, Suggestion, recipe
from goalward.strategies.recipes import RECOMMENDED

WITHOUT_CURVATURE = "coverage among 4000 by random, margin in turn"
"""The parts of the recommended strategy that a model without derivatives can play."""


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
        Any classifier of scikit-learn, or a `Pipeline` that ends in one; `None` for ours,
        `gw.Logistic()`. A clone is fitted, never the object itself; one in a `FrozenEstimator` is used
        as it is. Of a logistic regression it is known what each label would change. Other classifiers
        are asked what they predict; without `predict_proba` a logistic regression of the same features
        stands in. Of a classifier of torch, alone or in a `pipeline` of transformers, a copy of the head
        is fitted. `says` of what is returned tells which.
    X_labelled, y_labelled
        Labelled rows and their labels; None, or empty, for a start from nothing.
    X_pool
        Rows to choose from: an array, sparse, a frame (lazy too), a Hugging Face dataset or a column of
        one, texts for a pipeline, a `PoolFile`.
    strategy
        "recommended", a recipe such as "margin" or "entropy/predicted/implicit", or a strategy.
    exclude
        Positions in the pool not to suggest.
    classes
        All classes, where some have no label yet.
    dev
        (X, y) of a dev set, for recipes that need one.
    sample_weight
        A weight for each labelled row.
    seed
        Draws the rows that goals look at, and breaks ties.
    costs, budget
        What each row of the pool costs, and what may be spent: rows by gain per price, `batch` at most.
    guesses
        A guess for each row of the pool (None where there is none), a function that makes them of
        `X_pool`, or an `Opinion`: used as far as the labels bear them out. For our own model.

    Examples
    --------
    >>> import goalward as gw
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = [[0.0, 1.0], [1.0, 0.0]], ["a", "b"]
    >>> found = gw.suggest(LogisticRegression(), X, y, [[0.0, 2.0], [1.0, 1.1], [3.0, 0.0]], batch=1)
    >>> found.rows
    array([1])
    >>> found.says.split("; ")[1]
    'rows by hedged: GoalOriented(Coverage) chose 1 of 3 rows.'
    """
    X_labelled, X_pool = held(X_labelled), held(X_pool)
    if guesses is not None:
        model = _with_opinion(model, X_pool, guesses, classes, seed)
    fitted, how = model_for(model, X_labelled, y_labelled, X_pool, classes, sample_weight)
    if guesses is not None:
        how += ", with the guesses" if fitted.transform else ", the guesses not used"
    chosen, name = strategy_for(strategy, fitted, X_pool, dev, seed)
    if not (fitted.has_two_classes or fitted.model.predict_only):
        name = "coverage, until two classes have labels"
    found = chosen.suggest(fitted, X_pool, batch, exclude, costs=costs, budget=budget)
    return replace(found, says=f"{how}; rows by {name}: {found.says}")


def _with_opinion(
    model: Any, X_pool: Any, guesses: Any, classes: Sequence[Hashable], seed: int
) -> Logistic:
    """Return our learner, told of guesses."""
    if not isinstance(model, Logistic | None):
        raise BadParameter(
            f"guesses came with {_name(model)}; None or gw.Logistic() was expected as the model. Leave the "
            "model out, or the guesses."
        )
    ready = isinstance(guesses, Opinion)
    opinion = guesses if ready else Opinion.of(X_pool, guesses, seed=seed)
    return _ours(model, classes).having(opinion=opinion)


def _ours(model: Logistic | None, classes: Sequence[Hashable]) -> Logistic:
    """Return our learner, told of the classes unless it knows them."""
    learner = model or Logistic()
    return (
        learner
        if learner.classes is not None or not len(classes)
        else learner.having(classes=list(classes))
    )


def strategy_for(
    strategy: Any, fitted: Fitted, X_pool: Any, dev: Any, seed: int
) -> tuple[Strategy, str]:
    """Return the strategy that a word stands for, with its data, and what to call it."""
    if not isinstance(strategy, str):
        example = "'recommended', a recipe such as 'margin', or gw.strategies.Margin()"
        in_place(strategy, "strategy", example, "suggest")
        return strategy, type(strategy).__name__
    name = strategy
    if n_rows(X_pool) == 0:
        return Random(), name  # goals need rows, and there is nothing to choose
    if strategy == "recommended":
        name = RECOMMENDED if fitted.model.is_linear else WITHOUT_CURVATURE
    drawn = reference_rows(X_pool, seed=seed)
    return recipe(name).build(dev=dev, pool=drawn, seed=seed), name


def model_for(
    model: Any, X: Any, y: Any, X_pool: Any, classes: Sequence[Hashable], weights: Any = None
) -> tuple[Fitted, str]:
    """Return the model of the labelled rows, and how it came about."""
    if getattr(y, "ndim", 1) > 1:
        raise ShapeMismatch(
            f"y_labelled has shape {tuple(y.shape)}; one label per row was expected. Are rows and labels "
            "in each other's place?"
        )
    labels = [] if y is None else list(y)
    if isinstance(getattr(model, "fitted_", model), Fitted) and not labels:
        return getattr(model, "fitted_", model), f"The {type(model).__name__} is used as it is"
    if (X is None) != (y is None):
        raise BadParameter(
            "Labelled rows came without labels, or labels without rows; both, or None for both, were "
            "expected."
        )
    if X_pool is None:
        raise BadParameter("X_pool is None; the rows to choose from were expected.")
    _check_model(model)
    if len(classes):
        encode(labels, as_classes(classes), "y_labelled", least=0)
    name, many = _name(model), f"{len(labels)} label{'s' * (len(labels) != 1)}"
    if network_in(model) is not None:
        fitted = from_head(model, X, labels, X_pool, classes, weights)
        return fitted, f"The head of {type(network_in(model)).__name__} was fitted to {many}"
    if len(set(labels)) < 2:
        standing = _stand_in(model, X, labels, X_pool, classes, prepared=False)
        return standing, f"{many}, of fewer than two classes, are too few for {name}"
    if model is None or isinstance(model, Logistic):
        learner = _ours(model, classes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnseenClass)
            return learner.fit(X, labels, sample_weight=weights), f"{name} was fitted to {many}"
    own, said = _own(model, X, labels, weights)
    if not hasattr(own, "predict_proba"):
        standing = _stand_in(own, X, labels, X_pool, classes, prepared=True)
        return (
            standing,
            f"{name} has no predict_proba: Logistic on its features was fitted to {many}",
        )
    frozen = isinstance(model, FrozenEstimator)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LooseFit)
            adapted = from_estimator(own, X, labels, weights, classes=classes, polish=not frozen)
        return adapted, f"{said} to {many}"
    except (Unsupported, Separable, NotConverged) as error:
        if not is_logistic(last_step(own)[0]):
            raise
        reason = str(error).split("; ")[0].rstrip(".")
        return from_classifier(own, X, labels, weights), f"{said} to {many} ({reason})"


def _check_model(model: Any) -> None:
    """Raise unless a model is a classifier, or None."""
    expected = "a classifier such as sklearn's LogisticRegression(), or None for ours,"
    if isinstance(model, Fitted):
        raise BadParameter(
            "model is a Fitted, and labels came to fit it to; a learner or a classifier was expected. Pass "
            "None for X_labelled and y_labelled to use it as it is."
        )
    if model is None or (room_of(model) in ("", *LEARNERS) and network_in(model) is not None):
        return
    if isinstance(model, str) or room_of(model) not in ("", *LEARNERS):
        raise BadParameter(f"model is {described(model)}; {expected} was expected.")
    in_place(model, "model", expected.rstrip(","), "fit")
    # Some classifiers of classifiers have no `predict` before they are fitted.
    if not (hasattr(model, "predict") or isinstance(model, ClassifierMixin | Logistic)):
        raise BadParameter(
            f"model is {type(model).__name__}, which predicts nothing; {expected} was expected."
        )
    if not isinstance(model, Logistic) and is_regressor(model):
        raise BadParameter(
            f"model is the regressor {type(model).__name__}; {expected} was expected."
        )


def _name(model: Any) -> str:
    """Return what to call a model."""
    if model is None:
        return "Logistic"
    return type(last_step(model)[0]).__name__


def _own(model: Any, X: Any, y: list[Any], weights: Any) -> tuple[Any, str]:
    """Return a fitted clone, or what was frozen, and a sentence on it."""
    if isinstance(model, FrozenEstimator):
        return model.estimator, f"{_name(model.estimator)}, frozen, is used as it is; it was fitted"
    labels = np.asarray(y) if not isinstance(y[0], tuple) else y
    fitted = clone(model).fit(X, labels, **_weighting(model, weights, len(y)))
    if hasattr(fitted, "best_estimator_"):
        return fitted.best_estimator_, f"The best {_name(fitted.best_estimator_)} was fitted"
    return fitted, f"A clone of {_name(model)} was fitted"


def _weighting(model: Any, weights: Any, n_rows: int) -> dict[str, Any]:
    """Return weights under the name that `fit` has for them."""
    if weights is None:
        return {}
    last, _ = last_step(model)
    if not has_fit_parameter(last, "sample_weight"):
        raise Unsupported(
            f"sample_weight came with {type(last).__name__}, whose fit takes none. Leave the weights out, "
            "or use another classifier."
        )
    inside = f"{model.steps[-1][0]}__" if isinstance(model, Pipeline) else ""
    return {f"{inside}sample_weight": clean_weights(weights, n_rows)}


def _stand_in(
    model: Any, X: Any, y: list[Any], X_pool: Any, classes: Sequence[Hashable], *, prepared: bool
) -> Fitted:
    """Return a logistic regression of the features that a model sees, for any number of labels."""
    seen = list(dict.fromkeys([*classes, *y]))
    names = seen if len(seen) > 1 else [*seen, *("(another)", "(one more)")[: 2 - len(seen)]]
    steps = model[:-1] if isinstance(model, Pipeline) else None
    if steps is not None and not prepared:
        # No labels to speak of: steps in front learn from rows alone.
        steps = clone(steps).fit(reference_rows(X_pool))
    through = steps.transform if steps is not None else None
    rows = X_pool if X is None or n_rows(X) == 0 else X
    rows = reference_rows(rows)[:1] if not y else rows
    features = rows if through is None else through(rows)
    features = features[:0] if not y else features
    learner = Logistic(classes=names, penalize_intercept="until-seen")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseenClass)
        return replace(learner.fit(features, y), transform=through)
