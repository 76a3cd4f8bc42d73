"""One worker that fits and ranks while answers go on, and goes on whatever happens to a fit."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from goalward.errors import GoalwardError
from goalward.study import Study

__all__ = ["Refitter", "told_as"]

LOG = logging.getLogger(__name__)


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
        """Begin; the first look is at once."""
        self._begun = True
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
            asked, self._asked = self._asked, False
            trouble = self.trouble
            try:
                self._catch_up(asked)
                trouble = None
            except GoalwardError as error:
                # Answers go on with the last ranking; the next answer tries again.
                trouble = str(error)
            except BaseException as error:
                # No memory, a defect, an exit from inside a library: a page without rankings that
                # says nothing would be worse than any of them.
                LOG.error("A fit failed; the next answer tries again.", exc_info=error)
                trouble = told_as(error)
            finally:
                self._say(busy=False, trouble=trouble)

    def _catch_up(self, asked: bool) -> None:
        # Answers that came while a ranking was made may be worth another one; where nothing is
        # left to rank, none is made.
        while (asked or self.study.due()) and not self._ended:
            asked = False
            self._say(busy=True, trouble=self.trouble)
            if self.study.refresh() is None:
                return

    def _say(self, *, busy: bool, trouble: str | None) -> None:
        if (busy, trouble) == (self.busy, self.trouble):
            return
        self.busy, self.trouble = busy, trouble
        try:
            self.told()
        except Exception as error:
            # Pages that cannot be told look for themselves; the fits are needed all the same.
            LOG.error("A fit could not be told to the open pages.", exc_info=error)


def told_as(error: BaseException) -> str:
    """Return what people at the page are told of a failure that nobody foresaw."""
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
