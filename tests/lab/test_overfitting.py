import json

import numpy as np
import pytest
from matplotlib.image import imread
from typer.testing import CliRunner

from goalward.cli import app
from goalward.lab import overfitting, simulate
from goalward.lab.datasets import Apart, digits_3v8
from goalward.lab.overfitting import GROUPS, ORACLE


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    out = tmp_path_factory.mktemp("overfitting")
    told = []
    found = overfitting(
        out,
        dataset=digits_3v8(),
        seeds=2,
        budget=60,
        n_jobs=1,
        progress=lambda done, total: told.append((done, total)),
    )
    return out, told, *found


def test_each_group_has_its_strategies_and_a_figure(ran):
    out, told, table, path = ran
    for title, (strategies, apart) in GROUPS.items():
        mine = table.filter(table["group"] == title)
        assert mine["strategy"].to_list() == list(strategies)
        asked = dict(zip(mine["strategy"], mine["dev rows asked"], strict=True))
        assert (max(asked.values()) == 0) == apart
        plain = mine.filter(mine["strategy"] == "dev")
        assert plain["log-loss loss removed"].to_list() == [0.0]
        assert plain["accuracy end better by"].to_list() == [0.0]
    assert imread(path).std() > 0.01
    assert (out / "overfitting.csv").exists()
    done, total = zip(*told, strict=True)
    assert done[-1] == total[-1]
    assert list(done) == sorted(done)
    assert len(set(total)) == 1


def test_the_command_shows_it(ran, monkeypatch):
    out, _, table, path = ran
    asked = []

    def stored(folder, **options):
        asked.append((folder, options))
        return table, path

    monkeypatch.setattr("goalward.lab.overfitting", stored)
    plain = CliRunner().invoke(app, ["benchmark", "--overfitting", "--quick", "--out", str(out)])
    assert plain.exit_code == 0, plain.output
    assert "lost" in plain.stdout
    assert asked == [(out / "overfitting", {"seeds": None, "quick": True, "n_jobs": None})]
    done = CliRunner().invoke(app, ["benchmark", "--overfitting", "--json"])
    assert len(json.loads(done.stdout)["overfitting"]) == len(table)


def test_the_numbers_are_those_of_the_curves(ran):
    out, _, table, _ = ran
    curves = simulate(
        digits_3v8(), ORACLE, budget=60, seeds=2, out=out / "oracle/in", n_jobs=1, progress=False
    )
    line = table.row(3, named=True)
    assert line["strategy"] == "split"
    _, loss = curves.curve("split", "log_loss")
    _, plain = curves.curve("dev", "log_loss")
    assert line["log-loss end"] == pytest.approx(loss[:, -1].mean())
    assert line["log-loss end better by"] == pytest.approx((plain - loss)[:, -1].mean())
    assert line["log-loss best"] == pytest.approx(loss.mean(axis=0).min())


def test_dev_rows_kept_apart_are_in_no_pool():
    whole = digits_3v8().split
    for seed in range(3):
        split, kept = whole(seed), Apart(whole)(seed)
        assert not np.isin(kept.dev, kept.pool).any()
        assert sorted([*kept.pool, *kept.dev]) == split.pool.tolist()
        np.testing.assert_array_equal(kept.dev, split.dev)
