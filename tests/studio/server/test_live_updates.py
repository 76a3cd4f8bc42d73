"""News for many pages: bounded, the newest first, and ended when the server ends."""

import asyncio
import json
from contextlib import ExitStack

import pytest

from goalward.errors import Locked
from tests.conftest import need
from tests.studio.server.conftest import TOKEN, running

need("fastapi")

from goalward.studio.server.served_study import MOST, LiveUpdates  # noqa: E402


class Source:
    """A summary that can be changed, or fail."""

    def __init__(self):
        self.version, self.error, self.calls = 1, None, 0

    def __call__(self):
        self.calls += 1
        if self.error:
            raise self.error
        return {"version": self.version}


async def news(stream):
    async for message in stream:
        if message.startswith("id: "):
            return json.loads(message.split("data: ")[1])["version"]
    return None


@pytest.fixture
def source():
    return Source()


def run(source, scenario):
    async def all_of_it():
        live = LiveUpdates(source)
        watch = asyncio.create_task(live.watch())
        await asyncio.sleep(0)
        try:
            return await asyncio.wait_for(scenario(live), 120)
        finally:
            watch.cancel()

    return asyncio.run(all_of_it())


def test_a_slow_listener_gets_the_newest_and_nothing_piles_up(source, monkeypatch):
    monkeypatch.setattr("goalward.studio.server.served_study.PAUSE", 0.0)

    async def scenario(live):
        slow, quick = live.listen(), live.listen()
        assert [await news(slow), await news(quick)] == [1, 1]
        for source.version in range(2, 12):
            live.changed()
            assert await news(quick) == source.version
        return await news(slow)

    assert run(source, scenario) == 11


def test_who_has_seen_the_newest_waits_and_is_pinged(source, monkeypatch):
    monkeypatch.setattr("goalward.studio.server.served_study.PING", 0.05)

    async def scenario(live):
        stream = live.listen("1")
        said = [await anext(stream), await anext(stream)]
        await stream.aclose()
        return said, live.listeners

    assert run(source, scenario) == (["retry: 2000\n\n", ": ping\n\n"], 0)


@pytest.mark.parametrize("error", [Locked("busy"), MemoryError(), RuntimeError("a defect")])
def test_a_summary_that_fails_for_a_moment_ends_nothing(source, monkeypatch, error):
    monkeypatch.setattr("goalward.studio.server.served_study.PAUSE", 0.0)

    async def scenario(live):
        stream = live.listen()
        assert await news(stream) == 1
        source.error, source.version, failed = error, 2, source.calls
        live.changed()
        while source.calls == failed:
            await asyncio.sleep(0.01)
        source.error = None
        live.changed()
        return await news(stream)

    assert run(source, scenario) == 2


def test_closing_ends_every_stream(source):
    async def scenario(live):
        stream = live.listen()
        assert await news(stream) == 1
        waiting = asyncio.create_task(news(stream))
        await asyncio.sleep(0.05)
        live.close()
        return await waiting

    assert run(source, scenario) is None


def test_more_pages_than_the_server_serves_are_told_so(served, monkeypatch):
    import httpx2 as httpx

    assert MOST >= 10
    monkeypatch.setattr("goalward.studio.server.api.MOST", 2)
    headers = {"authorization": f"Bearer {TOKEN}"}
    with ExitStack() as held:
        address = held.enter_context(running(served)) + "/api/events"
        client = held.enter_context(httpx.Client(headers=headers, timeout=120))
        streams = [held.enter_context(client.stream("GET", address)).iter_lines() for _ in "12"]
        assert [next(lines) for lines in streams] == ["retry: 2000"] * 2
        with client.stream("GET", address) as third:
            assert third.status_code == 503


@pytest.mark.parametrize("steps", range(5))
def test_the_watch_ends_though_news_came_at_the_same_time(source, steps):
    async def run():
        live = LiveUpdates(source)
        task = asyncio.create_task(live.watch())
        await asyncio.sleep(0.01)
        live._news.set()
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=20)
        return done

    assert asyncio.run(run())
