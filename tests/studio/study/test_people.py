"""Several annotators in a study: weighed labels, and prices of rows."""

import numpy as np
import polars as pl
import pytest

import goalward as gw
from goalward import errors
from goalward.studio.study import ranking
from goalward.studio.study.settings import Settings

X = np.random.default_rng(0).normal(size=(80, 4))
Y = np.where(X @ [2.0, -1.0, 0.5, 0.0] > 0, "yes", "no")
OTHER = {"yes": "no", "no": "yes"}


def made(folder, name="s.db", **options):
    options = {"classes": ["no", "yes"], "dev": 0, "seed": 1, **options}
    return gw.Study.create(folder / name, pool=X, **options)


def answer(study, people, rounds, wrong=()):
    rng = np.random.default_rng(0)
    for _ in range(rounds):
        for by in people:
            for row in study.ask(2, by=by, at_most=True):
                right = by not in wrong or rng.random() < 0.4
                study.tell(row, str(Y[row]) if right else OTHER[str(Y[row])], by=by)


def test_with_one_annotator_nothing_changes_to_the_last_bit(tmp_path):
    plain, weighed = made(tmp_path, "a.db", label="latest"), made(tmp_path, "b.db", label="weighed")
    for study in (plain, weighed):
        answer(study, ["ann"], 15)
    assert weighed.state.labels == plain.state.labels
    assert weighed.state.ranking.queue == plain.state.ranking.queue
    assert weighed.state.ranking.utilities == plain.state.ranking.utilities
    np.testing.assert_array_equal(weighed.model.params, plain.model.params)
    assert weighed.reliability() == []


def test_people_who_never_share_a_row_change_nothing_either(tmp_path):
    plain, weighed = made(tmp_path, "a.db", label="latest"), made(tmp_path, "b.db", label="weighed")
    for study in (plain, weighed):
        answer(study, ["ann", "bo"], 8)
    assert weighed.state.labels == plain.state.labels
    np.testing.assert_array_equal(weighed.model.params, plain.model.params)


def test_new_studies_with_several_answers_weigh_them(tmp_path):
    assert made(tmp_path, "a.db", answers=2).state.settings.label == "weighed"
    assert made(tmp_path, "b.db").state.settings.label == "latest"
    assert made(tmp_path, "c.db", answers=2, label="majority").state.settings.label == "majority"
    assert Settings.from_json({"classes": ["a", "b"], "answers": 3}).label == "latest"


def test_an_adversary_is_found_out_and_outvotes_nobody(tmp_path):
    study = made(tmp_path, answers=3)
    for row in range(40):
        for by, slips in (("ann", 50), ("bo", 9), ("cy", 7)):
            said = str(Y[row]) if (row + 1) % slips else OTHER[str(Y[row])]
            study.tell(row, said, by=by)
        study.tell(row, OTHER[str(Y[row])], by="mallory")
    study.tell(40, OTHER[str(Y[40])], by="mallory")  # alone
    people = {one.by: one for one in study.reliability()}
    assert list(people)[-1] == "mallory"
    assert people["mallory"].share.high < 0.4
    assert people["ann"].share.low > 0.8
    assert people["ann"].answers == 40
    assert "mallory is right in about" in people["mallory"].says
    assert all(study.state.labels[row] == Y[row] for row in range(40))
    assert study.state.labels[40] == Y[40]  # what mallory says is false


def test_the_model_is_fitted_to_probabilities_and_tables_tell_them(tmp_path):
    study = made(tmp_path, answers=2)
    answer(study, ["ann", "bo"], 12, wrong=["bo"])
    state = study.state
    proba = state.consensus.at(list(state.labels))
    assert proba.max(axis=1).min() < 0.9
    np.testing.assert_allclose(study._now().fitted.labelled.targets, proba, atol=1e-12)
    study.export(tmp_path / "labels.csv")
    exported = pl.read_csv(tmp_path / "labels.csv")
    assert exported.columns[:3] == ["row", "label", "consensus"]
    np.testing.assert_allclose(exported["consensus"], proba.max(axis=1), atol=1e-4)
    study.write_predictions(tmp_path / "all.csv")
    told = pl.read_csv(tmp_path / "all.csv")
    assert told.filter(pl.col("answered"))["consensus"].to_list() == exported["consensus"].to_list()
    assert told.filter(~pl.col("answered"))["consensus"].null_count() == 80 - len(state.labels)


def test_sure_rows_that_one_of_two_answered_are_not_listed_any_more(tmp_path, monkeypatch):
    monkeypatch.setattr(ranking, "SURE", 0.6)
    study = made(tmp_path, answers=2)
    answer(study, ["ann", "bo"], 12)
    begun = study.sure()[0][0]
    assert begun not in study.state.labels
    study.tell(begun, str(Y[begun]), by="ann")
    sure = [row for row, *_ in study.sure()]
    assert sure
    assert not study.state.labels.keys() & set(sure)


def test_a_class_that_nobody_named_stays_unseen(tmp_path):
    study = made(tmp_path, answers=2, classes=["no", "yes", "never"])
    answer(study, ["ann", "bo"], 6, wrong=["bo"])
    targets = study._now().fitted.labelled.targets
    assert np.all(targets[:, 2] == 0.0)
    assert np.any((targets > 0.0) & (targets < 1.0))


def prices(folder, **columns):
    table = pl.DataFrame({f"x{i}": X[:, i] for i in range(4)} | columns)
    table.write_csv(folder / "rows.csv")
    names = tuple(f"x{i}" for i in range(4))
    return gw.tables.Table(folder / "rows.csv", numeric=names)


def test_a_queue_goes_by_gain_per_price_and_status_says_what_was_spent(tmp_path):
    cost = np.random.default_rng(1).uniform(0.5, 20.0, 80)
    table = prices(tmp_path, price=cost)
    options = {"classes": ["no", "yes"], "dev": 0, "strategy": "least-confident"}
    study = gw.Study.create(tmp_path / "s.db", pool=table, costs="price", **options)
    plain = gw.Study.create(tmp_path / "t.db", pool=table, **options)
    for one in (study, plain):
        answer(one, ["ann"], 10)
        one.refresh(force=True)
    ranking = study.state.ranking
    worth = np.array(ranking.utilities) / cost[list(ranking.queue)]
    assert np.all(np.diff(worth) <= 1e-12)
    assert study.status()["spent"] == pytest.approx(cost[list(study.state.labels)].sum())
    assert study.status()["spent"] < 0.6 * cost[list(plain.state.labels)].sum()
    assert "spent" not in plain.status()
    row = next(iter(study.state.labels))
    before = study.status()["spent"]
    study.tell(row, "yes", by="bo")  # each answer is paid
    assert study.status()["spent"] == pytest.approx(before + cost[row])


def test_bad_prices_are_refused_before_a_study_is_made(tmp_path):
    cost = np.ones(80)
    cost[7] = 0.0
    table = prices(tmp_path, price=cost)
    for pool, column, strategy, message in (
        (table, "price", "auto", r"got 0.0 at costs\[7\]"),
        (table, "prise", "auto", "got 'prise'; the rows have the columns x0, "),
        (X, "price", "auto", "got 'price'; the rows have no columns"),
        (table, "price", "random", "strategy='random' does not support costs"),
    ):
        with pytest.raises(errors.BadParameter, match=message):
            gw.Study.create(
                tmp_path / "s.db", pool=pool, classes=["a", "b"], costs=column, strategy=strategy
            )
        assert not (tmp_path / "s.db").exists()
