"""A study that is made, or is not."""

import numpy as np
import pytest

import goalward as gw
from goalward.errors import BadParameter

X = np.eye(4)


def test_a_study_that_could_not_be_made_leaves_nothing_behind(tmp_path):
    table = tmp_path / "rows.csv"
    table.write_text("text,size\na,1\nb,2\n")
    place = tmp_path / "labels.db"
    wrong = gw.tables.Table(str(table), text="txt")
    with pytest.raises(gw.errors.GoalwardError, match="txt"):
        gw.Study.create(place, pool=wrong, classes=["x", "y"])
    assert not place.exists()
    right = gw.tables.Table(str(table), text="text")
    with gw.Study.create(place, pool=right, classes=["x", "y"]) as study:
        assert study.n_rows == 2


@pytest.mark.parametrize("options", [{"dev": "25%"}, {"dev": None}, {"classes": None}])
def test_wrong_types_are_said_to_be(tmp_path, options):
    with pytest.raises(BadParameter, match="was expected"):
        gw.Study.create(tmp_path / "a.db", pool=X, **{"classes": ["a", "b"]} | options)
