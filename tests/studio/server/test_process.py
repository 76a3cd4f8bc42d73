"""The process that fits, without a server: what it tells, what it raises, and how it ends."""

import io
import os
import signal
import threading

import pytest

from goalward.errors import BadParameter, GoalwardError
from tests.conftest import need
from tests.studio.server.conftest import truth, until

need("fastapi")

from goalward.studio.server import process  # noqa: E402
from goalward.studio.server.process import Process, RemoteRefitter  # noqa: E402


@pytest.fixture
def remote(study, monkeypatch):
    """A refitter whose process is its own."""
    monkeypatch.setattr(process, "PROCESS", Process())
    told = threading.Event()
    refitter = RemoteRefitter(study, told.set)
    yield refitter
    refitter.close()
    if (child := process.PROCESS._child) is not None:
        child.stdin.close()
        assert child.wait(60) == 0


def answer(study, n=12):
    for row in study.ask(n, refresh=False):
        study.tell(row, truth(study.show(row)["text"]))


def test_it_ranks_what_another_process_answered(study, remote):
    answer(study)
    remote.start()
    until(lambda: study.state.ranking is not None and not remote.busy)
    assert remote.ready
    assert remote.trouble is None
    rounds = study.state.n_rounds
    answer(study, 20)
    remote.nudge()
    until(lambda: study.state.n_rounds > rounds)
    assert remote.compute("why", row=3)["row"] == 3


def test_features_that_are_there_are_told_of_before_any_fit(study, remote):
    study.tell(0, "good")  # one class: no model can be fitted
    remote.start()
    until(lambda: remote.ready)
    assert study.state.ranking is None
    assert sorted(remote.compute("unlike", rows=[3, 1, 2])) == [1, 2, 3]


def test_errors_there_are_errors_here(study, remote, tmp_path):
    answer(study)
    remote.start()
    until(lambda: study.state.ranking is not None)
    with pytest.raises(BadParameter, match="row must be a whole number"):
        remote.compute("why", row=10**6)
    with pytest.raises(GoalwardError, match="KeyError"):
        remote.compute("nothing")
    # And it goes on.
    target = tmp_path / "labels.csv"
    assert remote.compute("export", path=str(target)) == study.state.n_labels
    assert target.exists()


def test_killed_it_says_so_and_starts_again_with_the_next_answer(study, remote):
    answer(study)
    remote.start()
    until(lambda: study.state.ranking is not None)
    first = process.PROCESS._child
    waiting = []

    def ask():
        try:
            remote.compute("unlike", rows=list(range(100)))
        except GoalwardError as error:
            waiting.append(str(error))

    os.kill(first.pid, signal.SIGSTOP)
    asking = threading.Thread(target=ask)
    asking.start()
    until(lambda: process.PROCESS._waiting)
    os.kill(first.pid, signal.SIGKILL)
    asking.join(60)
    assert waiting == [process.GONE]
    until(lambda: remote.trouble == process.GONE)
    assert not remote.busy
    rounds = study.state.n_rounds
    answer(study, 20)
    remote.nudge()
    until(lambda: study.state.n_rounds > rounds and remote.trouble is None)
    assert process.PROCESS._child.pid != first.pid


def test_a_study_that_cannot_be_opened_is_told_and_tried_again(study, remote):
    answer(study)
    there = study._ledger.store.path
    there.rename(there.with_suffix(".away"))
    remote.start()
    until(lambda: remote.trouble)
    assert "no study" in remote.trouble.lower()
    there.with_suffix(".away").rename(there)
    remote.nudge()
    until(lambda: study.state.ranking is not None)
    until(lambda: remote.trouble is None)


def test_closed_it_lets_go_of_the_study(study, remote):
    answer(study)
    remote.start()
    until(lambda: remote.ready)
    remote.close()
    assert remote.key not in process.PROCESS.refitters
    remote.nudge()  # of a study that is closed: nothing is sent
    assert process.PROCESS._child.poll() is None


class Child:
    """A process that says what a test writes, and ends when it says so."""

    def __init__(self):
        out, into = os.pipe()
        self.stdout, self.said, self.stdin = os.fdopen(out), os.fdopen(into, "w"), io.StringIO()
        self.code = None

    def poll(self):
        return self.code

    wait = poll

    def end(self, last=""):
        self.code = -9
        if not self.said.closed:
            self.said.write(last)
            self.said.close()


@pytest.fixture
def children(monkeypatch):
    """Every process that is started, none of them a real one."""
    started = []
    popen = lambda *command, **options: started.append(Child()) or started[-1]
    monkeypatch.setattr(process.subprocess, "Popen", popen)
    yield started
    for child in started:
        child.end()
    until(lambda: all(child.stdout.closed for child in started))


def called(calls):
    """Call a process; the list that is returned gets its answer, or the error."""
    heard = []

    def call():
        try:
            heard.append(calls.call(key=1, do="compute"))
        except GoalwardError as error:
            heard.append(str(error))

    threading.Thread(target=call, daemon=True).start()
    return heard


def test_the_end_of_one_process_fails_no_call_to_the_next(children):
    calls = Process()
    first = called(calls)
    until(lambda: children and children[0].stdin.getvalue())
    children[0].code = -9  # it is gone, and nobody has heard of it yet
    second = called(calls)
    until(lambda: len(children) == 2 and children[1].stdin.getvalue())
    children[0].end()
    until(lambda: children[0].stdout.closed and first)
    assert (first, second) == ([process.GONE], [])
    children[1].said.write('{"id": 2, "result": "here"}\n')
    children[1].said.flush()
    until(lambda: second)
    assert second == ["here"]


def test_a_process_killed_in_the_middle_of_a_reply_leaves_nobody_waiting(children):
    calls = Process()
    heard = called(calls)
    until(lambda: children and children[0].stdin.getvalue())
    children[0].end('{"id": 1, "resu')
    until(lambda: heard)
    assert heard == [process.GONE]


def test_closing_after_the_process_died_starts_no_other(children, study, monkeypatch):
    monkeypatch.setattr(process, "PROCESS", Process())
    refitter = RemoteRefitter(study, lambda: None)
    refitter.start()
    children[0].end()
    until(lambda: refitter.trouble == process.GONE)
    refitter.close()
    assert len(children) == 1
    assert not process.PROCESS.refitters
