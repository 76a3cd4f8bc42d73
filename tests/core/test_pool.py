"""Whatever holds the rows, a pool gives the same ones."""

from importlib import import_module

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse

from goalward.core.arrays import to_numpy
from goalward.core.files import NpyFile
from goalward.core.pool import as_pool, n_rows, take_rows
from goalward.core.pool_files import open_pool
from goalward.errors import BadInput, Empty, ShapeMismatch, Unsupported
from tests.conftest import need, some_heavy

X = np.arange(21.0).reshape(7, 3)


def tensor(x):
    need("torch")
    return import_module("torch").asarray(x)


def saved(folder):
    np.save(folder / "pool.npy", X)
    return folder / "pool.npy"


KINDS = {
    "array": lambda folder: X,
    "list": lambda folder: X.tolist(),
    "map": lambda folder: np.load(saved(folder), mmap_mode="r"),
    "rows of a file": lambda folder: NpyFile(saved(folder)),
    "file": lambda folder: open_pool(saved(folder)),
    "torch": lambda folder: tensor(X),
    "csr": lambda folder: scipy.sparse.csr_array(X),
    "csc": lambda folder: scipy.sparse.csc_array(X),
    "coo": lambda folder: scipy.sparse.coo_array(X),
    "pandas": lambda folder: pd.DataFrame(X, index=list("gfedcba")),
    "polars": lambda folder: pl.DataFrame(X),
}


def dense(rows):
    return rows.toarray() if scipy.sparse.issparse(rows) else to_numpy(rows)


@pytest.fixture(params=some_heavy(KINDS, ["torch"]))
def given(request, tmp_path):
    return KINDS[request.param](tmp_path)


def test_every_kind_of_pool_gives_the_same_rows(given):
    pool = as_pool(given)
    assert (len(pool), pool.width, pool.ids()) == (7, 3, None)
    assert np.array_equal(dense(pool.part(2, 5)), X[2:5])
    assert np.array_equal(dense(pool.take(np.array([6, 0, 2]))), X[[6, 0, 2]])
    seen = [(where, dense(rows)) for where, rows in pool.blocks(3)]
    assert [where for where, _ in seen] == [slice(0, 3), slice(3, 6), slice(6, 7)]
    assert np.array_equal(np.vstack([rows for _, rows in seen]), X)
    assert as_pool(pool) is pool


def test_functions_of_rows_are_those_of_the_pool(given):
    assert n_rows(given) == 7
    assert np.array_equal(dense(take_rows(given, np.array([3, 1]))), X[[3, 1]])
    assert np.array_equal(np.vstack([dense(rows) for _, rows in as_pool(given).blocks(4)]), X)


def test_frames_stay_frames_and_only_files_are_on_disk(given):
    pool = as_pool(given)
    if type(given).__module__.startswith(("pandas", "polars")):
        assert type(pool.part(0, 2)) is type(given)
    assert pool.on_disk == (type(given).__name__ == "PoolFile")


@pytest.mark.parametrize(
    "kind", some_heavy(["array", "list", "map", "rows of a file", "file", "torch"], ["torch"])
)
def test_size_and_type_of_dense_rows_are_known(kind, tmp_path):
    pool = as_pool(KINDS[kind](tmp_path))
    assert pool.n_bytes == X.nbytes
    assert str(pool.dtype).endswith("float64")


def test_the_size_of_frames_is_not_known_and_that_of_sparse_rows_is_what_they_hold():
    assert as_pool(pd.DataFrame(X)).n_bytes is None
    sparse = scipy.sparse.csr_array(X)
    stored = (sparse.data, sparse.indices, sparse.indptr)
    assert as_pool(sparse).n_bytes == sum(array.nbytes for array in stored)


@pytest.mark.parametrize("kind", ["array", "file"])
def test_rows_are_read_into_place(kind, tmp_path):
    target = np.zeros((2, 3))
    as_pool(KINDS[kind](tmp_path)).read_into(target, 4)
    assert np.array_equal(target, X[4:6])


def test_rows_of_texts_have_no_width():
    pool = as_pool(["a", "b", "c"])
    assert (len(pool), pool.width) == (3, None)
    assert pool.part(1, 3).tolist() == ["b", "c"]


def test_pools_that_hold_no_rows_of_numbers_are_refused():
    with pytest.raises(Unsupported, match="masked"):
        as_pool(np.ma.masked_array(X, mask=X > 3))
    with pytest.raises(Empty, match="no rows"):
        as_pool(X[:0]).blocks(2)
    with pytest.raises(ShapeMismatch, match="single number"):
        len(as_pool(np.array(1.0)))
    wrong = scipy.sparse.csr_array(X)
    wrong.indices[0] = 99
    with pytest.raises(BadInput, match="X_pool is a sparse"):
        as_pool(wrong)
