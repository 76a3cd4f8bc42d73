"""Every part of the speed benchmark measures something, at sizes that take seconds."""

import json

import pytest

from goalward.errors import BadParameter
from speed import PARTS, main
from speed_page import first_question, page_latency
from tests.benchmarks import invoke
from tests.conftest import REQUIRED, some_heavy

SERVED = {"page", "imports", "gpu"}
"""Parts that start processes, or need a device: they have tests of their own."""


LATER = {*PARTS} - {"query", "imports", "suggest"}
"""Parts against libraries that `make test` does not install, or that take long."""


@pytest.mark.filterwarnings("ignore")  # of the peers
@pytest.mark.parametrize("part", some_heavy([name for name in PARTS if name not in SERVED], LATER))
def test_every_part_is_measured_and_saved(tmp_path, part):
    found = json.loads(invoke(main, f"{part} --quick --out {tmp_path} --json"))
    assert found == json.loads((tmp_path / "speed.json").read_text())
    # A peer that is not installed is reported as missing, with what to install.
    missing = [row for row in found["ratios"] if row["value"] is None]
    assert not (missing and REQUIRED)
    assert all("pip install" in row["note"] for row in missing)
    measured = [row for row in found["ratios"] if row["value"] is not None]
    assert len(measured) >= 2
    assert all(row["value"] > 0 for row in measured)
    # scikit-learn's error at tol=1e-8, not ours: see tests/utility/test_retrain.py.
    compared = [row for row in found["ratios"] if row["difference"] is not None]
    assert len(compared) >= (7 if part == "retrain" else 0)
    assert all(row["difference"] < 1e-4 for row in compared)
    assert (tmp_path / "speed.md").read_text().count("\n") == len(found["ratios"]) + 2


def test_parts_are_chosen_by_name(tmp_path):
    printed = invoke(main, f"imports --quick --out {tmp_path}")
    assert "first use: gw.Logistic, gw.GoalOriented" in printed
    assert " of python -c 'import sklearn.linear_model' (" in printed
    assert "target <= 1.6" in printed
    with pytest.raises(BadParameter, match="part must be one of"):
        invoke(main, "warp")


@pytest.mark.heavy
def test_latency_is_measured_with_the_real_server():
    waits, fits, fitting = page_latency(rows=300, features=8, answers=30)
    assert len(waits) == 30
    assert min(waits) > 0
    assert fits
    assert 0 < fitting <= 1


@pytest.mark.heavy
def test_a_first_question_is_timed():
    assert first_question(200) > 0
