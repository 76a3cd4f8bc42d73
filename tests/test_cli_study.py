"""Labelling from the command line, end to end."""

import json
import subprocess
import sys

import polars as pl
import pytest
from typer.testing import CliRunner

import goalward as gw
from goalward.cli import app
from goalward.cli.console import visible
from goalward.cli.label import share
from goalward.errors import BadParameter, GoalwardError, WouldOverwrite

RUN = CliRunner()


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "goalward.studio.tables.cache.user_cache_path", lambda name: tmp_path / "cache"
    )
    path = tmp_path / "reviews.csv"
    words = ["fine", "dull"]
    lines = [f"{i},a {words[i % 2]} film number {i}" for i in range(40)]
    path.write_text("id,text\n" + "\n".join(lines) + "\n")
    return path


def run(*arguments, typed=None):
    done = RUN.invoke(app, [str(a) for a in arguments], input=typed, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def label(table, typed, *more):
    return run(
        "label", table, "--text", "text", "--classes", "good,bad", "--terminal", *more, typed=typed
    )


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nothere.csv", "nothere.csv could not be opened"),
        ("a.labels.db", "Open it with `goalward serve"),
    ],
)
def test_what_is_no_table_is_said_to_be_none(tmp_path, name, says):
    with pytest.raises(GoalwardError, match=says):
        RUN.invoke(app, ["label", str(tmp_path / name)], catch_exceptions=False)


def test_a_person_labels_in_the_terminal_and_goes_on_later(table):
    shown = label(table, "1\nbad\ns\nn hard to say\n1\nu\n?\n2\nq\n", "--by", "ann")
    assert "3 answered now, 3 labels" in shown
    place = table.with_suffix(".labels.db")
    with gw.Study.open(place) as study:
        assert len(study.state.labels) == 3
        assert len(study.state.skipped) == 1
        assert [n.text for notes in study.state.notes.values() for n in notes] == ["hard to say"]
    again = label(table, "w\nnonsense\n1\n", "--by", "ann")
    assert "4 labels" in again
    assert "would move the goal" in again


@pytest.mark.parametrize(
    ("option", "say", "column", "measure"),
    [
        (("--labels", "fine,dull"), lambda i: [("fine", "dull")[i % 2]], "fine", "macro-F1"),
        (("--number", "stars"), lambda i: 1 + 4 * (i % 2), "stars", "R²"),
    ],
)
def test_several_labels_and_numbers_from_the_command_line(table, option, say, column, measure):
    made = ("label", table, "--create-only", "--text", "text", *option, "--json")
    place = json.loads(run(*made))["study"]
    assert json.loads(run(*made))["study"] == place, "the same options go on with it"
    with gw.Study.open(place) as study:
        for _ in range(3):
            for row in study.ask(6):
                study.tell(row, say(row))
        if option[0] == "--labels":
            study.tell(39, [])
    shown = run("status", place)
    assert measure in shown
    assert "log_loss" not in shown
    assert ("stabilizing" in shown) == (measure == "macro-F1")
    out, told = table.with_name("out.csv"), table.with_name("told.csv")
    assert "40 rows" in run("predict", place, out)
    run("export", place, told)
    assert column in out.read_text().splitlines()[0]
    assert "0 taken" in run("import", place, told), "what came out is known already"
    done = RUN.invoke(app, ["label", str(table), "--classes", "a,b", *option])
    assert done.exit_code
    words = " ".join((done.output + str(done.exception)).split())
    assert "Only one of --classes, --labels and --number" in words


def test_several_labels_in_the_terminal(table):
    option = ("label", table, "--text", "text", "--labels", "fine,dull,long", "--terminal")
    typed = "1 3\nlong, fine\n-\nlate\n1,late\nfine\nu\ns\nw\nq\n"
    said = run(*option, typed=typed)
    assert "1: fine  2: dull  3: long" in said
    assert said.count("numbers or names with commas, or - for none: answer") == 3
    assert "fine: probability 0." in said
    with gw.Study.open(table.with_suffix(".labels.db")) as study:
        given = sorted(study.state.labels.values())
        assert given == [(False, False, False), (True, False, True), (True, False, True)]
        assert study.state.n_skipped == 1


def test_numbers_in_the_terminal(table):
    option = ("label", table, "--text", "text", "--number", "stars", "--terminal")
    said = run(*option, typed="3.5\nmany\nnan\n-2e1\nn dear\nq\n")
    assert "stars?" in said
    assert "must be a finite number" in " ".join(said.split())
    with gw.Study.open(table.with_suffix(".labels.db")) as study:
        assert sorted(study.state.labels.values()) == [-20.0, 3.5]
        assert len(study.state.notes) == 1


def test_the_loop_as_a_program_sees_it(table, tmp_path):
    making = ("label", table, "--create-only", "--text", "text", "--classes", "good,bad")
    making += ("--dev", "20%", "--json")
    made, place = json.loads(run(*making)), table.with_suffix(".labels.db")
    assert made == json.loads(run(*making)) == {"study": str(place), "rows": 40, "labels": 0}
    with gw.Study.open(place) as study:
        for _ in range(4):
            for row in study.ask(5, by="bot"):
                study.tell(row, "good" if "fine" in study.show(row)["text"] else "bad", by="bot")
    found = json.loads(run("status", place, "--price", "0.001", "--json"))
    assert found["labels"] == 20
    assert found["dev"] == 4
    assert found["settings"]["dev"] == 0.2
    assert found["curve"]
    assert found["advice"]["price"] == 0.001
    assert found["account"] == found["advice"]["account"]
    assert found["account"]["spent"] == pytest.approx(0.02)
    assert found["criteria"] == found["advice"]["criteria"]
    shown = run("status", place, "--price", "0.001", "--budget", "20")
    assert " ".join(shown.split()).startswith(found["headline"]), "what matters comes first"
    assert f"20 of {found['rows']} rows have an answer (" in " ".join(shown.split())
    assert "16 train the model, 4 measure it" in " ".join(shown.split())
    assert "how good the model was" in shown
    assert "The budget is spent: stop." in shown
    plain = json.loads(run("status", place, "--json"))
    assert plain["advice"]["price"] == 0.0002
    assert plain["criteria"][0]["verdict"] == "not known"
    for name in ("l.csv", "l.jsonl", "l.parquet"):
        assert json.loads(run("export", place, tmp_path / name, "--json"))["lines"] == 20
    copy = tmp_path / "copy.db"
    run("label", table, "--classes", "good,bad", "--study", copy, "--terminal", typed="q\n")
    assert "20 taken" in run("import", copy, tmp_path / "l.csv", "--key", "id")
    (tmp_path / "bad.csv").write_text("row,label\n99,good\n0,ugly\n")
    assert "2 refused" in run("import", copy, tmp_path / "bad.csv")
    report = json.loads(run("import", copy, tmp_path / "l.jsonl", "--json"))
    assert report["same"] == 20
    assert "lines in" in run("export", copy, tmp_path / "every.csv", "--every")


def test_errors_are_messages(table, tmp_path):
    for arguments in (
        ["label", table, "--text", "text", "--terminal"],
        ["label", table, "--text", "text", "--classes", "a,b", "--dev", "many", "--terminal"],
        ["status", tmp_path / "absent.db"],
        ["status", table],
    ):
        command = [sys.executable, "-m", "goalward", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 1, done
        assert done.stderr.strip().startswith("Error:")
        assert "Traceback" not in done.stderr


def test_texts_cannot_steer_the_terminal():
    assert visible("a\x1b[2Jb\u202e") == "a\\x1b[2Jb\\u202e"
    assert visible("x" * 5000, longest=4000).endswith("(5,000 characters)")


def test_a_share_is_a_percentage_or_a_number():
    assert share("20%") == share("0.2") == 0.2
    with pytest.raises(BadParameter):
        share("a fifth")


@pytest.mark.parametrize(
    "option", [["--classes", "a,b"], ["--dev", "50%"], ["--strategy", "random"]]
)
def test_options_that_contradict_a_study_are_refused(option, tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("text\n" + "".join(f"word{i} and more\n" for i in range(12)))
    run = ["label", str(table), "--terminal", "--text", "text", "--classes", "yes,no"]
    assert RUN.invoke(app, run, input="q\n", catch_exceptions=False).exit_code == 0
    assert RUN.invoke(app, run, input="q\n", catch_exceptions=False).exit_code == 0
    with pytest.raises(BadParameter, match=f"was made with {option[0]}"):
        RUN.invoke(app, [*run[:5], *option], input="q\n", catch_exceptions=False)


def test_classes_may_hold_commas_and_rows_may_want_three_answers(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("text\n" + "".join(f"word{i} and more\n" for i in range(12)))
    run = ["label", str(table), "--terminal", "--answers", "3"]
    run += ["--classes", '"yes, gladly",no']
    for _ in range(2):
        done = RUN.invoke(app, run, input="yes, gladly\nq\n", catch_exceptions=False)
        assert done.exit_code == 0, done.output
    with gw.Study.open(table.with_suffix(".labels.db")) as study:
        assert set(study.state.classes) == {"yes, gladly", "no"}
        assert set(study.state.labels.values()) == {"yes, gladly"}
        assert (study.state.settings.answers, study.state.settings.label) == (3, "weighed")


def test_predictions_and_the_model_are_given_away(table, tmp_path):
    label(table, "q\n")
    place = table.with_suffix(".labels.db")
    with gw.Study.open(place) as study:
        study.tell_many([(row, "bad" if row % 2 else "good") for row in range(20)])
    out, folder = tmp_path / "out.csv", tmp_path / "model"
    said = json.loads(run("predict", place, out, "--json"))
    lines = out.read_text().splitlines()
    assert said["rows"] == len(lines) - 1
    assert lines[0].endswith("label,probability,answered,look")
    assert sum(",true," in line for line in lines) == 20
    assert "gw.load_model" in run("model", place, folder)
    assert gw.load_model(folder).predict(["fine"]).tolist() == ["good"]
    with pytest.raises(WouldOverwrite, match="--force"):
        run("predict", place, out)


def test_prices_and_people_from_the_command_line(table):
    lines = table.read_text().splitlines()
    priced = [f"{line},{i or 'minutes'}" for i, line in enumerate(lines)]
    table.write_text("\n".join(priced) + "\n")
    label(table, "1\n2\n1\nq\n", "--costs", "minutes", "--answers", "2", "--by", "ann")
    label(table, "1\n2\n2\nq\n", "--costs", "minutes", "--by", "bo")
    place = table.with_suffix(".labels.db")
    with gw.Study.open(place) as study:
        assert study.state.settings.label == "weighed"
        spent = sum(2 * (row + 1) for row in study.state.labels)
    shown = run("status", place)
    assert "ann is right in about" in shown
    assert "same label to 2 of the 3 rows" in shown.replace("\n", " ")
    told = json.loads(run("status", place, "--json"))
    assert told["spent"] == spent
    assert {one["by"] for one in told["reliability"]} == {"ann", "bo"}
    assert told["agreement"][0]["rows"] == 3
    with pytest.raises(BadParameter, match="was made with --costs minutes, got id"):
        label(table, "q\n", "--costs", "id")


def test_a_column_of_guesses_from_the_command_line(table):
    lines = table.read_text().splitlines()
    said = ["llm,sure", *(f"{('good', 'bad')[i % 2]},0.9" for i in range(40))]
    table.write_text("\n".join(f"{a},{b}" for a, b in zip(lines, said, strict=True)) + "\n")
    columns = ("--guesses", "llm", "--guess-probability", "sure")
    shown = label(table, "1\n2\n" * 6, *columns)
    assert "llm" not in shown, "a person is not told in the terminal"
    assert "The guesses were right in" in run("status", table.with_suffix(".labels.db"))
    label(table, "q\n", *columns)
    with pytest.raises(BadParameter, match="made with --guesses llm, got sure"):
        label(table, "q\n", "--guesses", "sure")


@pytest.mark.parametrize("kind", ["class", "numbers"])
def test_answers_that_the_table_has_are_the_first_ones(tmp_path, kind):
    given = ["7.5", "2", "", ""] if kind == "numbers" else ["good", "bad", "", "unheard of"]
    rows = {"text": ["so fine", "so dull", "so so", "a bore"], "size": [1, 2, 3, 4]}
    name = "price" if kind == "numbers" else "answer"
    place = tmp_path / "films.csv"
    pl.DataFrame({**rows, name: given}).write_csv(place)
    how = ["--number", "price"] if kind == "numbers" else ["--classes", "good,bad"]
    run = ["label", str(place), *how, "--embeddings", "tfidf", "--create-only"]
    assert RUN.invoke(app, run, catch_exceptions=False).exit_code == 0
    with gw.Study.open(place.with_suffix(".labels.db")) as study:
        assert study.state.labels == (
            {0: 7.5, 1: 2.0} if kind == "numbers" else {0: "good", 1: "bad"}
        )
        assert name not in study.state.pool["numeric"], "what is asked is no feature"


def test_a_folder_is_said_to_be_no_study(tmp_path):
    with pytest.raises(GoalwardError, match="is not the file of a study"):
        RUN.invoke(app, ["status", str(tmp_path)], catch_exceptions=False)
