"""Stored labels played again: of a study, and of a simulation."""

import json

import numpy as np
import polars as pl
import pytest
from sklearn.datasets import load_digits
from typer.testing import CliRunner

import goalward as gw
from goalward.cli import app
from goalward.errors import BadInput, BadParameter
from goalward.lab import Curves, replay, replay_simulation, simulate
from goalward.lab.datasets import wine
from goalward.lab.replay import study_dataset

X, y = load_digits(n_class=4, return_X_y=True)
X = X / 16
QUIET = {"n_jobs": 1, "progress": False}
CHOICES = ["strategy", "seed", "round", "queries", "labels", "rows", "accuracy"]
RUN = CliRunner()


def labelled(path, rounds=10, **options):
    options = {"pool": X, "classes": ["a", "b", "c", "d"], **options}
    with gw.Study.create(path, **options) as study:
        for _ in range(rounds):
            for row in study.ask(10):
                study.tell(row, "abcd"[y[row]])
        return list(study.state.training), dict(study.state.dev)


def test_the_stored_order_is_played_as_it_was(tmp_path):
    place = tmp_path / "labels.db"
    labelled(place, dev=0.3)
    with gw.Study.open(place) as study:
        state = study.state
        order = sorted(state.training, key=lambda r: next(iter(state.standings[r].values())).seq)
        data, stored = study_dataset(study)
        curves = replay(study, ["margin"], seeds=2, **QUIET)
    rows = sorted({**state.training, **state.dev})
    assert [rows[i] for i in stored.order] == order
    np.testing.assert_array_equal(data.X, X[rows])
    np.testing.assert_array_equal(data.y, y[rows])
    assert curves.strategies == ["as labelled", "margin"]
    for seed in (0, 1):
        split = data.split(seed)
        mine = curves.table.filter(pl.col("strategy") == "as labelled", pl.col("seed") == seed)
        asked = [row for part in mine.sort("round")["rows"] for row in part]
        assert asked == [row for row in stored.order if row not in set(split.init)]
        # All is bought in the end: both strategies arrive at the same model.
        last = curves.table.filter(pl.col("seed") == seed).group_by("strategy").last()
        assert last["accuracy"].n_unique() == 1


def test_dev_labels_measure_by_one_half_and_steer_by_the_other(tmp_path):
    training, dev = labelled(tmp_path / "labels.db", rounds=6, dev=0.4)
    with gw.Study.open(tmp_path / "labels.db") as study:
        data, _ = study_dataset(study)
    rows = np.array(sorted([*training, *dev]))
    for seed in range(3):
        split = data.split(seed)
        assert not set(split.test) & set(split.dev)
        assert set(rows[split.test]) | set(rows[split.dev]) == set(dev)
        assert set(rows[split.pool]) | set(rows[split.init]) == set(training)
        assert sorted(data.y[split.init]) == [0, 1, 2, 3]
    assert not np.array_equal(data.split(0).test, data.split(1).test)


def test_without_dev_labels_a_quarter_is_held_out(tmp_path):
    training, _ = labelled(tmp_path / "labels.db", dev=0.0)
    with gw.Study.open(tmp_path / "labels.db") as study:
        data, _ = study_dataset(study)
    split = data.split(0)
    assert len(split.test) + len(split.pool) + len(split.init) == len(training) == 100
    assert not set(split.test) & set(split.pool)
    assert 21 <= len(split.test) <= 25
    curves = replay(tmp_path / "labels.db", {"mine": "dev/spread"}, seeds=1, budget=20, **QUIET)
    assert curves.strategies == ["as labelled", "mine"]
    assert curves.table["queries"].max() == 20


def test_a_class_that_only_dev_rows_have_is_still_measured(tmp_path):
    place = tmp_path / "labels.db"
    with gw.Study.create(place, pool=X, classes=["a", "b", "c", "d"], dev=0.3) as study:
        is_dev = study.state.settings.is_dev(range(len(X)))
        kept = [i for i in range(200) if is_dev[i] or y[i] < 3]
        study.tell_many([(i, "abcd"[y[i]]) for i in kept])
        data, _ = study_dataset(study)
        assert set(data.y[data.split(0).test]) == {0, 1, 2, 3}
        assert data.learner.penalize_intercept == "until-seen"
        assert replay(study, ["random"], seeds=1, budget=20, **QUIET).table["accuracy"].max() < 1


def test_a_replay_goes_on_where_it_was_killed(tmp_path):
    labelled(tmp_path / "labels.db", rounds=6, dev=0.3)
    options = {"seeds": 2, **QUIET}
    whole = replay(tmp_path / "labels.db", ["margin"], out=tmp_path / "out", **options)
    files = sorted((tmp_path / "out/rounds").glob("*/*.jsonl"))
    assert len(files) == 4
    cut = files[0].read_text().splitlines(keepends=True)
    files[0].write_text("".join(cut[:3]) + '{"round": 2, "qu')
    files[1].unlink()
    again = replay(tmp_path / "labels.db", ["margin"], out=tmp_path / "out", **options)
    assert again.table.select(CHOICES).equals(whole.table.select(CHOICES))


def test_too_few_labels_are_refused(tmp_path):
    labelled(tmp_path / "labels.db", rounds=1)
    with pytest.raises(BadInput, match="9 training labels"):
        replay(tmp_path / "labels.db", ["margin"])


def test_a_simulation_gets_more_strategies_on_the_same_splits(tmp_path):
    options = {"batch": 5, "budget": 20, "seeds": 2, **QUIET}
    simulate(wine(), ["random", "margin"], out=tmp_path, **options)
    before = {p: p.read_bytes() for p in tmp_path.glob("rounds/*/*.jsonl")}
    curves = replay_simulation(tmp_path, ["entropy"], **QUIET)
    whole = simulate(wine(), ["random", "margin", "entropy"], **options)
    same = [*CHOICES, "log_loss"]
    ordered = [one.table.select(same).sort("strategy", "seed", "round") for one in (curves, whole)]
    assert ordered[0].equals(ordered[1])
    assert pl.read_parquet(tmp_path / "curves.parquet").equals(curves.table)
    assert {p: p.read_bytes() for p in before} == before
    twice = replay_simulation(tmp_path, ["entropy", "margin"], **QUIET)
    assert sorted(twice.strategies) == ["entropy", "margin", "random"]
    assert len(twice.table) == len(curves.table)
    with pytest.raises(BadParameter, match=r"no curves\.parquet"):
        replay_simulation(tmp_path / "rounds", ["margin"])
    other = gw.lab.datasets.Dataset("wine", X, y, wine().split, gw.Logistic())
    with pytest.raises(BadInput, match="other data"):
        replay_simulation(tmp_path, ["margin"], dataset=other)


@pytest.mark.parametrize("cut", ["before the write", "while writing"])
def test_curves_that_are_there_survive_a_kill(tmp_path, monkeypatch, cut):
    options = {"batch": 5, "budget": 20, "seeds": 1, **QUIET}
    simulate(wine(), ["random", "margin"], out=tmp_path, **options)
    before = {p: p.read_bytes() for p in tmp_path.glob("*.*")}
    write = pl.DataFrame.write_parquet

    def killed(table, path):
        if "random" in table["strategy"]:
            write(table, path)
            path.write_bytes(path.read_bytes()[:100])
            raise KeyboardInterrupt
        write(table, path)

    save = Curves.save

    def stopped(curves, folder):
        if "random" in curves.strategies:
            raise KeyboardInterrupt
        save(curves, folder)

    with monkeypatch.context() as patch:
        if cut == "before the write":
            patch.setattr(Curves, "save", stopped)
        else:
            patch.setattr(pl.DataFrame, "write_parquet", killed)
        with pytest.raises(KeyboardInterrupt):
            replay_simulation(tmp_path, ["entropy"], **QUIET)
    assert {p: p.read_bytes() for p in before} == before
    again = replay_simulation(tmp_path, ["entropy"], **QUIET)
    assert again.strategies == ["random", "margin", "entropy"]
    assert not list(tmp_path.glob("*.partial"))


def run(*arguments):
    done = RUN.invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_command_replays_both(tmp_path):
    place, out = tmp_path / "labels.db", tmp_path / "out"
    labelled(place, dev=0.3)
    options = ["--seeds", 2, "--budget", 20, "--jobs", 1, "--out", out]
    found = json.loads(run("replay", place, "-s", "random", *options, "--json"))
    assert [line["strategy"] for line in found["summary"]] == ["as labelled", "random"]
    assert found["biased"] is True
    assert (out / "curves.png").stat().st_size > 1000
    shown = run("replay", place, "-s", "random", *options)
    assert "a biased one" in " ".join(shown.split())
    csv = tmp_path / "mine.csv"
    pl.DataFrame(X[:200]).with_columns(label=pl.Series(y[:200])).write_csv(csv)
    folder = tmp_path / "simulated"
    small = ["--seeds", 1, "--budget", 20, "--jobs", 1]
    run("simulate", csv, "-s", "random", *small, "--out", folder, "--stopping", "--json")
    assert (folder / "stopping.csv").is_file()
    more = json.loads(run("replay", folder, "-s", "margin", "--data", csv, "--jobs", 1, "--json"))
    assert [line["strategy"] for line in more["summary"]] == ["random", "margin"]
    with pytest.raises(BadParameter, match="--seeds"):
        run("replay", folder, "--seeds", 2)
    with pytest.raises(BadParameter, match="--data"):
        run("replay", place, "--data", csv)
