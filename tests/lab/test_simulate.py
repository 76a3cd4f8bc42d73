import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace

import numpy as np
import polars as pl
import pytest
from sklearn.neighbors import KNeighborsClassifier

import goalward as gw
from goalward.errors import BadInput, BadParameter
from goalward.goals import DevLoss, Entropy
from goalward.lab import Curves, Session, parallel, rounds, simulate
from goalward.lab.datasets import Dataset, Stratified, synth2, wine
from goalward.lab.parallel import finished
from goalward.lab.statistics import bootstrap
from goalward.strategies import Margin, recipe

NAMES = ["random", "margin", "dev/average", "entropy/min"]
CHOICES = ["seed", "round", "strategy", "queries", "labels", "labels_with_dev", "rows"]


def test_a_session_spends_its_budget_once_on_each_row():
    dataset = wine()
    session = list(rounds(Session(dataset, recipe("dev/average"), batch=4, budget=10, seed=1)))
    assert [r.queries for r in session] == [0, 4, 8, 10]
    asked = [row for r in session for row in r.rows]
    assert len(set(asked)) == 10
    split = dataset.split(1)
    assert set(asked) <= set(split.pool.tolist())
    last = session[-1]
    assert last.labels == len(split.init) + 10
    assert last.labels_with_dev == last.labels + len(np.setdiff1d(split.dev, asked))
    assert last.rows == []
    assert last.goal == last.goal_dev
    baseline = list(rounds(Session(dataset, Margin(), batch=5, budget=5, seed=1)))
    assert baseline[-1].labels_with_dev == baseline[-1].labels
    assert np.isnan(baseline[-1].goal)


def test_the_measures_are_those_of_the_fitted_model():
    dataset = wine()
    session = list(rounds(Session(dataset, recipe("margin"), batch=5, budget=5, seed=2)))
    split = dataset.split(2)
    known = np.concatenate([split.init, session[0].rows]).astype(int)
    fitted = dataset.learner.fit(dataset.X[known], dataset.y[known])
    truth = dataset.y[split.test]
    last = session[-1]
    assert last.accuracy == np.mean(fitted.predict(dataset.X[split.test]) == truth)
    p = fitted.predict_proba(dataset.X[split.test])
    assert last.log_loss == pytest.approx(-np.log(p[np.arange(len(p)), truth]).mean())
    pool = dataset.X[split.pool]
    assert last.goal_entropy == pytest.approx(gw.goals.Entropy(pool).value(fitted))
    assert last.goal_fisher == pytest.approx(gw.goals.Fisher(pool).value(fitted))


def test_the_same_seed_gives_the_same_rows_on_one_and_two_processes():
    one, two = (
        simulate(wine(), NAMES, batch=5, budget=15, seeds=2, n_jobs=n, progress=False)
        for n in (1, 2)
    )
    same = ["accuracy", "log_loss", "goal_dev", *CHOICES]
    assert one.table.select(same).equals(two.table.select(same))


def test_a_killed_run_goes_on_to_the_same_table(tmp_path):
    """Really killed, with SIGKILL, while its third session goes to disk; then run again."""
    out = tmp_path / "run"
    script = (
        "import os, signal\n"
        "from goalward.lab import simulate\n"
        "from goalward.lab.datasets import wine\n"
        "kept, sync = [], os.fsync\n"
        "def die(file):\n"
        "    kept.append(file)\n"
        "    if len(kept) == 3:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    sync(file)\n"
        "os.fsync = die\n"
        "if __name__ == '__main__':\n"
        f"    simulate(wine(), {NAMES!r}, batch=5, budget=30, seeds=2, out={str(out)!r},"
        " n_jobs=1, progress=False)\n"
    )
    path = tmp_path / "run.py"
    path.write_text(script)
    done = subprocess.run(
        [sys.executable, str(path)], env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False
    )
    assert done.returncode == -signal.SIGKILL
    killed = out / "sessions.jsonl"
    assert not (out / "curves.parquet").exists()
    # A line cut off in the middle, as a crash of the machine would leave it.
    with killed.open("a") as file:
        file.write('{"key": "99", "roun')
    options = {"batch": 5, "budget": 30, "seeds": 2, "n_jobs": 1, "progress": False}
    resumed = simulate(wine(), NAMES, out=out, **options)
    whole = simulate(wine(), NAMES, **options)
    same = ["accuracy", "log_loss", "goal_dev", *CHOICES]
    assert resumed.table.select(same).equals(whole.table.select(same))
    # Run once more, nothing is left to do and nothing changes.
    before = killed.read_bytes()
    simulate(wine(), NAMES, out=out, **options)
    assert killed.read_bytes() == before


def test_other_data_and_batches_live_side_by_side_in_one_folder(tmp_path):
    options = {"budget": 10, "seeds": 1, "n_jobs": 1, "progress": False, "out": tmp_path}
    simulate(wine(), ["margin"], batch=5, **options)
    simulate(synth2(), ["margin"], batch=5, **options)
    simulate(wine(), ["margin"], batch=2, **options)
    assert len((tmp_path / "sessions.jsonl").read_text().splitlines()) == 3


def test_another_strategy_of_the_same_name_is_played(tmp_path):
    """Reprs hide the data; the session does not take over rounds of another goal."""
    dataset = wine()
    options = {"budget": 5, "batch": 5, "seeds": 1, "n_jobs": 1, "progress": False, "out": tmp_path}

    def mine(rows):
        return {"mine": gw.GoalOriented(gw.goals.DevLoss(dataset.X[rows], dataset.y[rows]))}

    pool = dataset.split(0).pool
    first = simulate(dataset, mine(pool[::3]), **options)
    assert simulate(dataset, mine(pool[::3]), **options).table.equals(first.table)
    other = simulate(dataset, mine(pool[1::3]), **options)
    assert other.table["goal"][0] != first.table["goal"][0]


def test_labels_that_a_ready_made_strategy_holds_are_charged():
    dataset = wine()
    dev = gw.goals.DevLoss(dataset.X[:30], dataset.y[:30])
    believed = gw.labels.Expected(
        gw.labels.LabelModel(KNeighborsClassifier(), X=dataset.X[:40], y=dataset.y[:40])
    )
    assert gw.GoalOriented(dev + gw.goals.Entropy(dataset.X)).labels_held == 30
    assert gw.GoalOriented(dev, operator=believed).labels_held == 40
    assert Margin().labels_held == 0
    worst = gw.goals.WorstGroup(dataset.X[:20], dataset.y[:20], dataset.y[:20])
    assert gw.GoalOriented(worst + 0.5 * dev).labels_held == 50
    soft = gw.goals.SoftPool(dataset.X, believed.belief)
    assert gw.GoalOriented(soft).labels_held == 40
    pool = dataset.split(0).pool[:30]
    dev = gw.goals.DevLoss(dataset.X[pool], dataset.y[pool])
    one = next(iter(rounds(Session(dataset, gw.GoalOriented(dev), batch=5, budget=5))))
    assert one.labels_with_dev == one.labels + 30
    both = simulate(
        dataset, [Margin(), gw.recipe("random")], budget=5, seeds=1, n_jobs=1, progress=False
    )
    assert both.strategies == ["Margin(seed=0)", "random"]


def test_rare_classes_keep_the_pool_the_same_size_in_every_split():
    rng = np.random.default_rng(6)
    y = rng.permutation(np.repeat([0, 1, 2], [20, 20, 4]))
    dataset = Dataset("rare", rng.normal(size=(44, 3)), y, Stratified(y, 2, 0.25), gw.Logistic())
    curves = simulate(dataset, ["random"], budget=100, batch=5, seeds=5, n_jobs=1, progress=False)
    assert curves.curve("random")[1].shape[0] == 5


def test_tables_are_written_and_read_back(tmp_path):
    curves = simulate(
        wine(),
        {"mine": "margin"},
        budget=10,
        batch=5,
        seeds=2,
        out=tmp_path,
        n_jobs=1,
        progress=False,
    )
    assert pl.read_parquet(tmp_path / "curves.parquet").equals(curves.table)
    csv = pl.read_csv(tmp_path / "curves.csv")
    assert csv["rows"][0].split(" ") == [str(r) for r in curves.table["rows"][0]]
    assert pl.read_csv(tmp_path / "summary.csv")["strategy"].to_list() == ["mine"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strategies": []}, "at least 1, got none"),
        ({"strategies": ["margin"], "seeds": 0}, "seeds.*at least 1"),
        ({"strategies": ["margin"], "batch": 0}, "batch.*at least 1"),
        ({"strategies": ["marge"]}, "names the strategy 'marge'"),
    ],
)
def test_wrong_calls_are_refused(options, message):
    with pytest.raises(BadParameter, match=message):
        simulate(wine(), **options)


def made(values, dev=0):
    """Curves of strategies a, b, ... from accuracies (strategy, seed, round)."""
    lines = [
        {
            "strategy": "abc"[s],
            "seed": seed,
            "round": r,
            "queries": 10 * r,
            "labels": 5 + 10 * r,
            "labels_with_dev": 5 + 10 * r + (dev if s == 0 else 0),
            "accuracy": float(v),
            "log_loss": 1.0 - float(v),
            "seconds": 0.1,
        }
        for s, seeds in enumerate(values)
        for seed, curve in enumerate(seeds)
        for r, v in enumerate(curve)
    ]
    return Curves(pl.DataFrame(lines))


def test_what_is_said_of_curves():
    curves = made([[[0.5, 0.7, 0.9], [0.5, 0.5, 0.9]], [[0.5, 0.6, 0.7], [0.5, 0.6, 0.7]]], dev=20)
    np.testing.assert_allclose(curves.area()["a"], [0.7, 0.6])
    np.testing.assert_allclose(curves.reach(0.7)["a"], [10, 20])
    np.testing.assert_allclose(curves.reach(0.7, with_dev=True)["a"], [30, 40])
    np.testing.assert_allclose(curves.reach(0.8)["b"], [np.inf, np.inf])
    ranks = curves.ranks()
    assert ranks["strategy"].to_list() == ["a", "b"]
    assert ranks["mean_rank"].to_list() == [1.25, 1.75]
    differences = curves.differences("b")
    assert differences["better_by"][0] == pytest.approx(0.05)
    assert differences["wins"].to_list() == [1, 0]
    assert curves.differences("b", "log_loss")["better_by"][0] == pytest.approx(0.05)
    summary = curves.summary((0.7, 0.8))
    assert summary["labels_to_0.7"].to_list() == [15.0, 20.0]
    assert summary["labels_to_0.8"].to_list() == [20.0, None]
    for look_up in (curves.differences, curves.asked):
        with pytest.raises(BadParameter, match="must be one of a, b, got 'z'"):
            look_up("z")
    with pytest.raises(BadParameter, match="got 'z'"):
        curves.curve("z")


@pytest.mark.parametrize("n", [3, 5, 10, 20])
def test_the_bootstrap_interval_covers_the_mean_of_normal_draws(n):
    """Also for few seeds, where plain percentiles cover 73 % (3) to 89 % (10)."""
    rng = np.random.default_rng(n)
    hits = 0
    for i in range(400):
        _, low, high = bootstrap(rng.normal(1.0, 2.0, size=n), draws=1000, seed=i)
        hits += low <= 1.0 <= high
    assert hits / 400 >= 0.91


def test_one_seed_has_no_interval():
    mean, low, high = bootstrap(np.array([0.3]))
    assert mean == 0.3
    assert np.isnan(low)
    assert np.isnan(high)


def test_synth2_seed_0_shows_what_the_paper_tells():
    """169 of the first 170 uncertainty queries central, 0.9667 first at 230, and the others."""
    dataset = synth2(0)
    names = ["uncertainty", "dev/oracle", "dev/average", "dev/min"]
    curves = simulate(dataset, names, budget=240, seeds=1, n_jobs=1, progress=False)

    def groups(name, first):
        mine = curves.table.filter(pl.col("strategy") == name).sort("round")
        rows = [row for rows in mine["rows"] for row in rows][:first]
        return [int(np.sum(dataset.groups[rows] == g)) for g in ("central", "distracting")]

    assert groups("uncertainty", 170)[0] == 169
    assert curves.reach(0.9667 - 1e-4)["uncertainty"][0] == 230
    _, accuracy = curves.curve("uncertainty")
    assert accuracy[0, 0] == pytest.approx(0.667, abs=1e-3)
    assert groups("dev/oracle", 30)[1] == 0
    assert groups("dev/average", 30)[1] == 0
    assert groups("dev/min", 30) == [0, 30]
    split = dataset.split(0)
    params = dataset.learner.fit(dataset.X[split.init], dataset.y[split.init]).params
    a, b = (params[:, 1] - params[:, 0])[:2]
    assert np.degrees(np.arctan(-a / b)) == pytest.approx(-0.1, abs=0.06)


def test_the_record_of_a_round_is_plain_json():
    one = next(iter(rounds(Session(wine(), recipe("margin"), batch=2, budget=2))))
    assert json.loads(json.dumps(asdict(one)))["rows"] == one.rows


SCRIPT = """
import sys
import numpy as np
import goalward as gw

n_jobs = {n_jobs}
X = np.random.default_rng(0).normal(size=(200, 3))
y = np.where(X[:, 0] + X[:, 1] > 0, "up", "down")

class Widest(gw.strategies.Strategy):
    seed = 0
    def bind(self, request):
        return gw.strategies.RowRule(lambda rows: (rows.X * rows.X).sum(axis=1))

mine = {{
    "lambda": gw.GoalOriented(gw.goals.Custom(X[:5], lambda logits: (logits[:, 0] - logits[:, 1]).sum())),
    "dev": lambda dev, pool: gw.GoalOriented(gw.goals.DevLoss(*dev), operator="spread"),
    "widest": Widest(),
}}
curves = gw.lab.simulate((X, y), mine, batch=5, budget=15, seeds=2, n_jobs=n_jobs, progress=False)
print(curves.table.height, sorted(set(curves.table["strategy"])))
"""


@pytest.mark.parametrize("n_jobs", [None, 1, 2])
def test_a_plain_script_plays_what_it_made_itself(tmp_path, n_jobs):
    """No guard of `__main__`, functions without a name, a class of the script, its own arrays."""
    path = tmp_path / "script.py"
    path.write_text(SCRIPT.format(n_jobs=n_jobs))
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "24 ['dev', 'lambda', 'widest']\n"


def test_a_goal_of_each_splits_dev_rows_is_the_recipe_of_the_dev_goal():
    plans = {
        "recipe": "dev/spread",
        "mine": lambda dev, pool: gw.GoalOriented(DevLoss(*dev), operator="spread"),
    }
    curves = simulate(wine(), plans, batch=5, budget=15, seeds=2, n_jobs=1, progress=False)
    one, two = (curves.table.filter(pl.col("strategy") == name) for name in plans)
    same = [name for name in ("accuracy", "goal", *CHOICES) if name != "strategy"]
    assert one.select(same).equals(two.select(same))


def test_dev_rows_that_are_test_rows_are_refused():
    dataset, options = wine(), {"batch": 5, "budget": 5, "seeds": 1, "n_jobs": 1, "progress": False}
    test = dataset.split(0).test[:3]
    leaking = gw.GoalOriented(DevLoss(dataset.X[test], dataset.y[test]) + 0.5 * Entropy(dataset.X))
    with pytest.raises(
        BadInput, match=r"3 dev rows of GoalOriented are test rows of wine \(seed 0\)"
    ):
        simulate(dataset, {"leaking": leaking}, **options)
    with pytest.raises(BadInput, match="3 dev rows of Among"):
        simulate(dataset, {"leaking": gw.strategies.Among(leaking)}, **options)

    def shared(seed):
        split = dataset.split(seed)
        return replace(split, dev=split.test[:2])

    with pytest.raises(BadInput, match=r"is both \(2 such, seed 0\)"):
        simulate(replace(dataset, split=shared), ["margin"], **options)


def test_own_arrays_are_checked_as_files_are():
    X, y = wine().X, wine().y
    with pytest.raises(BadInput, match="data has 178 rows and 177 labels"):
        simulate((X, y[:-1]), ["margin"])
    with pytest.raises(BadInput, match="got 1 classes"):
        simulate((X, np.zeros(178)), ["margin"])
    with pytest.raises(
        BadParameter, match="dataset must be a name, \\(X, y\\) or a Dataset, got list"
    ):
        simulate([X, y], ["margin"])


def test_an_error_in_a_process_comes_out_whole():
    def broken(job):
        if job == 3:
            raise IndexError("of the job itself")
        return job

    for n_jobs in (None, 1, 2):
        with pytest.raises(IndexError, match="of the job itself"):
            list(finished(broken, range(5), n_jobs))
    assert sorted(finished(lambda job: job, range(5), 2)) == list(range(5))


def test_processes_take_over_what_is_not_done_here_soon(monkeypatch, tmp_path):
    """The first job ends only once another process has done one of the others."""
    monkeypatch.setattr(parallel, "PATIENCE", 0.0)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)

    def work(job):
        if job:
            (tmp_path / str(job)).touch()
        until = time.monotonic() + 120
        while not list(tmp_path.iterdir()) and time.monotonic() < until:
            time.sleep(0.05)
        return len(list(tmp_path.iterdir())) > 0, os.getpid()

    ended, where = zip(*finished(work, range(3), None), strict=True)
    assert all(ended)
    assert set(where) - {os.getpid()}


def test_what_is_soon_done_is_done_here():
    assert list(finished(lambda job: (job, os.getpid()), range(3), None)) == [
        (job, os.getpid()) for job in range(3)
    ]
