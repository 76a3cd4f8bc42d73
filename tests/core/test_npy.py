"""Files of numbers that are shortened, written over or replaced while they are in use."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import goalward as gw
from goalward import errors
from goalward.core.files import NpyFile
from goalward.scale import open_pool, rank
from tests.scale.setting import setting


@pytest.fixture
def path(tmp_path):
    np.save(tmp_path / "pool.npy", np.arange(12_000.0).reshape(3000, 4))
    return tmp_path / "pool.npy"


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f4", ">f8", "<i2", "|u1"])
def test_rows_are_those_of_the_array(order, dtype, tmp_path):
    X = np.arange(240, dtype=dtype).reshape(60, 4)
    np.save(tmp_path / "a.npy", np.asarray(X, order=order))
    rows = NpyFile(tmp_path / "a.npy")
    assert (rows.shape, rows.dtype, len(rows)) == (X.shape, X.dtype, 60)
    mask = np.arange(60) % 7 == 0
    none = np.array([], dtype=int)
    for index in (slice(3, 9), slice(50, 2, -5), slice(9, 3), 5, -1, [7, 7, -60, 2], mask, none):
        np.testing.assert_array_equal(rows[index], X[index])
    np.testing.assert_array_equal(np.asarray(rows), X)
    np.testing.assert_array_equal(rows[2:5, ...], X[2:5])
    with pytest.raises(errors.Unsupported, match="by rows only"):
        rows[2:5, 1]
    target = np.empty((5, 4))
    rows.fill(target, 10)
    np.testing.assert_array_equal(target, X[10:15])
    for index in (60, -61, [0, 60], mask[:5]):
        with pytest.raises(IndexError):
            rows[index]


def _truncated(path):
    with path.open("rb+") as file:
        file.truncate(5000)


def _written(path):
    np.lib.format.open_memmap(path, mode="r+")[7] = -1.0
    # As a clock of the file system ticks a few hundred times a second only.
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))


def _replaced(path):
    other = path.with_name("other.npy")
    np.save(other, np.ones((3000, 4)))
    os.utime(other, ns=(0, path.stat().st_mtime_ns))
    other.replace(path)


CHANGES = {"truncated": _truncated, "written": _written, "replaced": _replaced, "gone": os.unlink}


@pytest.mark.parametrize("change", CHANGES)
def test_a_pool_file_that_changes_is_noticed_at_the_next_read(change, path):
    pool = open_pool(path)
    pool[0:5]
    CHANGES[change](path)
    fitted = gw.Logistic().fit(np.eye(4), [0, 1, 0, 1])
    goal = gw.goals.Entropy(pool)
    reads = (lambda: pool[0:5], lambda: pool[[1, 2]], lambda: pool.part(5, 9)[:])
    for read in (*reads, lambda: goal.value(fitted)):
        with pytest.raises(errors.DataMissing, match="has changed, or is gone"):
            read()


@pytest.mark.attack("vectors that lie or change")
def test_a_file_that_changes_during_a_scan_stops_it(path):
    fitted, goal, pool = setting(n_pool=40_000)
    np.save(path, pool)
    seen = []

    def progress(done, total):
        seen.append(done)
        if len(seen) == 1:
            _written(path)

    with pytest.raises(errors.DataMissing, match="has changed"):
        rank(open_pool(path), fitted, goal, block=500, progress=progress)
    assert len(seen) == 1


SHORTENED = """
import os, signal
import numpy as np, goalward as gw
from goalward.errors import DataMissing
from goalward.core.files import NpyFile
from goalward.scale import open_pool, rank

path = {path!r}
rng = np.random.default_rng(0)
X, y = rng.normal(size=(60, 64)), np.arange(60) % 3
np.save(path, rng.normal(size=(40_000, 64)).astype(np.float32))
fitted, goal = gw.Logistic().fit(X, y), gw.goals.DevLoss(X, y)

def cut(*_):
    os.truncate(path, 4096)

{body}
"""

SCAN = """
try:
    rank(open_pool(path), fitted, goal, block=1024, progress=cut)
except DataMissing as error:
    print("stopped", error)
"""

KEPT = """
# A block that was read before stays what it was.
block = open_pool(path)[0:20_000]
before = block.sum()
cut()
assert block.sum() == before
print("stopped")
"""

DURING = """
# Between the check of the file and the read of its bytes.
rows = NpyFile(path)
fill = rows._fill

def late(*arguments):
    cut()
    fill(*arguments)

rows._fill = late
try:
    rows.rows(0, 40_000)
except DataMissing as error:
    print("stopped", error)
"""


@pytest.mark.parametrize("body", [SCAN, KEPT, DURING], ids=["scan", "kept", "during a read"])
@pytest.mark.attack("vectors that lie or change")
def test_a_file_that_is_shortened_is_an_error_and_no_signal(body, tmp_path):
    code = SHORTENED.format(path=str(tmp_path / "pool.npy"), body=textwrap.dedent(body))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr)
    assert done.stdout.startswith("stopped")


@pytest.mark.attack("vectors that lie or change")
def test_a_header_that_asks_for_more_than_is_there_is_refused(tmp_path):
    for name, shape in (("large", (10**13, 1)), ("wide", (2**62, 2**62)), ("off", (-1, 4))):
        with (tmp_path / f"{name}.npy").open("wb") as file:
            large = {"descr": "<f8", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, large)
            file.write(bytes(800))
        with pytest.raises(errors.DataMissing, match="plain numbers"):
            open_pool(tmp_path / f"{name}.npy")
        (tmp_path / "t.csv").write_text("text\na\nb\n")
        with pytest.raises(errors.BadInput, match="plain array"):
            gw.tables.Table(
                tmp_path / "t.csv", text="text", embeddings=str(tmp_path / f"{name}.npy")
            ).load()
