"""Sparse matrices that are not what they say: refused at every door, in one sentence."""

import io
import subprocess
import sys
import textwrap
import zipfile
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

import goalward as gw
from goalward import errors
from goalward.core.draws import reference_rows
from goalward.core.pool_files import open_pool
from goalward.core.rows import clean_rows
from goalward.studio.study import pools

ROWS, FEATURES = 12, 6


def _whole(kind=scipy.sparse.csr_array):
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(ROWS, FEATURES))
    dense[0::2, 1], dense[1::3, 4] = 0.0, 0.0
    return kind(dense)


def _set(name, change):
    def spoil(X):
        setattr(X, name, change(getattr(X, name)))
        return X

    return spoil


def _put(array, at, value):
    array = array.copy()
    array[at] = value
    return array


BROKEN = {
    "an index out of range": _set("indices", lambda a: _put(a, 3, 10**6)),
    "an index just out of range": _set("indices", lambda a: _put(a, 3, 99)),
    "a negative index": _set("indices", lambda a: _put(a, 3, -1)),
    "indptr going backwards": _set("indptr", lambda a: _put(a, 2, a[4])),
    "a negative indptr": _set("indptr", lambda a: _put(a, 1, -5)),
    "indptr not from 0": _set("indptr", lambda a: _put(a, 0, 2)),
    "indptr beyond the data": _set("indptr", lambda a: _put(a, -1, 10**7)),
    "indptr too short": _set("indptr", lambda a: a[:-2]),
    "data shorter than indices": _set("data", lambda a: a[:-5]),
    "indices of floats": _set("indices", lambda a: a.astype(float)),
    "data of objects": _set("data", lambda a: a.astype(object)),
    "data of texts": _set("data", lambda a: a.astype("U8")),
    "complex data": _set("data", lambda a: a + 1j),
}


def _columns(X):
    X.indices[0] = 10**6
    return X


def _coordinates(X):
    row, col = X.coords
    X.coords = (row, _put(col, 0, 10**6))
    return X


def _negative(X):
    row, col = X.coords
    X.coords = (_put(row, 0, -1), col)
    return X


def _uneven(X):
    row, col = X.coords
    X.coords = (row, col[:-3])
    return X


def _offsets(X):
    X.offsets = X.offsets[:-1]
    return X


def _lists(X):
    X.data[0] = X.data[0][:-1]
    return X


def _far(X):
    X.rows[0] = [*X.rows[0][:-1], 10**6]
    return X


def _key(X):
    X._dict[(0, 10**6)] = 1.0
    return X


def _blocks(kind):
    return lambda: kind(_whole().tocsr().tobsr(blocksize=(2, 2)))


KINDS = {
    "csr_matrix": (lambda: _whole(scipy.sparse.csr_matrix), _columns),
    "csc_array": (lambda: _whole(scipy.sparse.csc_array), _columns),
    "csc_matrix": (lambda: _whole(scipy.sparse.csc_matrix), _columns),
    "bsr_array": (_blocks(scipy.sparse.bsr_array), _columns),
    "bsr_matrix": (_blocks(scipy.sparse.bsr_matrix), _columns),
    "coo_array": (lambda: _whole(scipy.sparse.coo_array), _coordinates),
    "coo_matrix": (lambda: _whole(scipy.sparse.coo_matrix), _negative),
    "coo of uneven lengths": (lambda: _whole(scipy.sparse.coo_array), _uneven),
    "dia_array": (lambda: _whole(scipy.sparse.dia_array), _offsets),
    "lil_array": (lambda: _whole(scipy.sparse.lil_array), _lists),
    "lil_matrix": (lambda: _whole(scipy.sparse.lil_matrix), _far),
    "dok_array": (lambda: _whole(scipy.sparse.dok_array), _key),
}

LABELS = np.arange(ROWS) % 2


def _model():
    return gw.Logistic().fit(_whole(), LABELS)


def _piped():
    model = make_pipeline(MaxAbsScaler(), LogisticRegression(tol=1e-10)).fit(_whole(), LABELS)
    return gw.adapters.from_sklearn(model, _whole(), LABELS)


def _adopted(X):
    model = LogisticRegression(tol=1e-10).fit(_whole(), LABELS)
    gw.adapters.from_sklearn(model, X, LABELS)


def _modal(X):
    model = LogisticRegression(tol=1e-10).fit(_whole(), LABELS)
    learner = SimpleNamespace(estimator=model, X_training=_whole(), y_training=LABELS)
    gw.adapters.modal_query(gw.goals.DevLoss(_whole(), LABELS))(learner, X, 2)


def _study(X, tmp_path):
    gw.Study.create(tmp_path / "s.db", pool=X, classes=[0, 1])


DOORS = {
    "fit": lambda X, _: gw.Logistic().fit(X, LABELS),
    "C by leave-one-out": lambda X, _: gw.Logistic(C="loo").fit(X, LABELS),
    "classifier": lambda X, _: gw.LogisticClassifier().fit(X, LABELS),
    "predict_proba": lambda X, _: _model().predict_proba(X),
    "predict_proba of a pipeline": lambda X, _: _piped().predict_proba(X),
    "goal with labels": lambda X, _: gw.goals.DevLoss(X, LABELS).value(_model()),
    "goal without": lambda X, _: gw.goals.Entropy(X).value(_model()),
    "reference rows": lambda X, _: reference_rows(X, 5),
    "suggest": lambda X, _: gw.GoalOriented(gw.goals.DevLoss(_whole(), LABELS)).suggest(
        _model(), X, 2
    ),
    "suggest by a pipeline": lambda X, _: gw.GoalOriented(
        gw.goals.DevLoss(_whole(), LABELS)
    ).suggest(_piped(), X, 2),
    "baseline": lambda X, _: gw.strategies.CoreSet().suggest(_model(), X, 2),
    "utility": lambda X, _: gw.utility.FirstOrder()(
        _model(), gw.goals.DevLoss(_whole(), LABELS), X
    ),
    "rank": lambda X, _: gw.scale.rank(X, _model(), gw.goals.DevLoss(_whole(), LABELS), batch=2),
    "study": _study,
    "scikit-learn's model": lambda X, _: _adopted(X),
    "modAL": lambda X, _: _modal(X),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.attack("vectors that lie or change")
def test_every_door_refuses_an_index_outside_the_matrix(door, tmp_path):
    with pytest.raises(errors.BadInput, match="index or a pointer"):
        DOORS[door](BROKEN["an index just out of range"](_whole()), tmp_path)


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_matrix_is_named_before_it_is_read(case):
    with pytest.raises(errors.BadInput, match="sparse matrix"):
        gw.Logistic().fit(BROKEN[case](_whole()), LABELS)


@pytest.mark.parametrize("kind", KINDS)
def test_every_sparse_format_is_checked_and_left_as_it_is(kind):
    make, spoil = KINDS[kind]
    expected = _model().params
    np.testing.assert_allclose(gw.Logistic().fit(make(), LABELS).params, expected, rtol=1e-9)
    with pytest.raises(errors.BadInput, match="sparse matrix"):
        gw.Logistic().fit(spoil(make()), LABELS)


def test_duplicates_add_up_as_they_do_in_scipy():
    X = _whole()
    halves = scipy.sparse.coo_array(
        (np.repeat(X.data / 2, 2), (np.repeat(X.tocoo().row, 2), np.repeat(X.tocoo().col, 2))),
        shape=X.shape,
    )
    indptr, indices = 2 * X.indptr, np.repeat(X.indices, 2)
    twice = scipy.sparse.csr_array((halves.data, indices, indptr), shape=X.shape)
    assert not twice.has_canonical_format
    np.testing.assert_allclose(gw.Logistic().fit(twice, LABELS).params, _model().params, rtol=1e-9)


def test_nan_is_named_by_row_and_column_without_writing_out_the_zeros():
    X = scipy.sparse.csr_array(
        ([1.0, np.nan, 2.0], [5, 10**11, 3], [0, 1, 1, 3]), shape=(3, 10**12)
    )
    with pytest.raises(errors.NotFinite, match=rf"row 2, column {10**11}"):
        clean_rows(X)


@pytest.mark.parametrize("case", [c for c in BROKEN if "data of objects" not in c])
def test_a_broken_file_is_refused_by_open_pool(case, tmp_path):
    X = BROKEN[case](_whole())
    parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr}
    np.savez(tmp_path / "pool.npz", shape=X.shape, format=b"csr", **parts)
    with pytest.raises(errors.DataMissing, match="save_npz"):
        open_pool(tmp_path / "pool.npz")


@pytest.mark.attack("vectors that lie or change")
def test_a_broken_file_ends_no_process(tmp_path):
    """The case that was a segmentation fault."""
    X = BROKEN["an index out of range"](_whole())
    parts = {"data": X.data, "indices": X.indices * 1000, "indptr": X.indptr}
    np.savez(tmp_path / "pool.npz", shape=X.shape, format=b"csr", **parts)
    code = f"""
    import goalward as gw, numpy as np
    from goalward.errors import DataMissing
    try:
        pool = gw.scale.open_pool({str(tmp_path / "pool.npz")!r})
        fitted = gw.Logistic().fit(np.eye(6), [0, 1] * 3)
        gw.scale.rank(pool, fitted, gw.goals.DevLoss(np.eye(6), [0, 1] * 3), batch=2)
    except DataMissing:
        print("refused")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, "refused"), done.stderr


def _bomb(path):
    """A few kilobytes that declare, and hold, 200 MB."""
    np.savez_compressed(
        path,
        shape=(4, 5),
        format=b"csr",
        data=np.zeros(25_000_000),
        indices=np.zeros(4, np.int32),
        indptr=np.zeros(5, np.int32),
    )


def _lying(path):
    """A header that asks for 73 TiB, in an archive that is whole."""
    np.savez(path, shape=(4, 5), format=b"csr", indices=np.zeros(4), indptr=np.zeros(5))
    header = io.BytesIO()
    large = {"descr": "<f8", "fortran_order": False, "shape": (10**13,)}
    np.lib.format.write_array_header_1_0(header, large)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("data.npy", header.getvalue() + bytes(100))


def _empty_rows(path):
    """A matrix of three numbers and 10¹¹ rows, whose pointers alone are 800 GB."""
    np.savez(
        path, shape=(10**11, 5), format=b"coo", row=[0, 1, 2], col=[0, 1, 2], data=[1.0, 2.0, 3.0]
    )


def _cut(path):
    scipy.sparse.save_npz(path, _whole())
    path.write_bytes(path.read_bytes()[:-40])


def _flipped(path):
    scipy.sparse.save_npz(path, _whole(), compressed=False)
    content = bytearray(path.read_bytes())
    content[content.index(b"NUMPY") + 200] ^= 255
    path.write_bytes(content)


def _objects(path):
    np.savez(
        path,
        shape=(1, 1),
        format=b"csr",
        data=np.array([{}], object),
        indices=[0],
        indptr=[0, 1],
        allow_pickle=True,
    )


@pytest.mark.heavy
@pytest.mark.parametrize("make", [_bomb, _lying, _empty_rows, _cut, _flipped, _objects])
@pytest.mark.attack("vectors that lie or change")
def test_an_archive_is_measured_before_it_is_unpacked(make, tmp_path):
    path = tmp_path / "pool.npz"
    make(path)
    code = f"""
    import resource
    import goalward as gw
    from goalward.errors import DataMissing
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        gw.scale.open_pool({str(path)!r})
    except DataMissing as error:
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    kilobytes, message = done.stdout.split(maxsplit=1)
    assert int(kilobytes) < 100_000
    assert "save_npz" in message


def test_very_many_columns_cost_nothing(tmp_path):
    X = scipy.sparse.csr_array(([1.0, 2.0], [5, 10**11], [0, 1, 2]), shape=(2, 10**12))
    scipy.sparse.save_npz(tmp_path / "wide.npz", X)
    pool = open_pool(tmp_path / "wide.npz")
    assert pool.shape == (2, 10**12)
    with pytest.raises(errors.ShapeMismatch, match="must have 6 features"):
        gw.scale.rank(pool, _model(), gw.goals.DevLoss(_whole(), LABELS), batch=1)


@pytest.mark.parametrize("case", ["a negative index", "indptr going backwards"])
def test_a_study_checks_the_sparse_rows_it_stored(case):
    X = BROKEN[case](_whole())
    blobs = {}

    def kept(array, dtype):
        content = array.astype(dtype).tobytes()
        blobs[sha256(content).hexdigest()] = content
        return {"dtype": dtype, "shape": list(array.shape), "parts": [sha256(content).hexdigest()]}

    arrays = [kept(X.data, "<f8"), kept(X.indices, "<i8"), kept(X.indptr, "<i8")]
    stored = {"kind": "sparse", "n_rows": ROWS, "shape": list(X.shape), "arrays": arrays}
    journal = SimpleNamespace(blob=blobs.__getitem__, name="s.db", path=Path("s.db"))
    with pytest.raises(errors.Damaged, match=r"index|indptr"):
        pools.PoolLoader(journal, lambda: stored, None, lambda message: None).load()
