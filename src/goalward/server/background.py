"""One worker that fits and ranks while answers go on."""

from __future__ import annotations

import threading
from collections.abc import Callable

from goalward.errors import GoalwardError
from goalward.study import Study

__all__ = ["Refitter"]


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
        self._wake, self._ended, self._asked = threading.Event(), False, False
        self._thread = threading.Thread(target=self._run, name="goalward-refit", daemon=True)

    def start(self) -> None:
        """Begin; the first look is at once."""
        self._thread.start()
        self.nudge()

    def nudge(self, *, now: bool = False) -> None:
        """Look whether a ranking is due, or make one `now` if anything changed; returns at once."""
        self._asked = self._asked or now
        self._wake.set()

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
            try:
                # Answers that came while a ranking was made may be worth another one; where
                # nothing is left to rank, none is made.
                while (asked or self.study.due()) and not self._ended:
                    asked = False
                    self._say(busy=True)
                    if self.study.refresh() is None:
                        break
                self.trouble = None
            except GoalwardError as error:
                # Answers go on with the last ranking; the next answer tries again.
                self.trouble = str(error)
            finally:
                self._say(busy=False)

    def _say(self, *, busy: bool) -> None:
        if busy != self.busy:
            self.busy = busy
            self.told()
