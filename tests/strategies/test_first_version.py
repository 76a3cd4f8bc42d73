"""Every recipe of the first version says what it said, on every kind of pool."""

import json

import numpy as np
import pytest

import goalward as gw
from tests.conftest import need
from tests.strategies.recorded import FILE, RECIPES, data, record, suggestion

KNOWN = json.loads(FILE.read_text())
FEW = [
    "decision-risk/average/information/sequential",
    "dev/average",
    "entropy/spread",
    "f1/max",
    "dev/spread/implicit",
    "margin",
    "bait",
]


@pytest.mark.parametrize("text", RECIPES)
def test_a_recipe_keeps_its_rows_and_utilities(text):
    said, known = record(text), KNOWN[text]

    assert said["rows"] == known["rows"]
    np.testing.assert_allclose(said["utility"], known["utility"], rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("text", FEW)
def test_tensors_give_the_same_rows(text):
    need("torch")
    said, known = record(text, "torch"), KNOWN[text]

    assert said["rows"] == known["rows"]
    np.testing.assert_allclose(said["utility"], known["utility"], rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("text", FEW)
def test_files_give_the_same_rows(text, tmp_path):
    np.save(tmp_path / "pool.npy", data()[0][50:])

    said = suggestion(text, pool=gw.scale.open_pool(tmp_path / "pool.npy"))

    assert said.rows.tolist() == KNOWN[text]["rows"]
