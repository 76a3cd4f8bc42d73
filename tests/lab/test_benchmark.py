"""The benchmark: every label charged from zero, paired, resumable; its tables by hand."""

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.stats import skew
from sklearn.metrics import balanced_accuracy_score
from typer.testing import CliRunner

from goalward.cli import app
from goalward.errors import BadInput, BadParameter, DataMissing
from goalward.goals import LeaveOneOut
from goalward.lab import benchmark
from goalward.lab.benchmark import PARTS, PROTOCOLS, Areas, Part, Protocol, play, play_all
from goalward.lab.benchmark.areas import is_oracle
from goalward.lab.benchmark.report import report
from goalward.lab.datasets import load
from goalward.lab.session import Session, measure
from goalward.models.logistic import Logistic
from goalward.strategies import recipe
from goalward.strategies.recipes import RECOMMENDED

SMALL = Protocol(budget=20, pool=60, test=40)
NAMES = ["random", "margin", "decision-risk"]


def test_everybody_is_a_recipe_and_no_one_is_twice():
    for part in PARTS.values():
        names = [str(recipe(name)) for name in part.strategies]
        assert len(set(names)) == len(names)
        assert RECOMMENDED in part.strategies
        assert all("dev" not in recipe(name).needs for name in part.strategies)
    assert not set(PARTS["design"].datasets) & set(PARTS["confirm"].datasets)
    assert set(PARTS["quick"].datasets) <= set(PARTS["design"].datasets)


def test_protocols_differ_from_the_main_one_in_one_thing():
    main = PROTOCOLS["full"]
    assert (main.budget, main.batch, main.noise, main.learner) == (200, 10, 0.0, "fixed")
    for name, one in PROTOCOLS.items():
        assert one.name == name
        changed = [key for key, value in vars(one).items() if value != getattr(main, key)]
        assert len(changed) == (0 if name == "full" else 2)
    assert main.sizes(2000) == (10, 200)
    assert main.sizes(130) == (10, 60)
    assert PROTOCOLS["batch-50"].sizes(130) == (32, 64)
    assert PROTOCOLS["budget-1000"].sizes(2000) == (10, 1000)


def test_every_label_is_paid_for_from_the_first_on():
    task = SMALL.conditions(load("wine"))
    split = SMALL.split(task, 3)
    assert len(split.init) == 0
    assert len(split.pool) == 60
    assert not set(split.pool) & set(split.test)
    lines = {name: play(task, name, 3, SMALL) for name in NAMES}
    session = Session(task, recipe("margin"), 3, 10, 20, split)
    curve = [measure(step.model, task, split.test) for step in session.steps()]
    assert curve[0].accuracy == curve[0].balanced == pytest.approx(1 / 3)
    assert curve[0].log_loss == pytest.approx(np.log(3))
    for column, metric in (("accuracy", 0), ("log_loss", 1), ("balanced", 2)):
        a, b, c = (point[metric] for point in curve)
        digits = 6e-4 if column == "log_loss" else 6e-5
        assert lines["margin"][column] == pytest.approx((a / 2 + b + c / 2) / 2, abs=digits)
    assert lines["margin"]["final"] == pytest.approx(curve[-1].accuracy, abs=6e-5)


def test_balanced_accuracy_is_scikit_learns():
    data = load("vehicle")
    split = data.split(0)
    fitted = Logistic().fit(data.X[split.init], data.y[split.init])
    found = measure(fitted, data, split.test)
    expected = balanced_accuracy_score(data.y[split.test], fitted.predict(data.X[split.test]))
    assert found.balanced == pytest.approx(expected)


def test_flipped_labels_train_and_true_ones_measure():
    rules = replace(SMALL, noise=0.2)
    data = load("wine")
    task = rules.conditions(data)
    assert 0.1 < np.mean(task.answers(0) != data.y) < 0.3
    assert np.array_equal(task.y, data.y)
    assert play(task, "random", 0, rules) != play(SMALL.conditions(data), "random", 0, SMALL)


def test_the_second_learner_chooses_C_on_transformed_features():
    rules = replace(SMALL, learner="chosen")
    task = rules.conditions(load("vehicle"))
    before, after = (np.abs(skew(X)).mean() for X in (load("vehicle").X, task.X))
    assert after < before / 2
    rows = np.arange(0, len(task.y), 20)
    fitted = task.learner.fit(task.X[rows], task.y[rows])
    others = [Logistic(C=C).fit(task.X[rows], task.y[rows]) for C in (0.01, 0.1, 1, 10)]
    values = [LeaveOneOut().value(one) for one in others]
    assert fitted.C == others[int(np.argmax(values))].C
    assert np.allclose(fitted.params, others[int(np.argmax(values))].params, atol=1e-5)
    # A few labels, of a single class or none, keep the usual C.
    assert play(rules.conditions(load("wine")), "margin", 0, rules)["accuracy"] > 1 / 3


def test_a_run_that_was_killed_goes_on_where_it_was(tmp_path):
    """Killed for real; what was played is not played again, and the areas are the same."""
    options = {"seeds": 2, "protocol": SMALL}
    whole = benchmark(["wine"], NAMES, **options, n_jobs=1)
    code = (
        "import os, signal\n"
        "from goalward.lab import benchmark\n"
        "from goalward.lab.benchmark import Protocol\n"
        f"benchmark(['wine'], {NAMES!r}, seeds=2, n_jobs=1,\n"
        f"          protocol=Protocol(budget=20, pool=60, test=40), out={str(tmp_path)!r},\n"
        "          progress=lambda done, all: done < 3 or os.kill(os.getpid(), signal.SIGKILL))\n"
    )
    killed = subprocess.run([sys.executable, "-c", code], check=False)
    assert killed.returncode == -signal.SIGKILL
    store = tmp_path / "sessions.jsonl"
    store.write_text(store.read_text() + '{"key": "cut o')
    assert store.read_text().count('"seed"') == 3
    seen = []
    resumed = benchmark(
        ["wine"], NAMES, **options, out=tmp_path, n_jobs=1,
        progress=lambda done, total: seen.append((done, total)),
    )  # fmt: skip
    assert seen == [(4, 6), (5, 6), (6, 6)]
    drop = "seconds"
    assert resumed.table.drop(drop).equals(whole.table.drop(drop))
    assert Areas.read(tmp_path / "benchmark.csv").table.drop(drop).equals(whole.table.drop(drop))


def test_kept_sessions_are_told_apart_by_all_that_changes_them(tmp_path):
    """Rules, data and strategy; not by what a protocol is called."""
    seen = []
    options = {"out": tmp_path, "n_jobs": 1, "progress": lambda *at: seen.append(at)}
    for rules in (SMALL, replace(SMALL, noise=0.1), replace(SMALL, batch=5)):
        benchmark(["wine"], ["random"], seeds=1, protocol=rules, **options)
        assert len(seen) == 1
        seen.clear()
    named = [replace(SMALL, name=name) for name in ("a", "b")]
    areas = play_all(Part(["wine"], ["random"], named, 1).jobs(), **options)
    assert not seen
    assert areas.table["protocol"].to_list() == ["a", "b"]


def test_processes_play_what_one_process_plays():
    one, two = (
        benchmark(["wine"], ["random", "decision-risk"], seeds=1, protocol=SMALL, n_jobs=n)
        for n in (1, 2)
    )
    assert one.table.drop("seconds").equals(two.table.drop("seconds"))


def made_up(protocols=("full",), shift=0.0):
    """Two datasets, three strategies, two seeds; b is always best, a and c share the rest."""
    areas = {
        "margin": [[0.5, 0.7], [0.2, 0.2]],
        "decision-risk": [[0.9, 0.9], [0.6, 0.4]],
        "random": [[0.6, 0.6], [0.1, 0.1]],
    }
    lines = [
        {
            "protocol": protocol,
            "dataset": ("wine", "digits")[d],
            "strategy": s,
            "seed": seed,
            "accuracy": areas[s][d][seed] - shift,
            "final": 1.0,
            "balanced": areas[s][d][seed],
            "log_loss": 1 - areas[s][d][seed],
            "seconds": 1.0,
        }
        for protocol in protocols
        for d in range(2)
        for s in areas
        for seed in range(2)
    ]
    return Areas(pl.DataFrame(lines))


def test_ranks_and_differences_by_hand():
    results = made_up()
    for metric in ("accuracy", "log_loss"):
        ranks = dict(results.ranks(metric).select("strategy", "mean_rank").iter_rows())
        # On wine margin and random have the same mean and share ranks 2 and 3.
        assert ranks == {"decision-risk": 1.0, "margin": 2.25, "random": 2.75}
    found = {r["against"]: r for r in results.against("decision-risk").iter_rows(named=True)}
    assert found["margin"]["better_by"] == pytest.approx(0.3)
    assert found["margin"]["worst"] == pytest.approx(0.3)
    assert found["random"]["wins"] == 2
    # Of two datasets nothing follows: p is 1/2, and twice that for two questions.
    assert [r["p"] for r in found.values()] == [1.0, 1.0]
    assert results.means()["decision-risk"].to_list() == pytest.approx([0.9, 0.5])
    assert results.only(strategy=["margin"], dataset=["wine"]).table.height == 2
    with pytest.raises(BadParameter, match=r"strategy must be one of .* got 'z'"):
        results.only(strategy=["z"])


def test_regret_is_signed_and_names_the_worst_set():
    found = {r["strategy"]: r for r in made_up().regrets().iter_rows(named=True)}
    assert found["decision-risk"]["mean"] < 0 < found["margin"]["mean"]
    # decision-risk is the best peer; random is behind it by .3 and by .4.
    assert found["random"]["mean"] == pytest.approx((0.3 + 0.4) / 2)
    assert found["random"]["on"] == "digits"


def test_tables_show_design_and_confirmation_apart_and_factors(monkeypatch, tmp_path):
    from goalward.lab.benchmark import report as module

    monkeypatch.setattr(module, "DESIGN", ("digits",))
    monkeypatch.setattr(module, "CONFIRM", ("wine",))
    monkeypatch.setattr(module, "IMBALANCED", ("wine",))
    report(made_up(("full", "flipped-20", "ceiling")), tmp_path)
    both = module.SAME, "flipped-20", "ceiling"
    tables = {path.stem: pl.read_csv(path) for path in tmp_path.glob("*.csv")}
    assert set(tables) == {"ranks", "against", "regrets", "areas"}
    for table in tables.values():
        sets = table["sets"].unique(maintain_order=True).to_list()
        assert sets == ["confirm", "design", *both]
    balanced = tables["against"].filter(pl.col("of").str.starts_with("balanced"))
    assert set(balanced["sets"]) == {"confirm", *both}
    assert set(balanced["of_sets"]) == {1}
    best = tables["ranks"].filter(sets="confirm").row(0, named=True)
    assert (best["strategy"], best["rank_area"], best["area"]) == ("decision-risk", 1.0, 0.9)


def test_oracles_have_no_rank_and_no_regret(tmp_path):
    oracle = "dev/oracle"
    assert is_oracle(oracle)
    results = made_up()
    ceiling = results.table.filter(pl.col("strategy") == "random").with_columns(
        strategy=pl.lit(oracle), accuracy=pl.lit(0.99)
    )
    report(Areas(pl.concat([results.table, ceiling])), tmp_path)
    ranks, against, regrets = (
        pl.read_csv(tmp_path / f"{name}.csv") for name in ("ranks", "against", "regrets")
    )
    last = ranks.filter(strategy=oracle).row(0, named=True)
    assert (last["rank_area"], last["area"]) == (None, 0.99)
    assert oracle not in {*against["against"], *regrets["strategy"]}


def test_the_report_holds_tables_and_figures(tmp_path):
    results = benchmark(["wine", "breast-cancer"], NAMES, seeds=2, protocol=SMALL, n_jobs=1)
    paths = report(results, tmp_path)
    names = ["ranks.csv", "against.csv", "regrets.csv", "areas.csv", "differences.png"]
    assert [path.name for path in paths] == names
    assert all(path.stat().st_size > 80 for path in paths)


def test_the_command_runs_and_draws_again_from_its_table(tmp_path):
    run = CliRunner().invoke(
        app,
        "benchmark -d wine -d breast-cancer -s random -s decision-risk -s bait --seeds 1 --budget 20 "
        f"--jobs 1 --json --out {tmp_path}".split(),
    )
    assert run.exit_code == 0, run.output
    ranks = json.loads(run.stdout)["ranks"]
    assert {r["strategy"] for r in ranks} == {"random", "decision-risk", "bait"}
    again = CliRunner().invoke(
        app, f"benchmark --from {tmp_path / 'benchmark.csv'} --out {tmp_path / 'again'}".split()
    )
    assert again.exit_code == 0, again.output
    assert (tmp_path / "again" / "ranks.csv").read_text() == (tmp_path / "ranks.csv").read_text()


def test_parts_that_are_not_there_are_named():
    run = CliRunner().invoke(app, ["benchmark", "--part", "nothing"])
    assert run.exit_code != 0
    assert "got nothing." in str(run.exception)


def test_nothing_to_compare_is_refused():
    with pytest.raises(BadParameter, match="got 0 datasets"):
        benchmark([], NAMES)
    with pytest.raises(BadParameter, match="goalward simulate"):
        benchmark(["wine"], ["dev/spread"])
    with pytest.raises(BadParameter, match="half of the pool"):
        benchmark(["wine"], ["random"], seeds=1, protocol=Protocol(budget=1), n_jobs=1)
    for options in ({"budget": 0}, {"batch": 0}, {"pool": 0}, {"learner": "other"}):
        with pytest.raises(BadParameter, match=r"must be|at least 1"):
            Protocol(**options)


def test_results_that_are_not_paired_are_refused():
    table = made_up().table
    for part in (
        table[1:],
        pl.concat([table, table[:1]]),
        table.filter(~((pl.col("strategy") == "margin") & (pl.col("dataset") == "wine"))),
        made_up(("full", "batch-1")).table,
    ):
        with pytest.raises(BadInput, match="the same seeds once, of one protocol"):
            Areas(part).ranks()


def test_any_strategies_may_be_compared(tmp_path):
    """Also without the recommended one, or a single one; files that are none are refused."""
    for names in (["margin", "entropy"], ["margin"]):
        results = benchmark(["wine", "wine"], names, seeds=2, protocol=SMALL, n_jobs=1)
        assert names[0] in report(results, tmp_path)[0].read_text()
    with pytest.raises(DataMissing, match="could not be read"):
        Areas.read(tmp_path / "nothing.csv")
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(BadInput, match="is not in"):
        Areas.read(tmp_path / "other.csv")


def test_a_store_with_rubbish_in_it_is_read_around(tmp_path):
    options = {"seeds": 1, "protocol": SMALL, "out": tmp_path, "n_jobs": 1}
    first = benchmark(["wine"], ["random"], **options)
    store = tmp_path / "sessions.jsonl"
    store.write_bytes(
        b'\xff\xfe\x00{"key": "x"}\n[1]\n{"key": "y", "seed": 1}\n' + store.read_bytes() + b"\xc3"
    )
    seen = []
    again = benchmark(["wine"], ["random"], **options, progress=lambda *at: seen.append(at))
    assert not seen
    assert again.table.equals(first.table)


@pytest.mark.heavy
def test_the_published_table_is_that_of_the_published_areas(tmp_path):
    folder = Path(__file__).parents[2] / "docs" / "benchmark"
    results = Areas.read(folder / "benchmark.csv")
    assert (folder / "benchmark.csv").stat().st_size < 1_000_000
    report(results, tmp_path)
    made = pl.read_csv(tmp_path / "ranks.csv").filter(sets="confirm").drop("sets")
    published = pl.read_csv(folder / "ranks.csv")
    # The last digit may round the other way elsewhere.
    assert published.columns == made.columns
    assert published["strategy"].to_list() == made["strategy"].to_list()
    assert published.drop("strategy").to_numpy() == pytest.approx(
        made.drop("strategy").to_numpy(), rel=0.002
    )
    page = (folder.parent / "benchmark.md").read_text("utf-8")
    assert ":file: benchmark/ranks.csv\n" in page


def test_own_arrays_take_part_as_named_datasets_do(tmp_path):
    named = load("wine")
    options = {"seeds": 2, "protocol": SMALL, "progress": False}
    theirs = benchmark(["wine"], ["margin", "random"], n_jobs=1, **options)
    ours = benchmark([(named.X, named.y)], ["margin", "random"], n_jobs=2, out=tmp_path, **options)
    assert set(ours.table["dataset"]) == {"data"}
    same = ["strategy", "seed", "accuracy", "final"]
    assert ours.table.select(same).equals(theirs.table.select(same))
    again = benchmark([(named.X, named.y)], ["margin", "random"], out=tmp_path, **options)
    assert again.table.equals(ours.table)
    with pytest.raises(BadParameter, match="two are called 'data'"):
        benchmark([(named.X, named.y), (named.X + 1, named.y)], ["margin"], **options)
