"""A file is there whole, or not; another is never written over by accident."""

import os
from functools import partial

import numpy as np
import pytest

import goalward as gw
from goalward.core.files import same_file, whole_file
from goalward.errors import NotWritten, WouldOverwrite


def left(folder):
    return sorted(p.name for p in folder.iterdir())


def test_a_file_appears_when_it_is_whole(tmp_path):
    path = tmp_path / "a.csv"
    with whole_file(path) as partial:
        partial.write_text("half")
        assert not path.exists()
        assert partial.suffix == ".csv"
        partial.write_text("whole")
    assert path.read_text() == "whole"
    assert left(tmp_path) == ["a.csv"]


def test_a_failure_leaves_nothing_behind(tmp_path):
    def interrupted():
        with whole_file(tmp_path / "a.csv") as partial:
            partial.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert left(tmp_path) == []


def test_an_existing_file_is_refused_before_any_work_and_replaced_by_force(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("mine")
    with pytest.raises(WouldOverwrite, match="--force"), whole_file(path):
        pytest.fail("not reached")
    with whole_file(path, force=True) as partial:
        partial.write_text("new")
    assert path.read_text() == "new"


@pytest.mark.parametrize("links", [True, False])
def test_a_file_that_came_meanwhile_is_left_alone(tmp_path, monkeypatch, links):
    if not links:

        def refused(*_):
            raise PermissionError(1, "no hard links")

        monkeypatch.setattr(os, "link", refused)
    path = tmp_path / "a.csv"

    def raced():
        with whole_file(path) as partial:
            partial.write_text("mine")
            path.write_text("another's")

    with pytest.raises(WouldOverwrite):
        raced()
    assert path.read_text() == "another's"
    assert left(tmp_path) == ["a.csv"]
    with whole_file(tmp_path / "b.csv") as partial:
        partial.write_text("mine")
    assert left(tmp_path) == ["a.csv", "b.csv"]


def test_a_link_that_leads_nowhere_is_a_file_too(tmp_path):
    path = tmp_path / "a.csv"
    path.symlink_to(tmp_path / "absent")
    with pytest.raises(WouldOverwrite), whole_file(path):
        pytest.fail("not reached")


def test_a_folder_that_is_not_there_is_said(tmp_path):
    with pytest.raises(NotWritten, match="absent"), whole_file(tmp_path / "absent" / "a") as p:
        p.write_text("x")


def test_what_went_wrong_is_said_of_the_file_that_was_asked_for(tmp_path):
    study = gw.Study.create(tmp_path / "labels.db", pool=np.eye(4), classes=["a", "b"])
    study.tell(0, "a")
    for write, name in (
        (study.backup, "b.db"),
        (study.export, "e.csv"),
        (study.export, "e.parquet"),
        (study.export, "e.xlsx"),
        (partial(gw.Study.restore, tmp_path / "labels.db"), "r.db"),
    ):
        with pytest.raises(NotWritten, match=f"none/{name} could not be") as caught:
            write(tmp_path / "none" / name)
        assert ".part" not in str(caught.value)


def test_links_lead_to_one_file(tmp_path):
    (tmp_path / "a").write_text("x")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    os.link(tmp_path / "a", tmp_path / "c")
    assert same_file(tmp_path / "a", tmp_path / "b")
    assert (
        same_file(tmp_path / "c", tmp_path / "sub" / ".." / "a") or not (tmp_path / "sub").exists()
    )
    assert not same_file(tmp_path / "a", tmp_path / "d")
