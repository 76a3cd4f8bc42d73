"""The work behind the page: whatever happens to a fit, it is said, and the next answer tries again."""

import threading
from types import SimpleNamespace

import numpy as np
import pytest

from goalward.errors import Separable
from tests.conftest import need
from tests.studio.server.conftest import TOKEN, running, texts, truth, until

need("fastapi")

from goalward.studio.study.refitter import Refitter  # noqa: E402


class Fitting:
    """A study whose fits fail as told; `dues` rankings are due."""

    pool, checked = SimpleNamespace(ready=True), True

    def __init__(self, *errors):
        self.errors, self.dues, self.fits, self.failing_due = list(errors), 1, 0, None

    def due(self):
        if self.failing_due:
            raise self.failing_due
        self.dues -= 1
        return self.dues >= 0

    def refresh(self):
        self.fits += 1
        if self.errors:
            raise self.errors.pop(0)
        return object()


def tell_all(client, rows):
    for row in rows:
        body = {"by": "ann", "row": row, "label": truth(texts()[row])}
        assert client.post("/api/tell", json=body).status_code == 200


@pytest.fixture
def work():
    """Return workers that are ended afterwards; `told` is given the worker."""
    begun = []

    def of(study, told=lambda refitter: None):
        begun.append(Refitter(study, lambda: told(begun[0])))
        return begun[-1]

    yield of
    for refitter in begun:
        refitter.close()
        assert not refitter._thread.is_alive()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (Separable("perfectly separated"), ["perfectly separated"]),
        (MemoryError("48 GiB for an array"), ["MemoryError", "48 GiB", "saved", "next answer"]),
        (np.linalg.LinAlgError("no convergence"), ["LinAlgError", "no convergence", "saved"]),
        (RecursionError("too deep"), ["RecursionError", "saved"]),
        (KeyError("column"), ["KeyError", "column"]),
        (SystemExit(3), ["SystemExit", "saved"]),
        (KeyboardInterrupt(), ["KeyboardInterrupt", "saved"]),
        (GeneratorExit(), ["GeneratorExit"]),
    ],
)
@pytest.mark.attack("fits that fail")
def test_a_fit_that_fails_is_told_and_the_next_answer_tries_again(work, error, words):
    study, told = Fitting(error), []
    refitter = work(study, lambda refitter: told.append(refitter.busy))
    refitter.start()
    until(lambda: told == [True, False])
    assert [word for word in words if word not in refitter.trouble] == []
    study.dues = 1
    refitter.nudge()
    until(lambda: told == [True, False] * 2)
    assert refitter.trouble is None
    assert study.fits == 2


def test_a_look_that_fails_is_told_too(work):
    study, told = Fitting(), []
    study.failing_due = MemoryError()
    refitter = work(study, lambda refitter: told.append(refitter.trouble))
    refitter.start()
    until(lambda: told)
    assert "MemoryError" in told[-1]
    study.failing_due, study.dues = None, 1
    refitter.nudge()
    until(lambda: study.fits == 1 and refitter.trouble is None)


def test_nobody_to_tell_ends_no_fits(work):
    def nobody(refitter):
        raise RuntimeError("the loop is closed")

    study = Fitting()
    refitter = work(study, nobody)
    refitter.start()
    for fits in (1, 2, 3):
        until(lambda fits=fits: study.fits == fits and not refitter.busy)
        study.dues = 1
        refitter.nudge()


@pytest.mark.attack("fits that fail")
def test_a_worker_that_died_all_the_same_is_begun_again(work, monkeypatch):
    study = Fitting(MemoryError())
    with monkeypatch.context() as patched:
        # Not even the words could be found.
        patched.setattr("goalward.studio.study.refitter._failure", lambda error: 1 / 0)
        patched.setattr(threading, "excepthook", lambda failed: None)
        refitter = work(study)
        refitter.start()
        until(lambda: not refitter._thread.is_alive())
    study.dues = 1
    refitter.nudge()
    until(lambda: study.fits == 2 and not refitter.busy)
    assert refitter.trouble is None


def test_the_page_shows_what_happened_and_goes_on(client, study, monkeypatch):
    """Answers meet a MemoryError, and a model once there is room."""
    fit, room = study.refresh, threading.Event()

    def refresh(**options):
        if not room.is_set():
            raise MemoryError("no room for the inverse")
        return fit(**options)

    monkeypatch.setattr(study, "refresh", refresh)
    tell_all(client, range(10))
    until(lambda: client.get("/api/status").json()["trouble"])
    said = client.get("/api/status").json()
    assert "no room for the inverse" in said["trouble"]
    assert "All answers are saved" in said["trouble"]
    assert "no room for the inverse" in client.get("/").text
    assert said["labels"] == 10
    room.set()
    tell_all(client, [10])
    until(lambda: client.get("/api/status").json()["ranking"])
    until(lambda: client.get("/api/status").json()["trouble"] is None)


def test_another_trouble_is_news(served):
    versions = set()
    for trouble in (None, "one thing", "another thing"):
        served.refitter.trouble = trouble
        versions.add(served.summary()["version"])
    assert len(versions) == 3


def test_a_study_served_again_fits_and_tells_again(served):
    import httpx2 as httpx

    study, key = served.study, {"authorization": f"Bearer {TOKEN}"}
    for first in (0, 10):
        before = len(study.state.rounds)
        for row in range(first, first + 10):
            study.tell(row, truth(texts()[row]), by="ann")
        with running(served) as address:
            until(lambda before=before: len(study.state.rounds) > before)
            with httpx.stream("GET", f"{address}/api/events", headers=key, timeout=120) as stream:
                assert any(line.startswith("data:") for line in stream.iter_lines())
