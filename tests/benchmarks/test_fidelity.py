"""The atlas: utilities against retraining, cell by cell, and a run that goes on."""

import json

import pytest

import fidelity as room
from fidelity import UTILITIES, atlas, summary
from goalward.lab.parallel import records
from tests.benchmarks import invoke


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    out = tmp_path_factory.mktemp("atlas")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(room, "GOAL_WORDS", ("dev", "entropy"))
        return out, atlas(["wine"], penalties=(0.1, 10.0), out=out, n_jobs=1, progress=False)


def test_it_tells_what_is_true_from_what_is_not(table):
    """Three corrections beat none, auto is true everywhere, and no certificate is broken."""
    lines = {line["utility"]: line for line in summary(table[1]).to_dicts()}
    assert list(lines) == list(UTILITIES)
    share = {name: line["at .95"] for name, line in lines.items()}
    assert share["first-order"] < share["implicit"] < share["corrected"] < share["corrected-3"]
    assert share["auto"] >= 0.97
    assert lines["auto"]["worst"] >= 0.8
    assert lines["first-order"]["time"] < lines["corrected"]["time"] < 1.0
    for name in ("corrected", "corrected-3"):
        assert lines[name]["certified"] > 0
        assert lines[name]["violations"] == 0


def test_a_run_goes_on_where_it_was(table, monkeypatch):
    out, known = table
    assert len(list(records(out / "places.jsonl"))) == 2
    monkeypatch.setattr(room, "cells", None)  # nothing is computed again
    again = atlas(["wine"], penalties=(0.1, 10.0), out=out, n_jobs=1, progress=False)
    assert again.equals(known)


def test_the_command_draws_the_table(table):
    out, _ = table
    said = json.loads(invoke(room.main, f"wine -C 0.1 -C 10 --out {out} --json"))
    assert {line["utility"] for line in said["summary"]} == set(UTILITIES)
    assert (out / "fidelity.png").stat().st_size > 10_000
    assert (out / "cells.csv").exists()
