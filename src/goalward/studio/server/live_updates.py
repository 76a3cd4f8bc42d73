"""What is new, pushed to every open page as server-sent events.

Each message is the whole summary, so a page that was slow or away needs only the newest: nothing
piles up, and a reconnecting listener (Last-Event-ID) gets what it missed at once.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from time import perf_counter
from typing import Any

from starlette.concurrency import run_in_threadpool

from goalward.errors import GoalwardError

__all__ = ["EACH", "MOST", "LiveUpdates"]

LOG = logging.getLogger(__name__)
MOST, EACH = 64, 8
"""Listeners at once: of all, and of one member of a team."""
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
        self.by = Counter[str | None]()
        """Listeners by their names."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news, self._told = asyncio.Event(), asyncio.Event()
        self._newest: tuple[str | None, str] = (None, "")
        self._closed = False

    @property
    def listeners(self) -> int:
        """Return how many listen."""
        return self.by.total()

    def changed(self) -> None:
        """Have everybody told, soon; may be called from any thread."""
        self._soon(self._news.set)

    def close(self) -> None:
        """End all listeners' streams; may be called from a signal handler."""
        self._closed = True
        self._soon(self._tell)

    async def watch(self) -> None:
        """Look for news until cancelled."""
        # Events belong to the loop they were first waited in, and a study may be served again.
        self._loop = asyncio.get_running_loop()
        self._news, self._told, self._closed = asyncio.Event(), asyncio.Event(), False
        while True:
            began = perf_counter()
            if self.listeners:
                await self._look()
            # However long a look takes, it is a tenth of the time.
            rest = max(PAUSE, 9 * (perf_counter() - began))
            # Not `wait_for`, which in Python 3.11 may swallow being cancelled where news came too.
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL):
                    await self._news.wait()
                await asyncio.sleep(rest)
            self._news.clear()

    async def listen(self, last: str | None = None, by: str | None = None) -> AsyncGenerator[str]:
        """Return the stream of one listener, beginning with what it has not seen."""
        self.by[by] += 1
        try:
            yield "retry: 2000\n\n"
            await self._look()
            while not self._closed:
                version, data = self._newest
                if version not in (None, last):
                    last = version
                    yield f"id: {version}\nevent: summary\ndata: {data}\n\n"
                    continue
                try:
                    async with asyncio.timeout(PING):
                        await self._told.wait()
                except TimeoutError:
                    yield ": ping\n\n"
        finally:
            self.by[by] -= 1

    async def _look(self) -> None:
        # A study that is locked or gone for a moment, no memory just now: the pages learn it from
        # their own calls, and the watch goes on.
        try:
            summary = await run_in_threadpool(self.summary)
        except GoalwardError:
            return
        except Exception:
            LOG.exception("The open pages could not be told what is new.")
            return
        version = str(summary["version"])
        if version != self._newest[0]:
            self._newest = version, json.dumps(summary)
            self._tell()

    def _tell(self) -> None:
        """Wake who waits now; who comes later waits for the next time."""
        told, self._told = self._told, asyncio.Event()
        told.set()

    def _soon(self, call: Callable[[], None]) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call)
