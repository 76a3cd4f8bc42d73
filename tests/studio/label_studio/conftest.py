"""A fake server, a table of reviews, and a bridge between them."""

from contextlib import ExitStack

import pytest

import goalward as gw
from goalward.studio.label_studio import Bridge, Client, create_study
from tests.conftest import need
from tests.studio.label_studio.fake import TOKEN, FakeLabelStudio

GOOD = ("fine", "great", "moving", "witty")
BAD = ("dull", "stale", "boring", "weak")


def review(i):
    words = GOOD if i % 2 == 0 else BAD
    return f"a {words[i // 2 % 4]} film with a {words[i // 8 % 4]} plot number {i}"


def mood(text):
    return "good" if any(word in text for word in GOOD) else "bad"


@pytest.fixture
def fake():
    need("httpx")
    return FakeLabelStudio()


@pytest.fixture
def url(fake):
    with fake.running() as address:
        yield address


@pytest.fixture
def waits(monkeypatch):
    """The seconds that clients would have waited."""
    seconds = []
    monkeypatch.setattr("goalward.studio.label_studio.client.time.sleep", seconds.append)
    return seconds


@pytest.fixture
def connect(waits):
    """Clients that are closed in the end, and wait for nothing."""
    with ExitStack() as stack:

        def made(url, token=TOKEN, project=7):
            return stack.enter_context(Client(url, token, project))

        yield made


@pytest.fixture
def client(url, connect):
    return connect(url)


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "goalward.studio.tables.cache.user_cache_path", lambda name: tmp_path / "cache"
    )
    path = tmp_path / "reviews.csv"
    lines = [f"{i},{review(i)},private {i}" for i in range(48)]
    path.write_text("id,text,secret\n" + "\n".join(lines) + "\n")
    return path


@pytest.fixture
def study(table, tmp_path, client):
    rows = gw.tables.Table(str(table), text="text")
    with create_study(str(tmp_path / "s.db"), client, table=rows, refit=4, dev=0.0) as made:
        yield made


@pytest.fixture
def bridge(study, client):
    return Bridge(study, client)
