"""A study chooses as when it was made, until its owner says otherwise."""

import sqlite3

import pytest
from typer.testing import CliRunner

import goalward as gw
from goalward.cli import app
from goalward.errors import BadParameter, NewerVersion
from goalward.studio.store import store as schema
from goalward.studio.study import kinds

POOL = [[i / 60, (i % 7) / 7] for i in range(60)]


def answered(place, **options):
    options = {"dev": 0.0} | options
    study = gw.Study.create(place, pool=POOL, classes=["low", "high"], **options)
    for row in range(0, 60, 3):
        study.tell(row, "low" if row < 30 else "high")
    return study


def version(place):
    raw = sqlite3.connect(place)
    found = raw.execute("SELECT version FROM goalward_study").fetchone()[0]
    raw.close()
    return found


def test_what_is_recommended_later_changes_no_study(tmp_path, monkeypatch):
    place = tmp_path / "labels.db"
    answered(place).close()
    monkeypatch.setattr(kinds.Kind, "auto", "margin")
    with gw.Study.open(place) as study:
        assert study.refresh(force=True).recipe != "margin"
        assert study.upgrade()["auto"][1] == "margin"
        # The ranking is of the settings before: the next question is not.
        assert study.due()
        assert study.refresh().recipe == "margin"
        assert study.upgrade() == {}
    with gw.Study.open(place) as again:
        assert again.state.settings.auto == "margin"
    with answered(tmp_path / "new.db") as study:
        assert study.refresh().recipe == "margin"


def test_another_strategy_at_the_owners_word(tmp_path):
    place = tmp_path / "labels.db"
    answered(place).close()
    assert version(place) == schema.LAYOUT
    said = CliRunner().invoke(app, ["upgrade", str(place), "--strategy", "entropy/spread"])
    assert "auto -> entropy/spread/first-order/top" in said.output
    with gw.Study.open(place) as study:
        assert study.refresh().recipe == "entropy/spread/first-order/top"
        with pytest.raises(BadParameter, match="dev=0"):
            study.upgrade("dev/spread")
        with pytest.raises(BadParameter, match="expected"):
            study.upgrade("nonsense")
        study.backup(tmp_path / "backup.db")
    # Programs that do not know of such changes refuse the study instead of misreading it.
    assert version(place) == version(tmp_path / "backup.db") == 4


def test_a_program_that_knows_less_refuses(tmp_path, monkeypatch):
    place = tmp_path / "labels.db"
    with answered(place) as study:
        study.upgrade("margin")
    monkeypatch.setattr(schema, "VERSION", 3)
    with pytest.raises(NewerVersion, match="upgrade"):
        gw.Study.open(place)
