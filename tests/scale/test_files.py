"""Pools that stay on disk: the rows of the array, from every kind of file."""

import subprocess
import sys

import numpy as np
import polars as pl
import pytest
import scipy.sparse

import goalward as gw
from goalward import errors
from goalward.labels import Spread
from goalward.scale import open_pool, rank
from tests.scale.setting import TURNS, setting


def _formats(tmp_path, pool):
    names = [f"x{j}" for j in range(pool.shape[1])]
    table = pl.DataFrame(pool, schema=names).with_columns(pl.int_range(pl.len()).alias("id"))
    vectors = pl.DataFrame(
        {"v": pl.Series(pool.tolist(), dtype=pl.Array(pl.Float64, pool.shape[1]))}
    )
    np.save(tmp_path / "pool.npy", pool)
    table.write_parquet(tmp_path / "wide.parquet", row_group_size=700)
    vectors.write_parquet(tmp_path / "vectors.parquet")
    vectors.with_columns(pl.col("v").cast(pl.List(pl.Float64))).write_parquet(
        tmp_path / "lists.parquet"
    )
    table.write_ipc(tmp_path / "wide.arrow")
    yield "npy", open_pool(tmp_path / "pool.npy")
    yield "columns", open_pool(tmp_path / "wide.parquet", columns=names)
    yield "ids", open_pool(tmp_path / "wide.parquet", ids="id")
    yield "vectors", open_pool(tmp_path / "vectors.parquet")
    yield "lists", open_pool(tmp_path / "lists.parquet")
    yield "arrow", open_pool(tmp_path / "wide.arrow", columns=names)
    scipy.sparse.save_npz(tmp_path / "pool.npz", scipy.sparse.csr_array(pool))
    yield "sparse", open_pool(tmp_path / "pool.npz")


def test_every_format_gives_the_rows_of_the_array(tmp_path):
    fitted, goal, pool = setting()
    expected = rank(pool, fitted, goal, operator=Spread(), batch=20)
    seen = []
    for name, source in _formats(tmp_path, pool):
        ranking = rank(source, fitted, goal, operator=Spread(), batch=20)
        assert ranking.rows.tolist() == expected.rows.tolist(), name
        seen.append(name)
        if name != "sparse":
            order = np.array([5, 2, 5, 2999])
            np.testing.assert_allclose(source[order], pool[order], err_msg=name)
            np.testing.assert_allclose(source.part(10, 30)[5:7], pool[15:17], err_msg=name)
    assert len(seen) == 7


def test_ids_name_rows_and_exclude_them(tmp_path):
    fitted, goal, pool = setting()
    names = [f"doc-{i}" for i in range(len(pool))]
    table = pl.DataFrame(pool, schema=[f"x{j}" for j in range(6)])
    table.with_columns(pl.Series("id", names)).write_parquet(tmp_path / "pool.parquet")
    source = open_pool(tmp_path / "pool.parquet", ids="id")
    first = rank(source, fitted, goal, batch=3)
    assert first.rows.tolist() == [names[i] for i in first.positions]
    again = rank(source, fitted, goal, batch=3, exclude=first.rows)
    assert not set(again.rows) & set(first.rows)
    with pytest.raises(errors.BadParameter, match="not in the pool"):
        rank(source, fitted, goal, exclude=["doc-x"])


def test_sequential_picks_from_the_best_rows_of_a_file(tmp_path):
    fitted, goal, pool = setting()
    np.save(tmp_path / "pool.npy", np.concatenate([pool, pool]))
    options = {"operator": Spread(), "batch": 10}
    source = open_pool(tmp_path / "pool.npy")
    top = rank(source, fitted, goal, **options)
    picked = rank(source, fitted, goal, selection=gw.selection.Sequential(), **options)
    assert len({r % 3000 for r in top.rows}) == 5  # every row comes with its copy
    assert len({r % 3000 for r in picked.rows}) == 10


def test_a_dev_goal_over_a_file_keeps_labels_and_weights_with_their_rows(tmp_path):
    fitted, _, pool = setting()
    rng = np.random.default_rng(1)
    y, weights = rng.integers(3, size=len(pool)), rng.random(len(pool))
    np.save(tmp_path / "pool.npy", pool)
    parts = gw.goals.DevLoss(open_pool(tmp_path / "pool.npy"), y, weights=weights)
    whole = gw.goals.DevLoss(pool, y, weights=weights)
    assert parts.value(fitted) == pytest.approx(whole.value(fitted), rel=1e-12)
    np.testing.assert_allclose(parts.gradient(fitted), whole.gradient(fitted), rtol=1e-9, atol=1e-9)


def _bad(tmp_path):
    pool = np.zeros((50, 6))
    np.save(tmp_path / "cut.npy", pool)
    (tmp_path / "cut.npy").write_bytes((tmp_path / "cut.npy").read_bytes()[:-100])
    np.save(tmp_path / "narrow.npy", pool[:, :4])
    np.save(tmp_path / "flat.npy", pool[:, 0])
    np.save(tmp_path / "texts.npy", np.array([["a", "b"]]))
    np.save(tmp_path / "objects.npy", np.array([[{}]], dtype=object), allow_pickle=True)
    (tmp_path / "cut.parquet").write_bytes(b"PAR1 and then nothing")
    (tmp_path / "rows.txt").write_text("1 2 3")
    (tmp_path / "not.npz").write_bytes(b"nothing")
    pl.DataFrame({"t": ["a", "b"]}).write_parquet(tmp_path / "texts.parquet")
    return {
        "cut.npy": (errors.DataMissing, "cut off"),
        "narrow.npy": (errors.ShapeMismatch, "6 features.*got 4"),
        "flat.npy": (errors.ShapeMismatch, "shape"),
        "texts.npy": (errors.ShapeMismatch, "numbers"),
        "objects.npy": (errors.DataMissing, "plain numbers"),
        "cut.parquet": (errors.DataMissing, "whole table"),
        "rows.txt": (errors.DataMissing, "must end in"),
        "not.npz": (errors.DataMissing, "save_npz"),
        "gone.npy": (errors.DataMissing, "no pool file"),
        "texts.parquet": (errors.ShapeMismatch, "1 feature"),
    }


def test_files_that_are_wrong_fail_before_any_score(tmp_path):
    fitted, goal, _ = setting()
    done = []
    for name, (error, message) in _bad(tmp_path).items():
        with pytest.raises(error, match=message):
            rank(tmp_path / name, fitted, goal, progress=lambda *a: done.append(a))
    assert done == []


def test_a_file_that_changes_under_the_reader_is_noticed(tmp_path):
    np.save(tmp_path / "pool.npy", np.zeros((50, 6)))
    source = open_pool(tmp_path / "pool.npy")
    np.save(tmp_path / "pool.npy", np.zeros((49, 6)))
    with pytest.raises(errors.DataMissing, match="has changed"):
        source[0:5]


def test_memory_stays_bounded_while_a_large_file_is_read(tmp_path):
    """A 400 MB file, mapped: what the process itself allocates stays far below its size."""
    path = tmp_path / "pool.npy"
    file = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(500_000, 200))
    file[::1000] = 1.0
    file.flush()
    code = f"""
import numpy as np, tracemalloc, goalward as gw
from goalward.scale import open_pool, rank
rng = np.random.default_rng(0)
X, y = rng.normal(size=(60, 200)), np.arange(60) % 5
fitted, goal = gw.Logistic().fit(X, y), gw.goals.DevLoss(X, y)
pool = open_pool({str(path)!r})
rank(pool.part(0, 1000), fitted, goal)
tracemalloc.start()
rank(pool, fitted, goal, operator=gw.labels.Spread())
print(tracemalloc.get_traced_memory()[1])
for text in {TURNS!r}:
    strategy = gw.recipe(text.replace("4000", "500")).build(pool=pool)
    tracemalloc.reset_peak()
    rank(pool, fitted, strategy=strategy)
    print(tracemalloc.get_traced_memory()[1])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first_order, *turns = map(int, done.stdout.split())
    assert first_order < 40 * 2**20
    # A block, and a short list: 1,000 forms of 804 unknowns, 500 similarities with 1,000 rows.
    assert max(turns) < 120 * 2**20


def test_duplicate_ids_are_refused_as_everywhere(tmp_path):
    fitted, goal, pool = setting(n_pool=20)
    names = ["a", "a", *(f"r{i}" for i in range(18))]
    table = pl.DataFrame(pool, schema=[f"x{j}" for j in range(6)])
    table.with_columns(pl.Series("id", names)).write_parquet(tmp_path / "pool.parquet")
    with pytest.raises(errors.DuplicateRows, match="'a' more than once"):
        rank(open_pool(tmp_path / "pool.parquet", ids="id"), fitted, goal, batch=2)


def test_rows_of_a_file_are_taken_like_those_of_an_array(tmp_path):
    X = np.arange(200.0).reshape(50, 4)
    np.save(tmp_path / "pool.npy", np.asfortranarray(X))
    part = open_pool(tmp_path / "pool.npy").part(10, 20)
    np.testing.assert_array_equal(part[[-1, 0]], X[[19, 10]])
    np.testing.assert_array_equal(part[3], X[13])
    np.testing.assert_array_equal(part[2:8:3], X[12:18:3])
    np.testing.assert_array_equal(part[5:2], X[:0])
    np.testing.assert_array_equal(list(part), X[10:20])
    for index in (10, -11, [0, 10]):
        with pytest.raises(IndexError):
            part[index]
    with pytest.raises(errors.Unsupported, match="by rows only"):
        part[0:4, 0:2]
    np.testing.assert_array_equal(part[::-1], X[10:20][::-1])
