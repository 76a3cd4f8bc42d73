"""Tables of pandas and polars, ColumnTransformer, and wide sparse texts, straight in."""

from importlib import import_module

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
from goalward.errors import BadInput, ShapeMismatch
from goalward.utility import FirstOrder, ImplicitStep, Retrain
from tests.conftest import need, some_heavy

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


def dataset(data):
    need("datasets")
    return import_module("datasets").Dataset.from_dict(data)


LAZY = {"polars.LazyFrame": pl.LazyFrame, "datasets.Dataset": dataset}
"""Tables that are not in memory, by what makes them of columns."""
FRONT = ColumnTransformer(
    [("numbers", StandardScaler(), ["size", "weight"]), ("names", OneHotEncoder(), ["colour"])]
)


@pytest.mark.parametrize("kind", some_heavy(LAZY, ["datasets.Dataset"]))
def test_lazy_frames_and_datasets_are_pools(kind, rng):
    (known, y), (pool, _), (dev, y_dev) = (table(rng, n) for n in (50, 30, 20))
    model = make_pipeline(FRONT, LogisticRegression())
    rows = {}
    for make in (pd.DataFrame, LAZY[kind]):
        X, Xp, X_dev = make(known), make(pool), make(dev)
        found = gw.suggest(model, X, y, Xp, batch=5)
        by_dev = gw.suggest(model, X, y, Xp, strategy="dev/spread", dev=(X_dev, y_dev))
        start = gw.suggest(model, None, None, Xp, batch=3)
        rows[make] = [part.rows.tolist() for part in (found, by_dev, start)]
    assert rows[pd.DataFrame] == rows[LAZY[kind]]
    numbers = LAZY[kind]({name: known[name] for name in ("size", "weight")})
    fitted = gw.Logistic().fit(numbers, y)
    assert gw.strategies.Margin().suggest(fitted, numbers, batch=2).rows.shape == (2,)
    assert gw.GoalOriented.recommended(numbers).suggest(fitted, numbers, batch=2).rows.shape == (2,)


@pytest.mark.heavy
def test_columns_of_a_dataset_are_texts_labels_and_vectors(rng):
    need("datasets")
    from datasets import Dataset, DatasetDict

    texts = [f"{word} {i}" for i in range(10) for word in ("good", "bad")]
    vectors, labels = rng.normal(size=(20, 3)), ["yes", "no"] * 10
    rows = Dataset.from_dict({"text": texts, "embedding": vectors, "label": labels})
    known, pool = rows.select(range(8)), rows.select(range(8, 20))
    model = make_pipeline(TfidfVectorizer(), LogisticRegression())
    found = gw.suggest(model, known["text"], known["label"], pool["text"], batch=3)
    plain = gw.suggest(model, texts[:8], labels[:8], texts[8:], batch=3)
    assert found.rows.tolist() == plain.rows.tolist()
    found = gw.suggest(None, known["embedding"], known["label"], pool["embedding"], batch=3)
    plain = gw.suggest(None, vectors[:8], labels[:8], vectors[8:], batch=3)
    assert found.rows.tolist() == plain.rows.tolist()
    with pytest.raises(BadInput, match=r"a DatasetDict with the keys 'train'.*x\['train'\]"):
        gw.suggest(None, None, None, DatasetDict(train=rows))


@pytest.mark.heavy
@pytest.mark.parametrize("kind", LAZY)
def test_lazy_frames_and_datasets_are_tables_of_studies(kind, tmp_path):
    need("anywidget")
    texts = ["a fine film", "dull plot", "great cast", "a bore"]
    made = LAZY[kind]({"text": texts, "stars": [5, 2, 4, 1]})
    widget = gw.annotate(made, text="text", classes=["good", "bad"], study=tmp_path / "w.db")
    assert widget.summary["rows"] == 4
    one = LAZY[kind]({"text": texts})
    study = gw.Study.create(tmp_path / "t.db", pool=one, classes=["good", "bad"])
    assert [study.show(row)["text"] for row in range(4)] == texts
    study.extend(LAZY[kind]({"text": ["more of it"]}))
    assert study.show(4)["text"] == "more of it"
    numbers = LAZY[kind]({"stars": [5, 2, 4, 1], "length": [3.0, 2.0, 2.0, 2.0]})
    counted = gw.Study.create(tmp_path / "n.db", pool=numbers, classes=["good", "bad"])
    assert counted.show(0)["columns"] == {"0": 5.0, "1": 3.0}
    with pytest.raises(BadInput, match=r"columns text, stars .*frame\['text'\].*tables\.Table"):
        gw.Study.create(tmp_path / "m.db", pool=made, classes=["good", "bad"])
    assert not (tmp_path / "m.db").exists()


@pytest.mark.heavy
def test_cells_without_a_text_are_empty(tmp_path):
    need("anywidget")
    for name, make in FRAMES.items():
        frame = make({"text": ["a fine film", None, "a bore"], "n": [1, 2, 3]})
        place = tmp_path / f"{name}.db"
        gw.annotate(frame, text="text", classes=["good", "bad"], study=place)
        assert gw.Study.open(place).show(1)["text"] == ""
