"""Nothing that others wrote steers the terminal: not rows, names, labels, paths or messages."""

import io
import json
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from rich.console import Console
from rich.progress import Progress
from rich.text import Text
from typer.testing import CliRunner

import goalward as gw
from goalward.cli import app
from goalward.cli.app import warned
from goalward.cli.console import Terminal, console, show, spinner, visible
from goalward.errors import NetworkFile

RUN = CliRunner()
HOSTILE = "\x1b[2J\x9b31m\rB\x07\x08\u202e\u2066[red]:warning:[/red]"
FILE = HOSTILE.replace("/", "")
STEERING = "\x1b\x9b\r\x07\x08\u202e\u2066"


def harmless(text):
    return not set(text) & set(STEERING)


def run(*arguments, typed=None, code=0):
    done = RUN.invoke(app, [str(a) for a in arguments], input=typed, catch_exceptions=False)
    assert done.exit_code == code, done.output
    assert harmless(done.output), repr(done.output)
    return done.output


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setattr(console, "_width", 300)


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = pl.DataFrame(
        {"text": [f"{HOSTILE} film {i}" for i in range(8)], HOSTILE: [HOSTILE] * 8}
    )
    frame.write_parquet("rows.parquet")
    np.save("rows.npy", np.random.default_rng(0).normal(size=(8, 2)))
    name = "a\x1b[2J[red]\u202e.db"
    with gw.Study.create(
        name, pool=gw.tables.Table("rows.parquet", text="text"), classes=[f"a{HOSTILE}", "b"]
    ) as study:
        for row in range(4):
            study.tell(row, study.state.classes[row % 2], by=f"ann{HOSTILE}")
        study.refresh()
    return name


def test_a_study_of_hostile_texts_is_shown_as_text(place):
    shown = run("status", place, "--price", "0.001")
    assert "[red]" in shown
    assert ":warning:" in shown
    assert "\\x1b[2J" in shown
    json.loads(run("status", place, "--json"))


def test_files_of_hostile_names_are_written_and_read(place):
    assert "[red]" in run("export", place, f"out{FILE}.csv")
    pl.DataFrame({"row": [HOSTILE, "1"], "label": ["b", HOSTILE]}).write_csv("l.csv")
    assert "is not a row number" in run("import", place, "l.csv")


def test_a_person_in_the_terminal_sees_texts(place):
    shown = run(
        "label", "rows.parquet", "--study", place, "--terminal", "--by", f"cy{HOSTILE}",
        typed="w\nn a note\n1\ns\nu\nq\n",
    )  # fmt: skip
    assert "\\x1b[2J\\x9b31m\\rB\\x07\\x08\\u202e\\u2066[red]:warning:[/red]" in shown
    assert "would move the goal" in shown


def test_rank_shows_ids_and_labels_as_text(tmp_path):
    X = np.random.default_rng(0).normal(size=(30, 2))
    ids = [f"{HOSTILE}{i}" for i in range(30)]
    table = pl.DataFrame(X, schema=["x", "y"]).with_columns(id=pl.Series(ids))
    table.write_parquet(tmp_path / "pool.parquet")
    labels = {"row": ids[:4], "label": [HOSTILE, "b"] * 2}
    pl.DataFrame(labels).write_parquet(tmp_path / "l.parquet")
    shown = run(
        "rank", tmp_path / "pool.parquet", "--ids", "id", "--labels", tmp_path / "l.parquet"
    )
    assert "[red]" in shown


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["status", f"absent{FILE}.db"], []),
        (["rank", f"absent{FILE}.npy", "--labels", "l.csv"], []),
        (["label", "rows.csv", "--classes", "a,b", "--terminal"], ["--text", HOSTILE]),
    ],
)
def test_errors_hold_no_controls(tmp_path, arguments, text):
    (tmp_path / "rows.csv").write_text("text\na b\nc d\n")
    command, name, *more = arguments
    call = [sys.executable, "-m", "goalward", command, str(tmp_path / name), *more, *text]
    done = subprocess.run(call, capture_output=True, check=False)
    said = done.stderr.decode()
    assert done.returncode == 1
    assert said.strip().startswith("Error: ")
    assert harmless(said), repr(said)
    assert "[red]:warning:" in said


def test_tables_titles_and_names_are_text(capsys):
    show(HOSTILE, pl.DataFrame({HOSTILE: [HOSTILE]}))
    printed = capsys.readouterr().out
    assert harmless(printed)
    assert printed.count("[red]") == printed.count(":warning:") == 3


def test_warnings_are_text(capsys):
    others = []

    def otherwise(*came):
        others.append(came)

    warned(NetworkFile(HOSTILE), NetworkFile, "file.py", 1, otherwise=otherwise)
    warned("old", DeprecationWarning, "file.py", 1, otherwise=otherwise)
    said = capsys.readouterr().err
    assert said.startswith("Warning: ")
    assert harmless(said)
    assert "[red]" in said
    assert others == [("old", DeprecationWarning, "file.py", 1)]


def test_what_is_being_done_is_text(monkeypatch):
    shown = Console(file=io.StringIO(), width=300)
    monkeypatch.setattr(Progress, "start", lambda self: None)
    monkeypatch.setattr(Progress, "stop", lambda self: shown.print(self.get_renderable()))
    with spinner(HOSTILE) as tick:
        tick(HOSTILE)
    assert harmless(shown.file.getvalue())
    assert "[red]" in shown.file.getvalue()


def test_ordinary_texts_stay_as_they_are():
    assert visible("schön, 日本 🙂\nnext") == "schön, 日本 🙂\nnext"
    assert isinstance(Terminal().render_str("[a]"), Text)
