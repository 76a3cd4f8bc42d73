"""A second opinion in a study: used where answers bear it out, shown, and never where it would measure."""

import numpy as np
import polars as pl
import pytest

import goalward as gw
from goalward.errors import BadInput, BadParameter

N = 400
WORDS = np.array(["sun", "sea", "tax", "law", "cat", "dog", "rain", "wind", "road", "song"])


def table(tmp_path, right=0.8, seed=0, **columns):
    """Write texts of two classes, a guess for each and how sure it is; return the path and the truth."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, N)
    lean = np.where(y[:, None] == 1, np.linspace(0.04, 0.16, 10), np.linspace(0.16, 0.04, 10))
    texts = [" ".join(rng.choice(WORDS, 9, p=p / p.sum())) for p in lean]
    truth = np.array(["bad", "good"])[y]
    said = np.array(["bad", "good"])[np.where(rng.random(N) < right, y, 1 - y)]
    frame = pl.DataFrame({"text": texts, "llm": said, "sure": np.full(N, 0.9), **columns})
    frame.write_csv(tmp_path / "texts.csv")
    return tmp_path / "texts.csv", truth, said


def study_of(tmp_path, path, **options):
    classes = options.pop("classes", ["good", "bad"])
    return gw.Study.create(tmp_path / "s.db", pool=path, classes=classes, **options)


def answered(study, truth, n=40):
    for row in study.ask(n):
        study.tell(row, str(truth[row]))
    study.refresh()
    return study


def test_a_column_of_guesses_is_used_and_its_worth_is_said(tmp_path):
    path, truth, said = table(tmp_path)
    study = answered(study_of(tmp_path, path, guesses="llm", guess_probabilities="sure"), truth)
    found = study.status()["guesses"]
    hits = sum(said[row] == label for row, label in study.state.labels.items())
    assert (found["right"], found["of"], found["used"]) == (hits, 40, True)
    assert found["says"] == f"The guesses were right in {hits} of 40 answers: used."
    pool = gw.tables.Table(path, text="text", alone=True)
    plain = answered(gw.Study.create(tmp_path / "p.db", pool=pool, classes=["good", "bad"]), truth)
    accuracy = [np.mean(one.predict().labels == truth) for one in (study, plain)]
    assert accuracy[0] > accuracy[1]
    assert plain.status()["guesses"] is None
    # New rows have no guesses, and the model needs none.
    model = gw.load_model(study.save_model(tmp_path / "model"))
    shown = pl.read_csv(path)["text"].to_list()
    np.testing.assert_array_equal(model.predict(shown), study.predict().labels)
    again = gw.Study.open(tmp_path / "s.db")
    np.testing.assert_allclose(again.predict().probabilities, study.predict().probabilities)


def test_guesses_are_no_features_and_not_seen(tmp_path):
    rng = np.random.default_rng(0)
    numbers = pl.DataFrame(
        {"a": rng.normal(size=60), "b": rng.normal(size=60), "llm": ["x", "y"] * 30}
    )
    numbers.write_csv(tmp_path / "numbers.csv")
    study = study_of(tmp_path, tmp_path / "numbers.csv", guesses="llm", classes=["x", "y"])
    assert study.pool.X.shape[1] == 2
    assert set(study.show(0)["columns"]) == {"a", "b"}
    with pytest.raises(BadParameter, match="'gpt' is not in"):
        gw.Study.create(
            tmp_path / "t.db", pool=tmp_path / "numbers.csv", classes=["x", "y"], guesses="gpt"
        )


def test_guesses_that_are_half_wrong_are_not_used(tmp_path):
    path, truth, _ = table(tmp_path, right=0.5)
    study = answered(study_of(tmp_path, path, guesses="llm"), truth)
    pool = gw.tables.Table(path, text="text", alone=True)
    plain = answered(gw.Study.create(tmp_path / "p.db", pool=pool, classes=["good", "bad"]), truth)
    assert "not used" in study.status()["guesses"]["says"]
    assert study.state.ranking.queue == plain.state.ranking.queue


def test_what_is_shown_is_calibrated_and_never_on_rows_that_measure(tmp_path):
    path, truth, said = table(tmp_path, right=0.7)
    study = study_of(tmp_path, path, guesses="llm", dev=0.5)
    dev = study.state.settings.is_dev(range(N))
    first = study.guesses(range(N))
    assert set(first) == set(np.flatnonzero(~dev).tolist())
    assert {share for _, share in first.values()} == {0.5}
    study.tell_many([(row, str(truth[row])) for row in range(200)])
    for row, (label, share) in study.guesses(range(200, N)).items():
        named = said[:200] == label
        assert said[row] == label
        assert share == pytest.approx(np.mean(truth[:200][named] == label), abs=0.02)


def test_guesses_in_memory_with_gaps_other_names_and_rows_that_come_later(tmp_path):
    path, truth, said = table(tmp_path)
    texts = pl.read_csv(path)["text"].to_list()
    mixed = [None, float("nan"), "", "who knows", *said[4:].tolist()]
    study = study_of(tmp_path, texts, guesses=mixed, dev=0)
    assert sorted(study.guesses(range(6))) == [4, 5]
    study.describe("good", name="fine")
    assert {label for label, _ in study.guesses(range(N)).values()} == {"fine", "bad"}
    answered(study, np.where(truth == "good", "fine", "bad"))
    assert study.status()["guesses"]["used"]
    study.extend(["sun sea sun", "tax law"])
    assert study.guesses([N, N + 1]) == {}
    assert answered(study, np.full(N + 2, "bad"), n=5).status()["guesses"]["of"] >= 40


def test_numbers_meet_classes_by_their_text_and_functions_may_guess(tmp_path):
    X = np.random.default_rng(0).normal(size=(50, 3))
    study = study_of(
        tmp_path, X, classes=["0", "1"], guesses=lambda rows: (rows[:, 0] > 0).astype(int), dev=0
    )
    assert study.guesses([0])[0][0] == str(int(X[0, 0] > 0))


def test_guesses_that_do_not_fit_are_refused_and_leave_nothing(tmp_path):
    with pytest.raises(BadParameter, match=r"one for each of 2 rows, .* got 3"):
        study_of(tmp_path, ["a b", "c d"], guesses=["good", "bad", "bad"])
    with pytest.raises(BadParameter, match=r"as guesses \(2\), got 1"):
        study_of(tmp_path, ["a b", "c d"], guesses=["good", "bad"], guess_probabilities=[0.5])
    path = tmp_path / "t.csv"
    for wrong in (2.0, float("inf"), -0.1, "much"):
        with pytest.raises(BadInput, match="from 0 to 1"):
            study_of(tmp_path, ["a b", "c d"], guesses=["x", "y"], guess_probabilities=[0.5, wrong])
        path.write_text(f"text,llm,sure\na b,good,0.5\nc d,bad,{wrong}\n")
        with pytest.raises(BadInput, match="from 0 to 1"):
            study_of(tmp_path, path, guesses="llm", guess_probabilities="sure")
    learner = gw.Logistic(opinion=gw.Opinion.of(np.eye(2), ["a", "b"]))
    with pytest.raises(BadParameter, match="Pass guesses= instead"):
        study_of(tmp_path, ["a b", "c d"], learner=learner)
    assert not (tmp_path / "s.db").exists()
