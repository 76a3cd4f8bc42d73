"""Ctrl-C inside any verb: stored or not, never half; no lock is left, memory agrees with the disk."""

import os

import pytest

from tests.study.interrupts import lines, reported, signals
from tests.study.test_kill import CONTEXT

TRIES = int(os.environ.get("GOALWARD_INTERRUPTS", "200"))
"""Of each kind; more in CI."""


def struck(*arguments):
    """Return how often a process of its own was struck, all being well after each."""
    heard, report = CONTEXT.Pipe(duplex=False)
    worker = CONTEXT.Process(target=reported, args=(arguments[0], report, *arguments[1:]))
    worker.start()
    report.close()
    said = heard.recv()
    worker.join()
    assert isinstance(said, int), said
    return said


@pytest.mark.attack("Ctrl-C inside any call")
def test_a_signal_at_any_moment(tmp_path, tried):
    assert struck(signals, tmp_path, tmp_path / "labels.db", TRIES) == TRIES
    tried(TRIES)


@pytest.mark.attack("Ctrl-C inside any call")
def test_a_signal_at_any_moment_on_postgresql(postgres, tmp_path, tried):
    assert struck(signals, tmp_path, postgres, TRIES // 4) == TRIES // 4
    tried(TRIES // 4)


@pytest.mark.attack("Ctrl-C inside any call")
def test_an_interrupt_in_any_line(tmp_path, tried):
    assert struck(lines, tmp_path, tmp_path / "labels.db", TRIES) > TRIES // 2
    tried(TRIES // 2)
