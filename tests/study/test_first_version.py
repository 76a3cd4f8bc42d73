"""Studies made by goalward 0.1.0 go on as they were: same features, same strategy, same rows.

Whoever makes this red has changed what happens under somebody's running study. Give the new
mathematics a new name, and let `goalward upgrade` change a study at its owner's word.
"""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import goalward as gw
from tests.study.first_version.make import go_on

KEPT = Path(__file__).parent / "first_version"
EXPECTED = json.loads((KEPT / "expected.json").read_text())
NAMES = sorted(path.stem for path in KEPT.glob("*.sqlite"))
LATER = 1.76e9 + 200
"""After the last answer, while the row that Ann took back is still in her hands."""


@pytest.fixture(params=NAMES)
def study(request, tmp_path):
    shutil.copytree(KEPT, tmp_path / "moved")
    place = tmp_path / "moved" / f"{request.param}.sqlite"
    with gw.Study.open(place, clock=lambda: LATER) as opened:
        yield opened


@pytest.fixture
def expected(request, study):
    return EXPECTED[request.node.callspec.params["study"]]


def test_all_kinds_are_kept():
    assert sorted(set(EXPECTED) - {"goalward"}) == NAMES
    assert len(NAMES) == 5


def test_answers_skips_and_notes_are_there(study, expected):
    assert {str(k): v for k, v in study.state.labels.items()} == expected["labels"]
    assert sorted(study.state.skipped) == expected["skipped"]
    notes = {str(k): [n.text for n in v] for k, v in study.state.notes.items()}
    assert notes == expected["notes"]
    assert study.status()["labels"] == len(expected["labels"])
    assert study.curve()


def test_features_are_those_it_was_made_with(study, expected):
    X = np.asarray(study.pool.X)[:4]
    # Of texts they come from a singular value decomposition in single precision.
    assert np.allclose(X, expected["features"], atol=1e-4)


def test_the_pool_is_ranked_as_before(study, expected):
    ranked = study.refresh(force=True)
    assert ranked.recipe == expected["recipe"]
    assert list(ranked.queue[:12]) == expected["queue"]
    assert np.allclose(ranked.utilities[:12], expected["utilities"], rtol=1e-3)


def test_it_asks_and_takes_answers_as_before(study, expected, tmp_path):
    study.refresh(force=True)
    assert go_on(study, "bo", 12) == expected["asked"]
    study.export(tmp_path / "labels.csv")
    mine, theirs = (tmp_path / "labels.csv").read_text(), expected["export"]
    # The time of an answer is that of the clock then, and it marked negative numbers like formulas.
    assert _without_times(mine) == _without_times(re.sub("'(-[0-9])", r"\1", theirs))
    assert study.export(tmp_path / "labels.parquet") == len(study.state.labels)


def _without_times(text):
    import csv

    rows = list(csv.DictReader(text.splitlines()))
    return [{k: v for k, v in row.items() if k != "at"} for row in rows]
