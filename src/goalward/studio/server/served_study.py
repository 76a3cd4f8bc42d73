"""A study as it is served: what pages show of it, its live updates, and the thread that fits."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from threading import Thread
from time import perf_counter
from typing import Any, TypedDict
from zlib import crc32

from starlette.concurrency import run_in_threadpool

from goalward.errors import BadInput, GoalwardError
from goalward.studio.server.auth import Auth
from goalward.studio.server.rows import RowView, encodable, row_view, searchable_text
from goalward.studio.study import Study
from goalward.studio.study.refitter import Refitter
from goalward.studio.study.rounds import ready
from goalward.studio.study.state import Description

LOG = logging.getLogger(__name__)
MOST, EACH = 64, 8
"""Listeners at once: of all, and of one member of a team."""
PING, POLL = 15.0, 2.0
"""Seconds between signs of life, and between looks for what other processes did."""
PAUSE = 0.1
"""Seconds between messages: a fast annotator need not redraw every page."""
CHECK_PAUSE = 19.0
"""Events are checked in a twentieth of the time, so that answers come first."""
HELD = 3
"""Rows handed to an annotator: the one shown and two that are loaded behind it."""
SUMMARISED = (
    *("rows", "labels", "training", "dev", "skipped", "pending", "disagreements"),
    *("classes", "annotators", "ranking", "accuracy", "headline"),
)
"""What the side panel shows of a study's status."""


class LiveUpdates:
    """Summaries pushed to every open page as server-sent events.

    Each message is the whole summary, so a page that was slow or away needs only the newest:
    nothing piles up, and a reconnecting listener (Last-Event-ID) gets what it missed at once.

    Parameters
    ----------
    summary
        Returns the summary; its "version" changes with everything worth a message.
    """

    def __init__(self, summary: Callable[[], dict[str, Any]]) -> None:
        self.summary = summary
        self.by = Counter[str | None]()
        """Listeners by name."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news, self._told = asyncio.Event(), asyncio.Event()
        self._newest: tuple[str | None, str] = (None, "")
        self._closed = False

    @property
    def listeners(self) -> int:
        """The number of listeners."""
        return self.by.total()

    def changed(self) -> None:
        """Send a message soon; may be called from any thread."""
        self._call_soon(self._news.set)

    def close(self) -> None:
        """End all streams; may be called from a signal handler."""
        self._closed = True
        self._call_soon(self._wake)

    async def watch(self) -> None:
        """Look for changes until cancelled."""
        # Events belong to the loop they were first waited in, and a study may be served again.
        self._loop = asyncio.get_running_loop()
        self._news, self._told, self._closed = asyncio.Event(), asyncio.Event(), False
        while True:
            began = perf_counter()
            if self.listeners:
                await self._update()
            # However long an update takes, it is a tenth of the time.
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
            await self._update()
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

    async def _update(self) -> None:
        # A study that is locked or gone for a moment: pages learn it from their own requests.
        try:
            summary = await run_in_threadpool(self.summary)
        except GoalwardError:
            return
        except Exception:
            LOG.exception("The summary for open pages failed.")
            return
        version = str(summary["version"])
        if version != self._newest[0]:
            self._newest = version, json.dumps(summary)
            self._wake()

    def _wake(self) -> None:
        """Wake those who wait now; others wait for the next time."""
        told, self._told = self._told, asyncio.Event()
        told.set()

    def _call_soon(self, call: Callable[[], None]) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call)


class Display(TypedDict, total=False):
    """How a study is shown; see `ServedStudy`."""

    by: str
    images: Path | None
    guess: bool | None


class ServedStudy:
    """What the pages and the HTTP interface work with.

    Parameters
    ----------
    by
        The annotator's name until the page is told another.
    images
        Folder that pictures may be read from; the table's by default.
    guess
        Show guesses, or the model's prediction; people agree with it more often than they should.
        None: the guesses that came with the rows, if any.
    address
        Where other machines reach the page; None if they do not.
    """

    def __init__(
        self,
        study: Study,
        auth: Auth,
        *,
        by: str = "me",
        images: Path | None = None,
        guess: bool | None = None,
        address: str | None = None,
    ) -> None:
        self.study, self.auth, self.by, self.images = study, auth, by, images
        if guess:
            study.state.settings.answer.need("Showing what the model would say")
        self.guess = bool(study.state.pool.get("guesses")) if guess is None else guess
        self.address = address
        # Only the last part of its path: strangers need not know the folders of this machine.
        self.name = encodable(study.url.replace("\\", "/").rpartition("/")[2])
        self.title = encodable(Path(study.state.pool.get("path", self.name)).name)
        # Not its path, where there may be another study tomorrow.
        self.id = study.identity
        self.live = LiveUpdates(self.summary)
        self.refitter = Refitter(study, self.live.changed)
        self.damage: str | None = None
        """What the check of every event found."""

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Fit, check and send live updates while the server runs."""
        watch = asyncio.create_task(self.live.watch())
        self.refitter.start()
        Thread(target=self._check, name="goalward-check", daemon=True).start()
        yield
        watch.cancel()
        with suppress(asyncio.CancelledError):
            await watch
        await asyncio.to_thread(self.refitter.close)

    def _check(self) -> None:
        """Prepare the search, and check every event that opening did not, in the background."""
        try:
            searchable_text(self.study.pool)
            # What is read by now stays. The garbage collector would stop everybody for 0.2 s, now and
            # then, to look through a table of 100,000 rows.
            gc.collect()
            gc.freeze()
            if not self.study.checked:
                self.study.check(pause=CHECK_PAUSE)
        except GoalwardError as error:
            self.damage = str(error)
            self.live.changed()

    def next_rows(self, by: str, own: str | None, n: int = HELD) -> list[RowView]:
        """Return the rows handed to an annotator, new ones added; never waits for a fit."""
        return self.views(self.study.ask(n, by=by, resume=True, at_most=True, refresh=False), own)

    def views(self, rows: list[int], own: str | None, **shown: Any) -> list[RowView]:
        """Return what a page shows of some rows, as of the last read; see `row_view`."""
        state = self.study.seen
        guesses = self.study.guesses(rows) if self.guess else {}
        return [
            row_view(self.study, state, row, own, guess=guesses.get(row), **shown) for row in rows
        ]

    def with_features(self) -> Study:
        """Return the study, or raise while its features are computed: a page does not wait."""
        if not self.study.pool.ready:
            raise BadInput(
                "The features of the rows are still being computed. Go on answering, and try again "
                "when the bar under 'How good is it?' is full."
            )
        return self.study

    def changed(self) -> None:
        """Fit and update pages after answers changed."""
        self.refitter.nudge()
        self.live.changed()

    def summary(self) -> dict[str, Any]:
        """Return the state of the study as the side panel shows it."""
        status, state = self.study.status(), self.study.state
        busy = self.refitter.busy
        trouble = self.damage or self.refitter.trouble
        if trouble is None and self.study.behind is not None:
            trouble = (
                "Another program holds the study, so this is its state from before. Answers wait in "
                "this page: close that program, or wait until it is done."
            )
        check = crc32((trouble or "").encode("utf-8", "replace"))
        return {
            "version": f"{status['events']}-{int(busy)}-{check:x}-{self.refitter.preparing}",
            "study": self.id,
            **{name: status[name] for name in SUMMARISED},
            "classes": [
                {**one, **state.described.get(place, Description())._asdict()}
                for place, one in enumerate(status["classes"])
            ],
            "guidelines": state.guidelines,
            "kind": state.settings.kind,
            "measure": state.settings.answer.measure,
            "waits": state.settings.answer.waits,
            "model": ready(state),
            "left": state.n_rows - state.n_closed,
            "rounds": len(state.rounds),
            "fitting": busy,
            "preparing": self.refitter.preparing,
            "trouble": trouble,
        }
