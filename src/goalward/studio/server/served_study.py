"""Studies as they are served: rows for pages, live updates, and fits in the background."""

import asyncio
import gc
import json
import logging
import re
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import ExitStack, asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from threading import Thread
from time import perf_counter, time
from typing import Any
from zlib import crc32

from starlette.concurrency import run_in_threadpool

from goalward.errors import BadInput, BadParameter, GoalwardError
from goalward.studio.server.auth import Auth
from goalward.studio.server.process import RemoteRefitter
from goalward.studio.server.shown_rows import RowView, encodable, row_view, searchable_text
from goalward.studio.store.database import shown
from goalward.studio.store.store import studies_at
from goalward.studio.study import Study, advice
from goalward.studio.study.ledger import WAIT
from goalward.studio.study.refitter import Refitter
from goalward.studio.study.rounds import ready
from goalward.studio.study.state import Description

LOG = logging.getLogger(__name__)
MOST, EACH = 64, 8
"""Listeners at once: of all, and of one member of a team."""
PING, POLL = 15.0, 2.0
"""Seconds between pings, and between looks for changes by other processes."""
PAUSE = 0.1
"""Seconds between messages: a fast annotator need not redraw every page."""
HELD = 3
"""Rows handed to an annotator: the one shown and two that are loaded behind it."""
SUMMARISED = (
    *("rows", "labels", "training", "dev", "skipped", "pending", "disagreements"),
    *("classes", "annotators", "ranking", "accuracy", "headline"),
)
"""The parts of a study's status in the side panel."""


class LiveUpdates:
    """Summaries pushed to open pages as server-sent events, each whole: only the newest counts."""

    def __init__(self, summary: Callable[[], dict[str, Any]]) -> None:
        self.summary = summary
        self.by = Counter[str | None]()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news, self._updated = asyncio.Event(), asyncio.Event()
        self._newest: tuple[str | None, str] = (None, "")
        self._closed = False

    @property
    def listeners(self) -> int:
        return self.by.total()

    def changed(self) -> None:
        """Send a message soon; may be called from any thread."""
        self._call_soon(self._news.set)

    def close(self) -> None:
        """End all streams; may be called from a signal handler."""
        self._closed = True
        self._call_soon(self._wake)

    async def watch(self) -> None:
        # Events belong to the loop they were first waited in, and a study may be served again.
        self._loop = asyncio.get_running_loop()
        self._news, self._updated, self._closed = asyncio.Event(), asyncio.Event(), False
        while True:
            began = perf_counter()
            if self.listeners:
                await self._update()
            # However long an update takes, it is a tenth of the time.
            rest = max(PAUSE, 9 * (perf_counter() - began))
            # Not `wait_for`, which may swallow a cancellation in Python 3.11.
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL):
                    await self._news.wait()
                await asyncio.sleep(rest)
            self._news.clear()

    async def listen(self, last: str | None = None, by: str | None = None) -> AsyncGenerator[str]:
        """Return the stream of one listener, beginning with the summary it has not seen."""
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
                        await self._updated.wait()
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
        waiting, self._updated = self._updated, asyncio.Event()
        waiting.set()

    def _call_soon(self, call: Callable[[], None]) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call)


class ServedStudy:
    """A study as the pages use it; `guess` shows guesses, by default if the table has some."""

    def __init__(
        self,
        study: Study,
        auth: Auth,
        *,
        by: str = "me",
        images: Path | None = None,
        guess: bool | None = None,
        address: str | None = None,
        refitter: Callable[..., Refitter | RemoteRefitter] = Refitter,
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
        self.refitter = refitter(study, self.live.changed)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Fit, check and send live updates while the server runs."""
        watch = asyncio.create_task(self.live.watch())
        self.refitter.start()
        Thread(target=self._prepare, name="goalward-search", daemon=True).start()
        yield
        watch.cancel()
        with suppress(asyncio.CancelledError):
            await watch
        await asyncio.to_thread(self.refitter.close)

    def _prepare(self) -> None:
        """Prepare questions and the search in the background."""
        with suppress(GoalwardError):  # told by the first request for a row
            self.study.prepare()
            searchable_text(self.study.pool)
        # Searching a table of 100,000 rows for garbage would stop everybody for 0.2 s.
        gc.collect()
        gc.freeze()

    def next_rows(self, by: str, own: str | None, n: int = HELD) -> list[RowView]:
        """Return the rows handed to an annotator, new ones added; never waits for a fit."""
        return self.views(self.study.ask(n, by=by, resume=True, at_most=True, refresh=False), own)

    def views(self, rows: list[int], own: str | None, **shown: Any) -> list[RowView]:
        """Return rows as a page shows them, as of the last read; see `row_view`."""
        guesses = self.study.guesses(rows) if self.guess else {}
        return self.study.seen.at_once(
            lambda state: [
                row_view(self.study, state, row, own, guess=guesses.get(row), **shown)
                for row in rows
            ]
        )

    def with_features(self) -> Refitter | RemoteRefitter:
        """Return what computes, or raise while features are computed: a page does not wait."""
        if not self.refitter.ready:
            raise BadInput(
                "The features of the rows are still being computed. Go on answering, and try again "
                "when the bar under 'How good is it?' is full."
            )
        return self.refitter

    def changed(self) -> None:
        self.refitter.nudge()
        self.live.changed()

    def summary(self) -> dict[str, Any]:
        state = self.study.state
        status = advice.status(state, time())
        busy = self.refitter.busy
        trouble = self.refitter.damage or self.refitter.trouble
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
                {**name, **state.described.get(place, Description())._asdict()}
                for place, name in enumerate(status["classes"])
            ],
            "guidelines": state.guidelines,
            "kind": state.settings.kind,
            "measure": state.settings.answer.measure,
            "waits": state.settings.answer.waits,
            "model": ready(state),
            "left": state.n_rows - state.n_closed,
            "rounds": state.n_rounds,
            "fitting": busy,
            "preparing": self.refitter.preparing,
            "trouble": trouble,
        }


class StudyList(ExitStack):
    """Open studies by name, and why others could not be opened."""

    def __init__(
        self, places: Iterable[str], tick: Callable[[str], None] = lambda message: None
    ) -> None:
        super().__init__()
        self.studies: dict[str, Study] = {}
        self.unopened: dict[str, str] = {}
        every: list[str] = []
        for place in places:
            try:
                every += studies_at(place)
            except GoalwardError:
                every.append(place)  # opening it says why
        alike = Counter(map(path_name, every))
        for place in every:
            name = path_name(place)
            tick(f"opening {shown(place)}")
            try:
                study = self.enter_context(Study.open(place, tick=tick, timeout=WAIT))
                study.pool  # noqa: B018 - before the page opens, not with its first answer
            except GoalwardError as error:
                # Strangers need not know the folders of this machine.
                reason = str(error).replace(f"{Path(place).absolute().parent}/", "")
                self.unopened[self._free(name)] = reason
            else:
                # A name of several leads to none of them: tomorrow it might lead to another.
                name = name if alike[name] == 1 else f"{name}-{study.identity[:8]}"
                self.studies[self._free(name)] = study
        if not self.studies:
            self.close()
            reasons = " ".join(self.unopened.values()) or "No study was named."
            raise BadParameter(f"There is nothing to serve. {reasons}")

    def _free(self, name: str) -> str:
        names = (f"{name}-{n}" if n > 1 else name for n in count(1))
        return next(free for free in names if free not in {*self.studies, *self.unopened})


def path_name(place: str) -> str:
    """Return the name of a study in paths: "reviews-2026" for "data/Reviews 2026.labels.db"."""
    return re.sub(r"[^a-z0-9]+", "-", title(shown(place)).lower()).strip("-") or "study"


def title(place: str) -> str:
    """Return the last part of a place, without its suffix."""
    return re.sub(r".*[/=]|(\.labels)?\.db$", "", place)
