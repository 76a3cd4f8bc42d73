"""Whole pipelines: rows and model together, beside classifiers that a person would try."""

import numpy as np
import polars as pl
import pytest
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.svm import SVC

from goalward.errors import BadParameter, MissingExtra
from goalward.lab.benchmark import pipelines
from goalward.lab.benchmark.pipelines import (
    CHECKS,
    LINEAR,
    MODELS,
    OURS,
    Job,
    Pipelines,
    classifier,
    jobs,
    leads,
    pipelines_figure,
    play_pipelines,
)
from goalward.lab.benchmark.sessions import Protocol
from goalward.lab.datasets import from_arrays

SMALL = Protocol(budget=40, pool=120, test=60)


@pytest.fixture(scope="module")
def ring():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(200, 2))
    return from_arrays(X, ((X**2).sum(axis=1) < 0.5).astype(int), name="ring")


@pytest.fixture(scope="module")
def found(ring, tmp_path_factory):
    out = tmp_path_factory.mktemp("pipelines")
    sessions = jobs([ring], ("extra trees", "logistic cv"), seeds=2, protocol=SMALL)
    first = play_pipelines(sessions, out=out, n_jobs=1, progress=False)
    told = []
    again = play_pipelines(sessions, out=out, n_jobs=1, progress=lambda *n: told.append(n))
    assert first.table.equals(again.table)
    assert told == []  # nothing is played twice
    assert pl.read_csv(out / "pipelines.csv").equals(first.table)
    return first


def test_every_pipeline_is_checked_after_the_same_labels(found):
    datasets, means = found.at(30)
    assert datasets == ["ring"]
    assert set(means) == {
        *("hedged, ours", "hedged, extra trees", f"hedged, {LINEAR}"),
        *("random, extra trees", "random, logistic cv", "random, ours"),
        *("extra trees margin", "logistic cv margin"),
    }
    assert sorted(set(found.table["labels"])) == [30, 40]  # the later checks are at the budget
    assert found.at(60)[1].keys() == means.keys()


def test_a_curved_set_needs_more_than_a_line(found):
    _, means = found.at(200)
    assert means["hedged, ours"] > means[f"hedged, {LINEAR}"] + 0.1
    lines = found.compared(200)
    assert [line["accuracy"] for line in lines] == sorted(
        (line["accuracy"] for line in lines), reverse=True
    )
    assert all(line["on"] == "ring" and 0.0 <= line["p"] <= 1.0 for line in lines)


def test_random_rows_are_the_same_for_every_model(ring):
    job = Job(ring, "random", (OURS, "extra trees"), 0, SMALL)
    task, split = SMALL.conditions(ring), SMALL.split(SMALL.conditions(ring), 0)
    bought = [rows for rows, _ in job._bought(task, split, 10, 40)][2:]
    assert [len(set(rows.tolist())) for rows in bought] == [30, 40]
    assert np.array_equal(bought[0], bought[1][:30])
    assert np.isin(bought[1], split.pool).all()


def test_rows_by_margin_are_those_the_model_is_least_sure_of(rng):
    X, y = rng.normal(size=(60, 2)), np.arange(60) % 3
    X[:, 0] += 2.0 * y
    trees = ExtraTreesClassifier(random_state=0).fit(X, y)
    p = np.sort(trees.predict_proba(X), axis=1)
    assert leads(trees, X) == pytest.approx(p[:, -1] - p[:, -2])
    machine = SVC().fit(X[y < 2], y[y < 2])
    assert leads(machine, X) == pytest.approx(2.0 * np.abs(machine.decision_function(X)))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings(
    "ignore::FutureWarning:sklearn", "ignore::sklearn.exceptions.ConvergenceWarning"
)
def test_every_classifier_fits_any_number_of_labels(name, rng):
    X = rng.normal(size=(40, 2))
    for y in (np.array([0, 1] + [0] * 38), np.arange(40) % 4):
        assert classifier(name, y).fit(X, y).predict(X).shape == (40,)


@pytest.mark.parametrize(
    ("name", "known_as"), [("tabpfn", "TabPFNClassifier"), ("tabicl", "TabICLClassifier")]
)
def test_foundation_models_take_part_where_they_are_installed(name, known_as, monkeypatch):
    with pytest.raises(MissingExtra, match=name):
        classifier(name, np.array([0, 1]))
    import sys
    from types import SimpleNamespace

    stub = type(known_as, (ExtraTreesClassifier,), {})
    monkeypatch.setitem(sys.modules, name, SimpleNamespace(**{known_as: stub}))
    assert isinstance(classifier(name, np.array([0, 1])), stub)


def test_other_models_are_refused_in_words():
    with pytest.raises(BadParameter, match=r"one of extra trees, .*, got 'trees'"):
        classifier("trees", np.array([0, 1]))


def test_the_figure_names_every_line(found):
    table = found.table
    wide = pl.concat(
        [table.with_columns(pl.lit(check).cast(pl.Int64).alias("labels")) for check in CHECKS]
    )
    figure = pipelines_figure(Pipelines(wide))
    names = [text.get_text() for text in figure.axes[0].texts]
    assert names[0] == "goalward"
    assert set(names) <= {title for title, _, _ in pipelines.SHOWN.values()}
    assert "1 datasets" in figure.axes[0].get_ylabel()
