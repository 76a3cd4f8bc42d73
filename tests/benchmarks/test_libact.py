"""A published benchmark by its own rules: the split, the model, the area."""

import json

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression

from goalward.lab.benchmark import Areas, play
from goalward.lab.datasets import load
from libact import PUBLISHED, SMALL, Libact, beside_published, main
from tests.benchmarks import invoke


@pytest.mark.parametrize("name", SMALL)
def test_the_rows_are_those_of_the_published_sets(name):
    task = Libact().conditions(load(name))
    assert len(task.y) == {"sonar": 208, "haberman": 306, "ionosphere": 351, "wisconsin": 683}[name]
    split = Libact().split(task, 0)
    train = int(0.6 * len(task.y))
    assert [len(split.init), len(split.pool), len(split.test)] == [
        20,
        train - 20,
        len(task.y) - train,
    ]
    assert len({*split.init, *split.pool, *split.test}) == len(task.y)
    assert len(set(task.y[split.init])) == 2


def test_margins_area_is_that_of_a_loop_over_scikit_learns_model():
    """The whole session again, with LogisticRegression fitted to 1e-8."""
    task = Libact().conditions(load("sonar"))
    split = Libact().split(task, 1)
    known, left, curve = list(split.init), list(split.pool), []
    while True:
        model = LogisticRegression(tol=1e-8, max_iter=1000).fit(task.X[known], task.y[known])
        curve.append(model.score(task.X[split.test], task.y[split.test]))
        if not left:
            break
        margins = np.abs(model.predict_proba(task.X[left]) @ [1.0, -1.0])
        known.append(left.pop(int(margins.argmin())))
    # Their area leaves out the given labels' model, and divides by one trapeze too many.
    area = np.trapezoid(curve[1:]) / len(curve[1:])
    assert play(task, "margin", 1, Libact())["accuracy"] == pytest.approx(area, abs=6e-5)


def test_areas_beside_the_published_ones_by_hand():
    lines = [
        dict.fromkeys(("final", "balanced", "log_loss", "seconds"), 0.0)
        | {"protocol": "libact", "dataset": "sonar", "strategy": "margin"}
        | {"seed": seed, "accuracy": area}
        for seed, area in enumerate((0.74, 0.78))
    ]
    found = beside_published(Areas(pl.DataFrame(lines))).row(0, named=True)
    assert found["area"] == pytest.approx(0.76)
    assert found["error"] == pytest.approx(0.02)
    published = 0.02965 / np.sqrt(150)
    assert found["apart"] == pytest.approx(
        (found["area"] - 0.74544) / np.hypot(found["error"], published)
    )


def test_the_command_prints_ours_and_theirs(tmp_path):
    asked = f"-d sonar -s random --seeds 1 --jobs 1 --json --out {tmp_path}"
    (line,) = json.loads(invoke(main, asked))
    assert line["published margin"] == PUBLISHED["sonar"].mean
    assert 0.6 < line["area"] < 0.9
