"""A study chooses as when it was made, until its owner says otherwise."""

import shutil
import sqlite3

import pytest
from typer.testing import CliRunner

import goalward as gw
from goalward.cli import app
from goalward.errors import BadParameter, NewerVersion, PoolChanged
from goalward.journal import schema
from goalward.strategies import recipe_names as words
from goalward.study import kinds
from goalward.tables import table
from tests.study.test_first_version import KEPT, LATER

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


@pytest.fixture
def other_recommendation(monkeypatch):
    """A later version that recommends something else."""
    monkeypatch.setattr(kinds.Kind, "auto", "margin")


def test_what_is_recommended_later_changes_no_study(tmp_path, other_recommendation):
    shutil.copytree(KEPT, tmp_path / "old")
    place = tmp_path / "old" / "text-auto.sqlite"
    with gw.Study.open(place, clock=lambda: LATER) as study:
        assert study.refresh(force=True).recipe == "decision-risk"
        assert study.upgrade() == {"auto": ("decision-risk", "margin")}
        # The ranking is of the settings before: the next question is not.
        assert study.due()
        assert study.refresh().recipe == "margin"
        assert study.upgrade() == {}
    with gw.Study.open(place) as again:
        assert again.state.settings.auto == "margin"
        assert len(again.state.labels) == 38
    with answered(tmp_path / "new.db") as study:
        assert study.refresh().recipe == "margin"


def test_a_dev_goal_waits_with_what_was_recommended_when_it_was_made(
    tmp_path, other_recommendation
):
    shutil.copytree(KEPT, tmp_path / "old")
    with gw.Study.open(tmp_path / "old" / "numbers-dev-spread.sqlite") as study:
        assert study.state.settings.auto == "decision-risk"


def test_features_that_went_name_those_in_their_place(tmp_path, monkeypatch):
    shutil.copytree(KEPT, tmp_path / "old")
    monkeypatch.setattr(table, "TEXT_RECIPE", "tfidf-svd-512/2")
    with gw.Study.open(tmp_path / "old" / "text-auto.sqlite", clock=lambda: LATER) as study:
        with pytest.raises(PoolChanged, match=r"tfidf-svd-256/1.*tfidf-svd-512/2"):
            study.refresh(force=True)
        # The answers are there, and can be taken elsewhere.
        study.tell(3, "other")
        assert study.export(tmp_path / "answers.csv", every=True) > 38
    with gw.Study.create(
        tmp_path / "new.db", pool=tmp_path / "old" / "messages.csv", classes=["waste", "other"]
    ) as new:
        assert new.state.pool["features"] == "tfidf-svd-512/2"


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


def test_a_strategy_that_went_names_the_one_in_its_place(tmp_path, monkeypatch):
    place = tmp_path / "labels.db"
    with answered(place, strategy="dev-split/spread", dev=0.4) as study:
        study.refresh()
        monkeypatch.setitem(words.RETIRED, "dev-split", "dev/spread")
        monkeypatch.delitem(words.GOALS, "dev-split")
        study.tell(1, "low")
    with gw.Study.open(place) as study:
        # Everything but choosing goes on.
        study.tell(2, "low")
        assert study.export(tmp_path / "labels.csv") == len(study.state.labels)
        assert study.ask(1, refresh=False)
        with pytest.raises(BadParameter, match=r"dev/spread.*goalward upgrade"):
            study.refresh()
        assert study.upgrade("dev/spread")["strategy"][1] == "dev/spread/first-order/top"
        assert study.refresh()
