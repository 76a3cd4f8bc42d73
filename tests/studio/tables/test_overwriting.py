"""An export replaces nothing that the study lives on, and nothing else without a word."""

import json

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import goalward as gw
from goalward.cli import app
from goalward.core.files import refuse_inputs
from goalward.errors import BadInput, BadParameter, WouldOverwrite
from goalward.studio.tables import Table

RUN = CliRunner()


@pytest.fixture
def folder(tmp_path):
    lines = "".join(f"{i},text of row {i}\n" for i in range(6))
    (tmp_path / "rows.csv").write_text(f"id,text\n{lines}")
    np.save(tmp_path / "rows.npy", np.arange(12.0).reshape(6, 2))
    with gw.Study.create(
        tmp_path / "study.csv", pool=Table(tmp_path / "rows.csv", text="text"), classes=["x", "y"]
    ) as study:
        study.tell_many([(0, "x"), (1, "y")])
    return tmp_path


@pytest.mark.parametrize("name", ["rows.csv", "rows.npy", "study.csv"])
@pytest.mark.parametrize("link", [None, "symlink_to", "hardlink_to"])
@pytest.mark.parametrize("every", [False, True])
@pytest.mark.attack("exports onto what they read")
def test_the_study_its_table_and_its_vectors_are_never_written_over(folder, name, link, every):
    target = folder / name
    if link:
        target = folder / "link.csv"
        getattr(target, link)(folder / name)
    before = (folder / name).read_bytes()
    with gw.Study.open(folder / "study.csv") as study:
        for force in (False, True):
            with pytest.raises(WouldOverwrite, match="must be another file"):
                study.export(target, force=force, every=every)
    assert (folder / name).read_bytes() == before
    with gw.Study.open(folder / "study.csv") as study:
        assert len(study.state.labels) == 2
        assert study.export(folder / "labels.csv") == 2


def test_a_table_that_was_moved_is_safe_at_both_places(folder):
    (folder / "now").mkdir()
    for name in ("rows.csv", "rows.npy"):
        (folder / name).rename(folder / "now" / name)
    now = folder / "now" / "rows.csv"
    for moved in (now, Table(now)):
        with gw.Study.open(folder / "study.csv", pool=moved) as study:
            for target in (now, now.with_suffix(".npy"), folder / "rows.csv"):
                with pytest.raises(WouldOverwrite):
                    study.export(target, force=True)
    assert now.read_text().startswith("id,text")


def test_another_file_is_replaced_only_by_force(folder):
    out = folder / "labels.csv"
    out.write_text("mine")
    run = ["export", str(folder / "study.csv"), str(out), "--json"]
    with pytest.raises(WouldOverwrite, match="--force"):
        RUN.invoke(app, run, catch_exceptions=False)
    with gw.Study.open(folder / "study.csv") as study, pytest.raises(WouldOverwrite):
        study.export(out)
    assert out.read_text() == "mine"
    done = RUN.invoke(app, [*run, "--force"], catch_exceptions=False)
    assert json.loads(done.stdout)["lines"] == 2
    assert out.read_text().startswith("row,label")
    assert sorted(p.name for p in folder.iterdir() if p.name.startswith(".")) == []


@pytest.mark.parametrize(
    "cell",
    [3.7, -0.5, "1_0", " 3", "٣", True, "true", "inf", "nan", "1e3", "+3", "", -1, "-1", None],
)
@pytest.mark.attack("row numbers that are none")
def test_an_import_takes_row_numbers_as_they_are(folder, cell):
    lines = [{"row": cell, "label": "x"}, {"row": 3.0, "label": "y"}, {"row": "04", "label": "y"}]
    (folder / "l.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (folder / "l.csv").write_text(f"row,label\n{'' if cell is None else cell},x\n3.0,y\n04,y\n")
    with gw.Study.open(folder / "study.csv") as study:
        for name, first in (("l.jsonl", 1), ("l.csv", 2)):
            ((line, why),) = study.import_labels(folder / name).refused
            assert line == first
            assert "is not a row number" in why or "not in the pool" in why
        assert dict(study.state.labels) == {0: "x", 1: "y", 3: "y", 4: "y"}


@pytest.mark.parametrize(
    "cells", [[3.7, 2.0], [float("inf"), 2.0], [True, False], [float("nan"), 2]]
)
def test_columns_of_other_types_are_no_row_numbers(folder, cells):
    pl.DataFrame({"row": cells, "label": ["x", "x"]}).write_parquet(folder / "l.parquet")
    with gw.Study.open(folder / "study.csv") as study:
        refused = study.import_labels(folder / "l.parquet").refused
    assert refused[0] == (1, f"{cells[0]!r} is not a row number")


def test_a_missing_id_is_not_the_text_none(folder):
    (folder / "t.jsonl").write_text('{"id": "None", "text": "a"}\n{"id": "b", "text": "c"}\n')
    np.save(folder / "t.npy", np.eye(2))
    study = gw.Study.create(
        folder / "t.db", pool=Table(folder / "t.jsonl", text="text"), classes=["x", "y"]
    )
    (folder / "l.jsonl").write_text('{"id": null, "label": "x"}\n{"id": "b", "label": "x"}\n')
    assert study.import_labels(folder / "l.jsonl", key="id").refused == (
        (1, "None is not in the pool"),
    )


@pytest.mark.parametrize("rows", [[True, 3], [np.True_, 3], [3.7], [-1], ["3"]])
def test_excluded_rows_are_taken_as_they_are(rows):
    X = np.arange(40.0).reshape(20, 2)
    fitted = gw.Logistic().fit(X[:4], ["a", "b", "a", "b"])
    goal = gw.goals.Entropy(X)
    for run in (
        lambda: gw.strategies.Margin().suggest(fitted, X, 2, exclude=rows),
        lambda: gw.scale.rank(X, fitted, goal, batch=2, exclude=rows),
    ):
        with pytest.raises(BadParameter, match="exclude"):
            run()


def test_an_unknown_ending_is_said_before_the_work(folder):
    with gw.Study.open(folder / "study.csv") as study, pytest.raises(BadInput, match="must end in"):
        study.export(folder / "labels.ods")


@pytest.mark.attack("exports onto what they read")
def test_a_folder_that_is_read_is_not_written_into(tmp_path):
    pool = tmp_path / "pool"
    (pool / "c").mkdir(parents=True)
    for target in (pool, pool / "next.csv", pool / "c" / "next.csv"):
        with pytest.raises(WouldOverwrite):
            refuse_inputs(target, [tmp_path / "labels.csv", pool])
    refuse_inputs(tmp_path / "next.csv", [tmp_path / "labels.csv", pool])
