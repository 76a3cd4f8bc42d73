"""The benchmark: every label charged, paired, resumable; its statistics by hand."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import goalward as gw
from goalward.cli import app
from goalward.errors import BadInput, BadParameter, DataMissing
from goalward.lab import benchmark
from goalward.lab.benchmark import Areas, Entry, Protocol, play
from goalward.lab.benchmark.entries import (
    DATASETS,
    ENTRIES,
    FAST,
    MAIN,
    QUICK,
)
from goalward.lab.benchmark.report import report, tables
from goalward.lab.datasets import load
from goalward.lab.statistics import critical_difference
from goalward.strategies import recipe
from goalward.strategies.recipe_names import RECOMMENDED

SMALL = Protocol(budget=20, pool=60, test=40)
NAMES = ["random", "margin", "margin + dev", "dev/spread", "decision-risk"]


def entries(*names):
    return [Entry.of(name) for name in names or NAMES]


def test_every_entry_is_a_recipe_without_true_labels():
    names = [entry.name for entry in ENTRIES]
    assert len(set(names)) == len(names)
    assert {e.name for e in FAST} <= set(names)
    for entry in ENTRIES:
        needs = recipe(entry.recipe).needs
        assert "truth" not in needs
        assert ("dev" in needs) <= (entry.dev != "none")
    # Every baseline also stands with the dev labels in its training set.
    plain = [e.name for e in ENTRIES if "/" not in e.recipe and e.dev == "none"]
    assert {f"{name} + dev" for name in plain if name in MAIN} <= set(names)
    assert len(DATASETS) >= 8
    assert set(QUICK) <= set(DATASETS)


def test_all_start_alike_and_pay_for_every_label():
    data = load("wine")
    found = {e.name: play(data, e, 0, SMALL) for e in entries(*NAMES, "random + dev")}
    batch, budget, n_dev = SMALL.sizes(60)
    assert (batch, budget, n_dev) == (5, 20, 5)
    for one in found.values():
        assert len(one["accuracy"]) == budget // batch + 1
        assert one["accuracy"][0] == found["random"]["accuracy"][0]
    # While dev labels are bought, all who buy them have the same model.
    bought = n_dev // batch + 1
    for name in ("margin + dev", "dev/spread"):
        assert found[name]["accuracy"][:bought] == found["random + dev"]["accuracy"][:bought]
        assert found[name]["dev_paid"] == n_dev
    assert found["margin"]["dev_paid"] == 0
    # Apart from them it starts where everybody did, and has fewer queries.
    apart = found["dev/spread"]["apart_accuracy"]
    assert apart[0] == found["random"]["accuracy"][0]
    assert len(apart) == (budget - n_dev) // batch + 1


def test_dev_rows_are_neither_asked_again_nor_tested_on():
    for name in DATASETS[:3]:
        data = load(name)
        split = Protocol().split(data, 3)
        assert not set(split.dev) & set(split.test)
        assert set(split.dev) <= set(split.pool)
        assert not set(split.pool) & (set(split.init) | set(split.test))
        assert len(split.pool) <= 2000


def test_a_run_that_was_killed_goes_on_where_it_was(tmp_path):
    """Killed for real; what was played is not played again, and the areas are the same."""
    options = {"seeds": 2, "protocol": SMALL}
    whole = benchmark(["wine"], entries(), **options, n_jobs=1)
    code = (
        "import os, signal\n"
        "from goalward.lab import benchmark\n"
        "from goalward.lab.benchmark import Entry, Protocol\n"
        f"benchmark(['wine'], [Entry.of(n) for n in {NAMES!r}], seeds=2, n_jobs=1,\n"
        f"          protocol=Protocol(budget=20, pool=60, test=40), out={str(tmp_path)!r},\n"
        "          progress=lambda done, all: done < 3 or os.kill(os.getpid(), signal.SIGKILL))\n"
    )
    killed = subprocess.run([sys.executable, "-c", code], check=False)
    assert killed.returncode == -signal.SIGKILL
    store = tmp_path / "sessions.jsonl"
    store.write_text(store.read_text() + '{"key": "cut o')
    before = store.read_text().count('"seed"')
    assert before == 3
    seen = []
    resumed = benchmark(
        ["wine"], entries(), **options, out=tmp_path, n_jobs=1,
        progress=lambda done, total: seen.append((done, total)),
    )  # fmt: skip
    assert len(seen) == 10 - before < 10
    assert seen[-1:] in ([(10, 10)], [])
    drop = "seconds"
    assert resumed.table.drop(drop).equals(whole.table.drop(drop))
    assert Areas.read(tmp_path / "benchmark.csv").table.drop(drop).equals(whole.table.drop(drop))


def test_processes_play_what_one_process_plays():
    one = benchmark(["wine"], entries("random", "decision-risk"), seeds=1, protocol=SMALL, n_jobs=1)
    two = benchmark(["wine"], entries("random", "decision-risk"), seeds=1, protocol=SMALL, n_jobs=2)
    assert one.table.drop("seconds").equals(two.table.drop("seconds"))


def made_up():
    """Two datasets, three strategies, two seeds; b is always best, a and c share the rest."""
    areas = {
        "a": [[0.5, 0.7], [0.2, 0.2]],
        "b": [[0.9, 0.9], [0.6, 0.4]],
        "c": [[0.6, 0.6], [0.1, 0.1]],
    }
    lines = [
        {
            "dataset": f"d{d}",
            "strategy": s,
            "seed": seed,
            "accuracy": areas[s][d][seed],
            "log_loss": 1 - areas[s][d][seed],
            "free_accuracy": areas[s][d][seed],
            "free_log_loss": 1 - areas[s][d][seed],
            "final": 1.0,
            "labels": 20,
            "dev": 0,
            "seconds": 1.0,
        }
        for d in range(2)
        for s in areas
        for seed in range(2)
    ]
    return Areas(pl.DataFrame(lines))


def test_ranks_and_differences_by_hand():
    results = made_up()
    for metric in ("accuracy", "log_loss"):
        ranks = dict(results.ranks(metric).select("strategy", "mean_rank").iter_rows())
        # On d0 a and c have the same mean and share ranks 2 and 3.
        assert ranks == {"b": 1.0, "a": (2.5 + 2) / 2, "c": (2.5 + 3) / 2}
    found = {r["against"]: r for r in results.against("b").iter_rows(named=True)}
    assert found["a"]["better_by"] == pytest.approx(0.3)
    assert found["c"]["wins"] == 2
    assert results.means()["b"].to_list() == pytest.approx([0.9, 0.5])
    assert results.only(["a", "b"]).strategies == ["a", "b"]
    with pytest.raises(BadParameter, match="no strategy 'z'"):
        results.only(["z"])


@pytest.mark.parametrize(("k", "q"), [(2, 1.960), (5, 2.728), (10, 3.164)])
def test_the_critical_difference_is_that_of_demsars_table(k, q):
    expected = q * np.sqrt(k * (k + 1) / (6 * 30))
    assert critical_difference(k, 30) == pytest.approx(expected, rel=5e-4)


def test_the_report_holds_tables_and_figures(tmp_path):
    results = benchmark(["wine", "breast-cancer"], entries(), seeds=2, protocol=SMALL, n_jobs=1)
    paths = report(results, tmp_path)
    assert [path.name for path in paths] == [
        "tables.md",
        "critical-difference.png",
        "differences.png",
    ]
    assert all(path.stat().st_size > 500 for path in paths)
    text = tables(results)
    assert "margin + dev" in text.partition("dev labels free")[0]
    # Who trains on dev labels has no curve without them.
    assert "margin + dev" not in text.partition("dev labels free")[2]


def test_the_command_runs_and_draws_again_from_its_table(tmp_path):
    run = CliRunner().invoke(
        app,
        "benchmark -d wine -d breast-cancer -s random -s decision-risk -s bait --seeds 1 --budget 20 "
        f"--jobs 1 --json --out {tmp_path}".split(),
    )
    assert run.exit_code == 0, run.output
    assert {r["strategy"] for r in json.loads(run.stdout)["ranks"]} == {
        "random",
        "decision-risk",
        "bait",
    }
    again = CliRunner().invoke(
        app, f"benchmark --from {tmp_path / 'benchmark.csv'} --out {tmp_path / 'again'}".split()
    )
    assert again.exit_code == 0, again.output
    assert (tmp_path / "again" / "tables.md").read_text() == (tmp_path / "tables.md").read_text()


def test_nothing_to_compare_is_refused():
    with pytest.raises(BadParameter, match="0 datasets"):
        benchmark([], entries())


def test_results_that_are_not_paired_are_refused():
    table = made_up().table
    for part in (
        table[1:],
        pl.concat([table, table[:1]]),
        table.filter(~((pl.col("strategy") == "a") & (pl.col("dataset") == "d0"))),
    ):
        with pytest.raises(BadInput, match=r"was expected|were expected"):
            Areas(part).ranks()


def test_names_are_taken_once_and_as_they_are():
    assert Entry.of("margin + dev") == Entry("margin", "trained")
    with pytest.raises(BadParameter, match="trains on them already"):
        Entry.of("dev/spread + dev")
    with pytest.raises(BadParameter, match="spaces and all"):
        Entry.of("margin + development")
    with pytest.raises(BadParameter, match="goalward simulate"):
        Entry.of("dev/oracle")
    twice = benchmark(
        ["wine", "wine"], entries("random", "random"), seeds=1, protocol=SMALL, n_jobs=1
    )
    assert len(twice.table) == 1


def test_any_strategies_may_be_compared(tmp_path):
    """Also none of the main comparison, or a single one."""
    for names in (["epig", "fisher-ratio"], ["decision-risk"]):
        results = benchmark(["wine"], entries(*names), seeds=2, protocol=SMALL, n_jobs=1)
        assert names[0] in report(results, tmp_path)[0].read_text()
    with pytest.raises(DataMissing, match="could not be read"):
        Areas.read(tmp_path / "nothing.csv")
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(BadInput, match="has no column"):
        Areas.read(tmp_path / "other.csv")


def test_a_store_with_rubbish_in_it_is_read_around(tmp_path):
    options = {"seeds": 1, "protocol": SMALL, "out": tmp_path, "n_jobs": 1}
    first = benchmark(["wine"], entries("random"), **options)
    store = tmp_path / "sessions.jsonl"
    store.write_bytes(
        b'\xff\xfe\x00{"key": "x"}\n[1]\n{"key": "y", "seed": 1}\n' + store.read_bytes() + b"\xc3"
    )
    seen = []
    again = benchmark(["wine"], entries("random"), **options, progress=lambda *at: seen.append(at))
    assert not seen
    assert again.table.equals(first.table)


@pytest.mark.parametrize(
    "options", [{"budget": 0}, {"batch": 0}, {"dev": 0.0}, {"dev": 1.0}, {"pool": 0}]
)
def test_protocols_that_buy_nothing_are_refused(options):
    with pytest.raises(BadParameter, match="was expected"):
        Protocol(**options)


def test_a_budget_of_one_batch_is_refused_before_anything_is_played():
    with pytest.raises(BadParameter, match="two batches"):
        benchmark(["wine"], entries("random"), seeds=1, protocol=Protocol(budget=3), n_jobs=1)


def test_the_published_tables_are_those_of_the_published_areas():
    folder = Path(__file__).parents[2] / "docs" / "benchmark"
    results = Areas.read(folder / "benchmark.csv")
    assert len(results.datasets) == len(DATASETS)
    assert {e.name for e in ENTRIES} == set(results.strategies)
    # The last digit may round the other way elsewhere: numbers are compared, texts must agree.
    number = re.compile(r"-?\d+\.\d+(?:e-\d+)?")
    published, now = ((folder / "tables.md").read_text(), tables(results))
    assert number.sub("#", published) == number.sub("#", now)
    for a, b in zip(number.findall(published), number.findall(now), strict=True):
        assert float(a) == pytest.approx(float(b), abs=0.011, rel=0.02)


def test_the_recommended_strategy_is_first_in_the_published_results():
    """What the documentation says and what studies use."""
    folder = Path(__file__).parents[2] / "docs" / "benchmark"
    results = Areas.read(folder / "benchmark.csv").only(list(MAIN))
    assert results.ranks()["strategy"][0] == RECOMMENDED
    built = recipe(RECOMMENDED).build(pool=np.eye(3))
    assert repr(built) == repr(gw.GoalOriented.recommended(np.eye(3)))
