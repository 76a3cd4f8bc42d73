"""A study as it is served: its worker that fits and ranks, its listeners."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from zlib import crc32

from goalward.errors import GoalwardError
from goalward.server.guard import Keys
from goalward.server.live_updates import LiveUpdates
from goalward.server.messages import RowView
from goalward.server.rows import legible, row_view
from goalward.study import Study
from goalward.study.rounds import ready
from goalward.study.state import Description

__all__ = ["HELD", "Refitter", "ServedStudy"]

LOG = logging.getLogger(__name__)
HELD = 3
"""Rows an annotator has in hand: the one shown and two that are loaded behind it."""
SUMMARISED = (
    *("rows", "labels", "training", "dev", "skipped", "pending", "disagreements"),
    *("classes", "annotators", "ranking", "accuracy", "headline"),
)
"""What the side panel shows of a study's status."""


class ServedStudy:
    """What the pages and the interface work with.

    Parameters
    ----------
    by
        The annotator's name until the page is told another.
    images
        Folder that pictures may be read from; the table's by default.
    address
        Where other machines reach the page; None if they do not.
    """

    def __init__(
        self,
        study: Study,
        keys: Keys,
        *,
        by: str = "me",
        images: Path | None = None,
        address: str | None = None,
    ) -> None:
        self.study, self.keys, self.by, self.images = study, keys, by, images
        self.address = address
        # Only its last part is shown: where things lie on this machine is nobody's business.
        self.name = legible(study.url.replace("\\", "/").rpartition("/")[2])
        self.title = legible(Path(study.state.pool.get("path", self.name)).name)
        # Not of its path, where there may be another study tomorrow.
        self.id = study.identity
        self.live = LiveUpdates(self.summary)
        self.refitter = Refitter(study, self.live.changed)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Work in the background while the server runs."""
        watch = asyncio.create_task(self.live.watch())
        self.refitter.start()
        yield
        watch.cancel()
        with suppress(asyncio.CancelledError):
            await watch
        await asyncio.to_thread(self.refitter.close)

    def next_rows(self, by: str, n: int = HELD) -> list[RowView]:
        """Return the rows in an annotator's hands, new ones added; never waits for a fit."""
        return self.views(self.study.ask(n, by=by, resume=True, at_most=True, refresh=False))

    def views(self, rows: list[int], *, whole: bool = False) -> list[RowView]:
        """Return what a page needs of some rows."""
        state = self.study.state
        return [row_view(self.study, state, row, whole=whole) for row in rows]

    def changed(self) -> None:
        """Say that answers changed."""
        self.refitter.nudge()
        self.live.changed()

    def summary(self) -> dict[str, Any]:
        """Return where the study stands, as the side panel shows it."""
        status, state = self.study.status(), self.study.state
        busy, trouble = self.refitter.busy, self.refitter.trouble
        check = crc32((trouble or "").encode("utf-8", "replace"))
        return {
            "version": f"{status['events']}-{int(busy)}-{check:x}",
            "study": self.id,
            **{name: status[name] for name in SUMMARISED},
            "classes": [
                {**one, **state.described.get(place, Description())._asdict()}
                for place, one in enumerate(status["classes"])
            ],
            "guidelines": state.guidelines,
            "model": ready(state),
            "left": state.n_rows - len(state.closed),
            "rounds": len(state.rounds),
            "fitting": busy,
            "trouble": trouble,
        }


class Refitter:
    """A thread that calls `study.refresh()` whenever a new ranking is due.

    Parameters
    ----------
    told
        Called, in that thread, when a fit begins and when it ended.
    """

    def __init__(self, study: Study, told: Callable[[], None] = lambda: None) -> None:
        self.study, self.told = study, told
        self.busy = False
        self.trouble: str | None = None
        self._wake, self._begun, self._ended, self._asked = threading.Event(), False, False, False
        self._beginning = threading.Lock()
        self._thread = threading.Thread()

    def start(self) -> None:
        """Begin, or begin again after `close`; the first look is at once."""
        self._begun, self._ended = True, False
        self.nudge()

    def nudge(self, *, now: bool = False) -> None:
        """Look whether a ranking is due, or make one `now` if anything changed; returns at once."""
        self._asked = self._asked or now
        self._wake.set()
        with self._beginning:
            # Nothing should end the thread; if something did, the next answer begins another.
            if self._begun and not self._ended and not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=self._run, name="goalward-refit", daemon=True
                )
                self._thread.start()

    def close(self) -> None:
        """End after the fit that is under way."""
        self._ended = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout=30)

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            if self._ended:
                return
            trouble = self.trouble
            try:
                self._catch_up()
                trouble = None
            except GoalwardError as error:
                # Answers go on with the last ranking; the next answer tries again.
                trouble = str(error)
            except BaseException as error:
                # No memory, a defect, an exit from inside a library: a page without rankings that
                # says nothing would be worse than any of them.
                LOG.exception("A fit failed; the next answer tries again.")
                trouble = _failure(error)
            finally:
                self._say(busy=False, trouble=trouble)

    def _catch_up(self) -> None:
        # Answers that came while a ranking was made may be worth another one; where nothing is
        # left to rank, none is made.
        while not self._ended and (self._asked or self.study.due()):
            self._asked = False
            self._say(busy=True, trouble=self.trouble)
            if self.study.refresh() is None:
                return

    def _say(self, *, busy: bool, trouble: str | None) -> None:
        if (busy, trouble) == (self.busy, self.trouble):
            return
        self.busy, self.trouble = busy, trouble
        try:
            self.told()
        except Exception:
            # Pages that cannot be told look for themselves; the fits are needed all the same.
            LOG.exception("A fit could not be told to the open pages.")


def _failure(error: BaseException) -> str:
    remedy = (
        "make room in memory and start the server again"
        if isinstance(error, MemoryError)
        else "start the server again, and report what stands in its terminal"
    )
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return (
        f"The rows could not be ranked anew ({said[:500]}). Every answer is safe, rows go on in the "
        f"order they had, and the next answer tries again. If it stays so, {remedy}."
    )
