"""Tables of pandas and polars, ColumnTransformer, and wide sparse texts, straight in."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import goalward as gw
from goalward.adapters import from_sklearn
from goalward.errors import ShapeMismatch
from goalward.utility import FirstOrder, ImplicitStep, Retrain

FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame}


def table(rng, n):
    size = rng.normal(size=n)
    colour = rng.choice(["red", "green", "blue"], size=n)
    y = np.where(size + (colour == "red") + 0.5 * rng.normal(size=n) > 0.5, "yes", "no")
    return {"size": size, "weight": rng.normal(size=n), "colour": colour}, y


@pytest.mark.parametrize("kind", FRAMES)
def test_a_mixed_table_goes_through_a_column_transformer(kind, rng):
    front = ColumnTransformer(
        [("numbers", StandardScaler(), ["size", "weight"]), ("names", OneHotEncoder(), ["colour"])]
    )
    tables = {name: table(rng, n) for name, n in (("known", 50), ("dev", 40), ("pool", 30))}
    X, dev, pool = (FRAMES[kind](tables[name][0]) for name in ("known", "dev", "pool"))
    y, y_dev = tables["known"][1], tables["dev"][1]
    model = make_pipeline(front, LogisticRegression()).fit(X, y)
    fitted = from_sklearn(model, X, y, polish=True)
    # scikit-learn stops at its own tolerance; ours is at the optimum.
    np.testing.assert_allclose(fitted.predict_proba(pool), model.predict_proba(pool), atol=1e-3)
    goal = gw.goals.DevLoss(dev, pl.Series(y_dev) if kind == "polars" else pd.Series(y_dev))
    strategy = gw.GoalOriented(goal, selection=gw.selection.Sequential(update="curvature"))
    rows = strategy.suggest(fitted, pool, batch=5).rows
    plain = from_sklearn(model[-1], front.transform(X), y, polish=True)
    own = gw.GoalOriented(
        gw.goals.DevLoss(front.transform(dev), y_dev),
        selection=gw.selection.Sequential(update="curvature"),
    )
    assert np.array_equal(rows, own.suggest(plain, front.transform(pool), batch=5).rows)
    with pytest.raises(ShapeMismatch, match="Reorder"):
        strategy.suggest(fitted, pool[["weight", "size", "colour"]], batch=5)


def test_a_polars_table_of_numbers_needs_no_conversion(rng):
    X = pl.DataFrame({name: rng.normal(size=80) for name in "abc"})
    y = (X["a"] + X["b"] > 0).cast(pl.Int64)
    fitted = gw.Logistic().fit(X[:40], y[:40])
    goal = gw.goals.DevLoss(X[40:60], y[40:60])
    for utility in (FirstOrder(), ImplicitStep(), Retrain()):
        suggestion = gw.GoalOriented(goal, utility=utility).suggest(fitted, X[60:], batch=4)
        same = gw.GoalOriented(
            gw.goals.DevLoss(X[40:60].to_numpy(), y[40:60].to_numpy()), utility=utility
        ).suggest(gw.Logistic().fit(X[:40].to_numpy(), y[:40].to_numpy()), X[60:].to_numpy(), 4)
        assert np.array_equal(suggestion.rows, same.rows)


def test_fifty_thousand_sparse_text_features_stay_sparse():
    """TF-IDF over two-word sequences: 50,000 columns, of which a row has about 20."""
    rng = np.random.default_rng(0)
    words = [f"{a}{b}" for a in "bcdfghjklmnpqrstvwxz" for b in "aeiou"]
    share = {"good": rng.dirichlet(np.full(100, 0.3)), "bad": rng.dirichlet(np.full(100, 0.3))}

    def texts(n):
        labels = rng.choice(["good", "bad"], size=n)
        return [" ".join(rng.choice(words, p=share[c], size=60)) for c in labels], labels

    (known, y), (dev, y_dev), (pool, _) = texts(120), texts(60), texts(2000)
    vectorizer = TfidfVectorizer(ngram_range=(1, 3), max_features=50_000)
    vectorizer.fit(known + dev + pool)
    assert len(vectorizer.vocabulary_) == 50_000
    model = make_pipeline(vectorizer, LogisticRegression(C=10.0))
    model[-1].fit(vectorizer.transform(known), y)
    fitted = from_sklearn(model, known, y, polish=True)
    assert fitted.n_features == 50_000
    assert hasattr(fitted.labelled.X, "tocsr")
    goal = gw.goals.DevLoss(dev, y_dev)
    suggestion = gw.GoalOriented(goal, operator=gw.labels.Spread()).suggest(fitted, pool, batch=10)
    assert suggestion.solver.solver == "Dual"
    assert suggestion.solver.residual < 1e-8
    near = ImplicitStep()(fitted, goal, pool[:20])
    exact = Retrain()(fitted, goal, pool[:20])
    np.testing.assert_allclose(near, exact, atol=0.05 * np.abs(exact).max())
