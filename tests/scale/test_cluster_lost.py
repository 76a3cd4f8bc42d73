"""A cluster that goes away, or reads other rows: a clear error soon, never other rows."""

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

import goalward as gw
from goalward import errors
from goalward.labels import Spread
from goalward.scale import open_pool, rank
from tests.conftest import need

need("distributed")
from tests.scale.test_cluster import Slow  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # Dask's own

LONG = 120.0
"""Seconds that anything may take on a busy machine."""


@pytest.fixture
def processes(tmp_path):
    """A scheduler and two workers that nobody starts again, and a client of theirs."""
    import distributed

    place = tmp_path / "scheduler.json"
    run = [sys.executable, "-W", "ignore", "-m"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    options = ["--scheduler-file", str(place), "--no-dashboard"]
    scheduler = subprocess.Popen(
        [*run, "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", *options],
        **quiet,
    )
    started = [scheduler]
    try:
        _until(place.exists)
        worker = [*run, "distributed.cli.dask_worker", "--no-nanny", "--nthreads", "1", *options]
        started += [subprocess.Popen(worker, **quiet) for _ in range(2)]
        with distributed.Client(scheduler_file=str(place), timeout=LONG) as client:
            client.wait_for_workers(2, timeout=LONG)
            # Tests need not wait as long as people with a slow network.
            client._timeout = 1
            yield client, scheduler, started[1:]
    finally:
        for process in started:
            process.kill()
            process.wait()


def _until(condition):
    deadline = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _kill(processes):
    for process in processes:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr("goalward.scale.cluster.PATIENCE", 1.0)


@pytest.mark.usefixtures("impatient")
@pytest.mark.attack("workers killed, or gone for good")
def test_workers_that_all_die_are_missed(processes, setting):
    client, _, workers = processes
    fitted, goal, pool = setting
    killed = []

    def progress(done, total):
        if not killed and done < total:
            killed.extend(workers)
            _kill(workers)

    options = {"batch": 25, "client": client, "block": 1024}
    with pytest.raises(errors.ClusterLost, match="no worker"):
        rank(pool, fitted, goal, operator=Slow(), progress=progress, **options)
    assert killed
    # Those who come too late hear the same.
    with pytest.raises(errors.ClusterLost, match="no worker"):
        rank(pool, fitted, goal, operator=Spread(), **options)
    with pytest.raises(errors.ClusterLost, match="no worker"):
        rank(pool, fitted, _pieces(pool), operator=Spread(), **options)


def _pieces(pool):
    return sum((gw.goals.Entropy(pool.part(a, a + 9000)) for a in (9000, 18000)), _first(pool))


def _first(pool):
    return 1.0 * gw.goals.Entropy(pool.part(0, 9000))


@pytest.mark.usefixtures("impatient")
@pytest.mark.attack("workers killed, or gone for good")
def test_a_scheduler_that_dies_is_missed(processes, setting):
    client, scheduler, _ = processes
    fitted, goal, pool = setting
    killed = []

    def progress(done, total):
        if not killed and done < total:
            killed.append(scheduler)
            _kill([scheduler])

    options = {"batch": 25, "client": client, "block": 1024}
    with pytest.raises(errors.ClusterLost, match="scheduler"):
        rank(pool, fitted, goal, operator=Slow(), progress=progress, **options)
    assert killed
    with pytest.raises(errors.ClusterLost, match="scheduler"):
        rank(pool, fitted, goal, operator=Spread(), **options)


class Taken:
    """A part that was done, by a worker that died before anybody fetched it."""

    status = "finished"

    def __init__(self, times):
        self.times = times

    def result(self, timeout):
        self.times -= 1
        if self.times >= 0:
            raise TimeoutError
        return "done"


@pytest.mark.usefixtures("impatient")
def test_what_a_dead_worker_had_done_is_done_again_or_missed(monkeypatch):
    from goalward.scale.cluster import finished

    monkeypatch.setattr("distributed.wait", lambda *_, **__: time.sleep(0.01))
    part = Taken(times=1)
    others = SimpleNamespace(status="running", nthreads=lambda **_: {"tcp://a": 1})
    assert list(finished(others, [part])) == [(part, "done")]
    nobody = SimpleNamespace(status="running", nthreads=lambda **_: {})
    with pytest.raises(errors.ClusterLost, match="no worker"):
        list(finished(nobody, [Taken(times=float("inf"))]))


def test_a_client_that_was_closed_is_refused(setting):
    import distributed

    fitted, goal, pool = setting
    with distributed.LocalCluster(
        n_workers=0, dashboard_address=":0", silence_logs=50, processes=False
    ) as cluster:
        client = distributed.Client(cluster)
        client.close()
        with pytest.raises(errors.ClusterLost, match="scheduler"):
            rank(pool, fitted, goal, client=client)


def test_an_address_where_nobody_listens_is_an_error(monkeypatch, tmp_path, setting):
    from typer.testing import CliRunner

    from goalward.cli import app
    from goalward.scale.cluster import connected

    with pytest.raises(errors.ClusterLost, match=r"tcp://127\.0\.0\.1:1\b"):
        connected("tcp://127.0.0.1:1", timeout=0.5)
    with pytest.raises(errors.BadParameter, match="tcp://host:8786"):
        connected("nowhere://at all", timeout=0.5)
    monkeypatch.setattr("goalward.scale.cluster.TIMEOUT", 0.5)
    (tmp_path / "labels.csv").write_text(
        "row,label\n" + "".join(f"{i},{i % 2}\n" for i in range(9))
    )
    _, _, pool = setting
    command = ["rank", pool.path, "--labels", str(tmp_path / "labels.csv")]
    done = CliRunner().invoke(app, [*command, "--scheduler", "tcp://127.0.0.1:1"])
    assert isinstance(done.exception, (errors.ClusterLost, SystemExit))
    assert "tcp://127.0.0.1:1" in f"{done.output}{done.exception}"


@pytest.fixture
def elsewhere(client, setting, tmp_path, monkeypatch):
    """The client in one folder and the workers in another, each with a pool of its own."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    fitted, goal, pool = setting
    shutil.copy2(pool.path, here / "pool.npy")
    home = os.getcwd()
    monkeypatch.chdir(here)
    client.run(os.chdir, str(there))
    mine = replace(open_pool("pool.npy"), path="pool.npy")
    yield fitted, goal, mine, here / "pool.npy", there / "pool.npy"
    client.run(os.chdir, home)


def _other_bytes(mine, theirs):
    content = bytearray(mine.read_bytes())
    content[len(content) // 2] ^= 1
    theirs.write_bytes(content)
    stamp = mine.stat()
    os.utime(theirs, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))


@pytest.mark.attack("other bytes on a worker")
def test_other_bytes_of_the_same_size_and_time_are_noticed(client, elsewhere):
    fitted, goal, pool, mine, theirs = elsewhere
    _other_bytes(mine, theirs)
    with pytest.raises(errors.DataMissing, match="other rows"):
        rank(pool, fitted, goal, operator=Spread(), client=client)


def test_a_file_that_a_worker_does_not_have_is_an_error(client, elsewhere):
    fitted, goal, pool, _, _ = elsewhere
    with pytest.raises(errors.DataMissing, match=r"pool\.npy.*worker"):
        rank(pool, fitted, goal, operator=Spread(), client=client)


@pytest.mark.attack("other bytes on a worker")
def test_bytes_that_change_between_two_rounds_are_noticed(client, elsewhere):
    fitted, goal, pool, mine, theirs = elsewhere
    shutil.copyfile(mine, theirs)  # another time, the same bytes
    alone = rank(pool, fitted, goal, operator=Spread())
    for _ in range(2):
        many = rank(pool, fitted, goal, operator=Spread(), client=client)
        assert many.rows.tolist() == alone.rows.tolist()
    stamp = theirs.stat()
    with theirs.open("rb+") as file:
        file.seek(-8, 2)
        file.write(bytes(8))
    os.utime(theirs, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    with pytest.raises(errors.DataMissing, match="other rows"):
        rank(pool, fitted, goal, operator=Spread(), client=client)
