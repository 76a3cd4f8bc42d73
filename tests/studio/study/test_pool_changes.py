"""The files of a pool change under a running study: it stops, and says why."""

import os
import subprocess
import sys

import numpy as np
import pytest

import goalward as gw
from goalward.errors import PoolChanged


@pytest.fixture
def study(tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "rows.csv").write_text("text\n" + "".join(f"row {i}\n" for i in range(300)))
    np.save(tmp_path / "rows.npy", rng.normal(size=(300, 5)).astype(np.float32))
    study = gw.Study.create(
        tmp_path / "s.db", pool=tmp_path / "rows.csv", classes=["a", "b"], dev=0
    )
    for row in range(20):
        study.tell(row, "ab"[row % 2])
    assert study.refresh() is not None
    study.tell(20, "a")
    return study


def _truncated(path):
    with path.open("rb+") as file:
        file.truncate(path.stat().st_size // 2)


def _written(path):
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    with path.open("rb+") as file:
        file.write(content)
    # As a clock of the file system ticks a few hundred times a second only.
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))


def _saved_again(path):
    np.save(path.with_name("new.npy"), np.zeros((300, 5), dtype=np.float32))
    path.with_name("new.npy").replace(path)


CHANGES = {"truncated": _truncated, "written": _written, "again": _saved_again, "gone": os.unlink}
USES = {
    "refresh": lambda study, out: study.refresh(force=True),
    "ask": lambda study, out: study.ask(refresh=True),
    "why": lambda study, out: study.why(30),
    "export": lambda study, out: study.export(out / "labels.csv"),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("change", CHANGES)
def test_vectors_that_change_stop_the_study(change, use, study, tmp_path):
    before = study.state.seq
    CHANGES[change](tmp_path / "rows.npy")
    with pytest.raises(PoolChanged, match=r"rows\.npy"):
        USES[use](study, tmp_path)
    assert study.state.seq == before
    assert not (tmp_path / "labels.csv").exists()


@pytest.mark.attack("vectors that lie or change")
def test_a_table_that_changes_stops_the_study_too(study, tmp_path):
    _written(tmp_path / "rows.csv")
    with pytest.raises(PoolChanged, match=r"rows\.csv"):
        study.refresh(force=True)


def test_a_file_that_was_touched_or_put_back_is_the_same_file(study, tmp_path):
    path = tmp_path / "rows.npy"
    content = path.read_bytes()
    path.unlink()
    with pytest.raises(PoolChanged):
        study.refresh(force=True)
    path.write_bytes(content)
    first = study.refresh(force=True)
    os.utime(path, ns=(1, 1))
    assert study.refresh(force=True).queue == first.queue


def test_rankings_are_those_of_rows_in_memory(study, tmp_path):
    other = gw.Study.create(
        tmp_path / "memory.db", pool=np.load(tmp_path / "rows.npy"), classes=["a", "b"], dev=0
    )
    for row, label in study.state.labels.items():
        if row == 20:
            other.refresh()  # as there, for whose turn it is
        other.tell(row, label)
    assert study.refresh(force=True).queue == other.refresh(force=True).queue


@pytest.mark.attack("vectors that lie or change")
def test_vectors_that_are_shortened_during_a_round_end_no_process(tmp_path):
    code = f"""
import os, sys
sys.path.insert(0, {os.getcwd()!r})
import numpy as np, goalward as gw
from pathlib import Path
from goalward.errors import PoolChanged
from goalward.studio.study.rounds import StudyRound
home = Path({str(tmp_path)!r})
(home / "rows.csv").write_text("text\\n" + "".join(f"row {{i}}\\n" for i in range(5000)))
np.save(home / "rows.npy", np.random.default_rng(0).normal(size=(5000, 64)))
study = gw.Study.create(home / "s.db", pool=home / "rows.csv", classes=["a", "b"], dev=0)
for row in range(20):
    study.tell(row, "ab"[row % 2])
fit = StudyRound._fitted

def cut(self, labels, **chosen):
    found = fit(self, labels, **chosen)
    os.truncate(home / "rows.npy", 1000)
    return found

StudyRound._fitted = cut
try:
    study.refresh()
except PoolChanged as error:
    print("stopped", error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr)
    assert done.stdout.startswith("stopped")
