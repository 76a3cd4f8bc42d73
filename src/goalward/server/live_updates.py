"""What is new, pushed to every open page as server-sent events.

Each message is the whole summary, so a page that was slow or away needs only the newest: a
listener's queue has one place, and a reconnecting one (Last-Event-ID) gets what it missed at once.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.concurrency import run_in_threadpool

from goalward.errors import GoalwardError

__all__ = ["MOST", "LiveUpdates"]

LOG = logging.getLogger(__name__)
MOST = 64
"""Listeners at once."""
PING = 15.0
POLL = 2.0
"""Seconds between looks for what other processes did."""
PAUSE = 0.1
"""Seconds between messages: a fast annotator need not redraw every page."""


class LiveUpdates:
    """The listeners of a study.

    Parameters
    ----------
    summary
        Returns where things stand; its "version" changes with everything worth a message.
    """

    def __init__(self, summary: Callable[[], dict[str, Any]]) -> None:
        self.summary = summary
        self._listeners: set[asyncio.Queue[tuple[str, str] | None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news: asyncio.Event | None = None
        self._newest: tuple[str, str] | None = None
        self._closed = False

    def changed(self) -> None:
        """Have everybody told, soon; may be called from any thread."""
        if self._loop is not None and self._news is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._news.set)

    def close(self) -> None:
        """End all listeners' streams; may be called from a signal handler."""
        self._closed = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._end)

    async def watch(self) -> None:
        """Look for news until cancelled."""
        self._loop, self._news = asyncio.get_running_loop(), asyncio.Event()
        while True:
            if self._listeners:
                await self._look()
            try:
                await asyncio.wait_for(self._news.wait(), POLL)
            except TimeoutError:
                continue
            await asyncio.sleep(PAUSE)
            self._news.clear()

    async def listen(self, last: str | None = None) -> AsyncIterator[str]:
        """Return the stream of one listener, beginning with what it has not seen."""
        queue: asyncio.Queue[tuple[str, str] | None] = asyncio.Queue(1)
        self._listeners.add(queue)
        try:
            yield "retry: 2000\n\n"
            await self._look()
            if self._newest is not None and self._newest[0] != last:
                _put(queue, self._newest)
            while not self._closed:
                try:
                    news = await asyncio.wait_for(queue.get(), PING)
                except TimeoutError:
                    yield ": ping\n\n"
                    continue
                if news is None:
                    return
                if news[0] != last:
                    last = news[0]
                    yield f"id: {news[0]}\nevent: summary\ndata: {news[1]}\n\n"
        finally:
            self._listeners.discard(queue)

    @property
    def listeners(self) -> int:
        """How many there are."""
        return len(self._listeners)

    async def _look(self) -> None:
        # A study that is locked or gone for a moment, no memory just now: the pages learn it from
        # their own calls, and the watch goes on.
        try:
            summary = await run_in_threadpool(self.summary)
        except GoalwardError:
            return
        except Exception as error:
            LOG.error("The open pages could not be told what is new.", exc_info=error)
            return
        version = str(summary["version"])
        if self._newest is None or self._newest[0] != version:
            self._newest = (version, json.dumps(summary))
            for queue in self._listeners:
                _put(queue, self._newest)

    def _end(self) -> None:
        for queue in self._listeners:
            _put(queue, None)


def _put(queue: asyncio.Queue[Any], news: Any) -> None:
    if queue.full():
        queue.get_nowait()
    queue.put_nowait(news)
