"""A study behind a page: called in process, over a real socket, and in a real browser."""

import os
import shutil
import threading
import time
from contextlib import contextmanager

import pytest

import goalward as gw
from tests.conftest import REQUIRED, need

TOKEN = "a token of our own"
PATIENCE = 120_000
"""Milliseconds that a browser waits before a test fails: a busy machine is no failure."""
WORDS = {"good": ["fine", "great", "moving", "witty"], "bad": ["dull", "stale", "boring", "weak"]}


def truth(text):
    return "good" if any(word in text for word in WORDS["good"]) else "bad"


def texts(n=120):
    kinds = ["film", "play", "book", "song", "show", "score"]
    said = []
    for i in range(n):
        label = ("good", "bad")[i % 2]
        said.append(f"a {WORDS[label][i // 2 % 4]} {kinds[i % 6]} by author {i}")
    return said


def written(study):
    """How many events the journal has that people wrote: the ranking may write at any moment."""
    state = study.state
    return state.seq - len(state.rounds)


def until(holds, seconds=120):
    """Wait until something holds, however busy the machine is."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.01)


@pytest.fixture
def study(tmp_path):
    with gw.Study.create(
        tmp_path / "labels.db", pool=texts(), classes=["good", "bad"], dev=0.25, seed=1
    ) as made:
        yield made


@pytest.fixture
def served(study):
    need("fastapi")
    from goalward.studio.server.auth import Auth
    from goalward.studio.server.served_study import ServedStudy

    return ServedStudy(study, Auth(TOKEN, port=1), by="ann")


def app_of(served, **options):
    """The application over one study."""
    from goalward.studio.server import create_app

    return create_app({"": served}, served.auth, **options)


@pytest.fixture
def client(served):
    """The application in process, with the token."""
    from starlette.testclient import TestClient

    headers = {"authorization": f"Bearer {TOKEN}"}
    with TestClient(app_of(served), "http://127.0.0.1:8321", headers=headers) as client:
        yield client


@contextmanager
def running(served, port=0, tls=None):
    """Serve a study on the loopback, on a free port by default; yields its address."""
    import uvicorn

    from goalward.studio.server.serve import listening, uvicorn_config

    listener = listening("127.0.0.1", port)
    server = uvicorn.Server(uvicorn_config(app_of(served), listener, tls))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    until(lambda: server.started or not thread.is_alive())
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        served.live.close()
        server.should_exit = True
        thread.join(timeout=120)
        listener.close()
        assert not thread.is_alive()


@pytest.fixture
def address(served):
    with running(served) as found:
        yield found


@pytest.fixture(scope="module")
def chromium():
    """A browser for one module: while it is open, its event loop is this thread's."""
    need("playwright")
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        reason = "Chromium is not installed (apt-get install chromium)"
        pytest.fail(reason) if REQUIRED else pytest.skip(reason)
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=PATIENCE)
    options = ["--disable-gpu", "--no-first-run", "--disable-background-networking"]
    if os.geteuid() == 0:
        options.append("--no-sandbox")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=options, timeout=PATIENCE)
        yield browser
        browser.close()
