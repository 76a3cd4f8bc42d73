"""More rows for a study that is under way."""

import re
import shutil

import numpy as np
import polars as pl
import pytest
import scipy.sparse
from typer.testing import CliRunner

import goalward as gw
from goalward.cli import app
from goalward.errors import BadParameter, PoolChanged, ShapeMismatch
from goalward.studio.study.study import resumed

WORDS = {"good": "fine great moving", "bad": "dull stale boring"}


def lines(start, stop):
    return [
        f"a {WORDS[('good', 'bad')[i % 2]].split()[i // 2 % 3]} film number {i}"
        for i in range(start, stop)
    ]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "goalward.studio.tables.cache.user_cache_path", lambda name: tmp_path / "cache"
    )


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "films.csv"
    pl.DataFrame({"text": lines(0, 20)}).write_csv(path)
    return path


def append(path, start, stop):
    with path.open("a") as file:
        file.writelines(f"{text}\n" for text in lines(start, stop))


def answer(study, n, by="me"):
    for row in study.ask(n, by=by):
        study.tell(row, "good" if row % 2 == 0 else "bad", by=by)


def test_a_table_that_was_appended_to_goes_on_with_its_answers(table, tmp_path):
    place = tmp_path / "s.db"
    with gw.Study.create(place, pool=table, classes=["good", "bad"]) as study:
        answer(study, 12)
        study.refresh()
        before = dict(study.state.labels)
        append(table, 20, 30)
        with pytest.raises(PoolChanged, match=r"extend\(\)"):
            study.refresh(force=True)
        other = gw.Study.open(place)
        assert study.extend() == 10
        assert study.extend() == 0
        assert dict(study.state.labels) == before
        assert (study.n_rows, study.state.n_rows) == (30, 30)
        assert study.due("any")
        # Predictions are of all rows, and the new ones are asked too; also by who was there before.
        assert len(study.predict().labels) == 30
        answer(study, 10)
        answer(other, 8, by="bo")
        other.close()
        assert sorted(study.state.labels) == list(range(30))
        assert study.show(29)["text"] == lines(29, 30)[0]
    with gw.Study.open(place) as again:
        assert again.pool.n_rows == 30


@pytest.mark.parametrize("change", ["first", "shorter", "order"])
def test_other_changes_of_a_table_are_refused(table, tmp_path, change):
    with gw.Study.create(tmp_path / "s.db", pool=table, classes=["good", "bad"]) as study:
        texts = lines(0, 25)
        texts = {
            "first": ["another film", *texts[1:]],
            "shorter": texts[:19],
            "order": texts[::-1],
        }[change]
        pl.DataFrame({"text": texts}).write_csv(table)
        seq = study.state.seq
        with pytest.raises(PoolChanged, match="first 20 rows"):
            study.extend()
        assert study.state.seq == seq


def test_the_command_takes_in_what_was_appended(table):
    run = ["label", str(table), "--classes", "good,bad", "--terminal"]
    assert CliRunner().invoke(app, run, input="1\nq\n", catch_exceptions=False).exit_code == 0
    append(table, 20, 23)
    done = CliRunner().invoke(app, run, input="q\n", catch_exceptions=False)
    assert "3 new rows were added" in done.output
    assert "1 labels" in done.output


def test_a_study_is_not_taken_for_that_of_another_table(table):
    run = ["label", "--create-only", "--classes", "good,bad"]
    assert CliRunner().invoke(app, [*run, str(table)], catch_exceptions=False).exit_code == 0
    other = table.with_suffix(".tsv")
    pl.DataFrame({"text": lines(5, 12)}).write_csv(other, separator="\t")
    said = re.escape("films.labels.db holds answers to films.csv, got films.tsv")
    with pytest.raises(BadParameter, match=said):
        CliRunner().invoke(app, [*run, str(other)], catch_exceptions=False)
    copy = table.rename(table.with_name("moved.csv"))  # the same rows: the table was renamed
    run += ["--study", str(other.with_name("films.labels.db"))]
    assert CliRunner().invoke(app, [*run, str(copy)], catch_exceptions=False).exit_code == 0


@pytest.mark.parametrize("kind", ["texts", "array", "sparse"])
def test_rows_inside_a_study_are_added_to(kind, tmp_path, rng):
    X = rng.normal(size=(14, 3)).round(2)
    first, more = {
        "texts": (lines(0, 10), lines(10, 14)),
        "array": (X[:10], X[10:].tolist()),
        "sparse": (scipy.sparse.csr_array(X[:10]), X[10:]),
    }[kind]
    with gw.Study.create(tmp_path / "s.db", pool=first, classes=["good", "bad"]) as study:
        study.tell(3, "good")
        assert study.extend(more) == 4
        with pytest.raises(BadParameter, match="extend"):
            study.extend()
        if kind != "texts":
            with pytest.raises(ShapeMismatch, match="must have 3 columns"):
                study.extend([[1.0]])
    with gw.Study.open(tmp_path / "s.db") as again:
        assert again.n_rows == again.pool.n_rows == 14
        assert dict(again.state.labels) == {3: "good"}
        if kind == "texts":
            assert again.show(13)["text"] == lines(13, 14)[0]
        else:
            found = again.pool.take(np.arange(14))
            found = found.toarray() if kind == "sparse" else found
            np.testing.assert_allclose(found, X)


def test_rows_for_a_table_belong_into_it(table, tmp_path):
    with (
        gw.Study.create(tmp_path / "s.db", pool=table, classes=["good", "bad"]) as study,
        pytest.raises(BadParameter, match="Append them to the table"),
    ):
        study.extend(["a new text"])


def test_vectors_in_another_order_are_refused(tmp_path, table):
    X = np.random.default_rng(0).normal(size=(25, 3))
    np.save(tmp_path / "films.npy", X[:20])
    study = gw.Study.create(tmp_path / "s.db", pool=table, classes=["good", "bad"])
    append(table, 20, 25)
    np.save(tmp_path / "films.npy", X[::-1])
    with pytest.raises(PoolChanged, match=r"first 20 rows of .*films.npy must stay"):
        study.extend()
    np.save(tmp_path / "films.npy", X)
    assert study.extend() == 5
    assert np.array_equal(study.pool.take([24]), X[[24]])


@pytest.fixture
def copied(table, tmp_path):
    """A study and its table in another folder, while the first stays where it is."""
    with gw.Study.create(tmp_path / "s.db", pool=table, classes=["good", "bad"]) as study:
        study.tell(0, "good")
    folder = tmp_path / "copy"
    folder.mkdir()
    for path in (tmp_path / "s.db", table):
        shutil.copy(path, folder)
    return folder / "s.db", folder / table.name


def test_a_copied_study_takes_in_the_rows_of_the_copied_table(copied):
    place, copy = copied
    append(copy, 20, 23)
    study, more = resumed(place, str(copy))
    with study:
        assert (more, study.n_rows) == (3, 23)
        assert study.state.pool["path"] == str(copy)
        assert study.show(22)["text"] == lines(22, 23)[0]


def test_an_edited_row_of_the_copied_table_is_refused(copied):
    place, copy = copied
    copy.write_text(copy.read_text().replace(lines(3, 4)[0], "another film"))
    with pytest.raises(PoolChanged, match="first 20 rows"):
        resumed(place, str(copy))


@pytest.mark.parametrize("ranked", [False, True])
def test_rows_that_another_process_added_fail_no_answer(table, tmp_path, ranked):
    place = tmp_path / "s.db"
    with gw.Study.create(place, pool=table, classes=["good", "bad"], dev=0) as study:
        answer(study, 4)
        (row,) = study.ask()
        before = study.state
        with gw.Study.open(place) as other:
            append(table, 20, 30)
            assert other.extend() == 10
            other.tell_many([(20, "good"), (25, "bad")])
            if ranked:
                assert max(other.refresh(force=True).queue) >= 20
        study.tell_and_ask(row, "good", 3, by="me")
        counted = [len(state.counted_rows[0]) for state in (before, study.state, before)]
        assert counted == [20, 30, 20]
        # Asked from now on, too.
        rest = study.ask(30, at_most=True, resume=True)
        assert sorted([*rest, *study.state.labels]) == list(range(30))
