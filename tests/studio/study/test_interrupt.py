"""Ctrl-C inside any verb: stored or not, never half; no lock is left, memory agrees with the disk."""

import os

import pytest

from tests.studio.study.interrupts import lines, reported, signals
from tests.studio.study.test_storage import CONTEXT

TRIES = int(os.environ.get("GOALWARD_INTERRUPTS", "40"))
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
@pytest.mark.often
def test_a_signal_at_any_moment(storage, tmp_path, tried):
    tries = TRIES // 4 if storage.startswith("postgresql") else TRIES
    assert struck(signals, tmp_path, storage, tries) == tries
    tried(tries)


@pytest.mark.attack("Ctrl-C inside any call")
@pytest.mark.often
def test_an_interrupt_in_any_line(tmp_path, tried):
    assert struck(lines, tmp_path, tmp_path / "labels.db", TRIES) > TRIES // 2
    tried(TRIES // 2)
