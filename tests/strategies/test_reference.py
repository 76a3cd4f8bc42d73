"""The rows that goals without labels look at are those that version 0.1.0 drew of a large pool."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import goalward as gw
from goalward.cli import app
from goalward.core import draws as reference
from goalward.studio.study.rounds import StudyRound

POOL = np.arange(3000.0)[:, None]


def said(rows):
    """Return how many rows there are, the first ten, and the sum of all."""
    numbers = np.asarray(rows, dtype=int).ravel()
    return len(numbers), numbers[:10].tolist(), int(numbers.sum())


SEED_0 = (1000, [2, 4, 11, 12, 13, 20, 24, 28, 31, 35], 1511077)
SEED_3 = (1000, [2, 8, 9, 17, 20, 27, 28, 29, 30, 31], 1484955)
STUDY_3 = (1000, [0, 9, 10, 17, 21, 22, 26, 29, 30, 31], 1536342)


def test_recommended_draws_the_rows_of_the_first_version():
    for seed, rows in ((0, SEED_0), (3, SEED_3)):
        first, _, second = gw.GoalOriented.recommended(POOL, seed=seed).later.strategies
        assert said(first.strategy.goal.X) == said(second.strategy.goal.X) == rows


@pytest.mark.parametrize("text", ["decision-risk", "epig", "fisher-ratio"])
def test_recipes_draw_the_rows_of_the_first_version(text):
    """By seed 0 whatever the recipe's own seed, as they did."""
    named = gw.recipe(f"{text}/average/information/top")
    assert said(named.build(pool=POOL, seed=3).goal.X) == SEED_0


@pytest.mark.parametrize(
    ("options", "known"),
    [
        (["--goal", "decision-risk"], [2938, 245, 2579, 2195, 1683, 362, 432, 2103, 1940, 1515]),
        (
            ["--goal", "decision-risk", "--goal-rows", "1500"],
            [2938, 245, 2579, 1692, 1940, 165, 432, 712, 1733, 2469],
        ),
        (
            ["--goal", "entropy", "--goal-rows", "40"],
            [2294, 2565, 1520, 194, 2914, 2236, 2061, 2634, 1754, 947],
        ),
    ],
)
def test_rank_suggests_the_rows_of_the_first_version(options, known, tmp_path):
    pool, labels = tmp_path / "pool.npy", tmp_path / "labels.csv"
    X = np.random.default_rng(0).normal(size=(3000, 4))
    np.save(pool, X)
    answers = (X[:20, 0] + 0.3 * X[:20, 1] > 0).astype(int)
    labels.write_text("row,label\n" + "".join(f"{i},{y}\n" for i, y in enumerate(answers)))
    plain = ["--C", "1", "--features", "linear"]
    command = [
        "rank",
        str(pool),
        "--labels",
        str(labels),
        "--json",
        "--seed",
        "3",
        *plain,
        *options,
    ]
    result = CliRunner().invoke(app, command)
    assert [line["row"] for line in json.loads(result.stdout)["rows"]] == known


def test_a_study_draws_the_rows_of_the_first_version_in_blocks_of_any_size(tmp_path, monkeypatch):
    study = gw.Study.create(tmp_path / "a.db", pool=POOL / 3000, classes=["low", "high"], seed=3)
    study.tell_many([(0, "low"), (2999, "high")])
    assert said(StudyRound(study.state, study.pool).sample) == STUDY_3
    monkeypatch.setattr(reference, "BLOCK", 700)
    assert said(StudyRound(study.state, study.pool).sample) == STUDY_3
