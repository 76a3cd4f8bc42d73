"""A thread that fits and ranks while people answer."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from goalward.core.cores import cores
from goalward.errors import GoalwardError
from goalward.studio.study.study import Study

LOG = logging.getLogger(__name__)
CHECK_PAUSE = 19.0
"""Events are checked in a twentieth of the time, so that answers come first."""
# Studies of one process take turns: ten that fit at once would all be slow, and so would answers.
_PREPARING = threading.BoundedSemaphore(1)
_FITTING = threading.BoundedSemaphore(max(1, cores() // 2))
ENDING = "The server is shutting down; rows are prepared and ranked when it starts again."


class Refitter:
    """A thread that calls `study.refresh()` whenever a new ranking is due, and `notify` at each step."""

    def __init__(self, study: Study, notify: Callable[[], None] = lambda: None) -> None:
        self.study, self.notify = study, notify
        self.busy = False
        self.trouble: str | None = None
        self.damage: str | None = None
        self.preparing: str | None = None
        self._wake, self._begun, self._ended, self._asked = threading.Event(), False, False, False
        self._beginning, self._reading = threading.Lock(), threading.Lock()
        self._thread = threading.Thread()

    def start(self) -> None:
        """Begin, or begin again after `close`; the first look is at once."""
        self._begun, self._ended = True, False
        if not self.study.checked:
            threading.Thread(target=self._check, name="goalward-check", daemon=True).start()
        self.nudge()

    @property
    def ready(self) -> bool:
        """Whether the features of the rows are there."""
        return self.study.pool.ready

    def compute(self, name: str, **given: Any) -> Any:
        """Return what a page asks of the model or of all rows: see `COMPUTED`."""
        return COMPUTED[name](self.study, **given)

    def _check(self) -> None:
        """Check every event that opening did not."""
        try:
            self.study.check(pause=CHECK_PAUSE, turn=self._reading)
        except GoalwardError as error:
            self.damage = str(error)
            self._tell()

    def nudge(self, *, now: bool = False) -> None:
        """Look whether a ranking is due, or make one `now` if anything changed; returns at once."""
        self._asked = self._asked or now
        self._wake.set()
        with self._beginning:
            # If anything ended the thread, the next answer starts another.
            if self._begun and not self._ended and not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=self._run, name="goalward-refit", daemon=True
                )
                self._thread.start()

    def end(self) -> None:
        self._ended = True
        self._wake.set()

    def close(self) -> None:
        """End after the fit that is under way."""
        self.end()
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
                # Whatever it is, the page must show it.
                LOG.exception("A fit failed; the next answer tries again.")
                trouble = _failure(error)
            finally:
                self._say(busy=False, trouble=trouble)

    def _catch_up(self) -> None:
        if not self.study.pool.ready:
            try:
                with self._turn(_PREPARING):
                    self._prepare("reading the rows")
                    self.study.pool.prepared(self._prepare)
            finally:
                self.preparing = None
                self._tell()
        # Answers given during a ranking may be worth another one.
        while not self._ended and (self._asked or self.study.due()):
            self._asked = False
            with self._turn(_FITTING):
                self._say(busy=True, trouble=self.trouble)
                with self._reading:  # a check that waits for Python's lock would hold the study
                    if self._ended or self.study.refresh() is None:
                        return

    @contextmanager
    def _turn(self, turns: threading.Semaphore) -> Iterator[None]:
        while not turns.acquire(timeout=0.2):
            if self._ended:
                raise GoalwardError(ENDING)
        try:
            yield
        finally:
            turns.release()

    def _prepare(self, message: str) -> None:
        if self._ended:
            raise GoalwardError(ENDING)
        self.preparing = message
        self._tell()

    def _say(self, *, busy: bool, trouble: str | None) -> None:
        if (busy, trouble) != (self.busy, self.trouble):
            self.busy, self.trouble = busy, trouble
            self._tell()

    def _tell(self) -> None:
        try:
            self.notify()
        except Exception:
            # Pages poll too, and fits must go on.
            LOG.exception("Open pages could not be notified of a fit.")


def _why(study: Study, row: int) -> dict[str, Any]:
    reasons = study.why(row)
    labels = [
        {
            "label": label,
            "probability": probability,
            "utility": reasons.utility.get(label),
            "helps": [vars(effect) for effect in reasons.helps.get(label, [])],
            "hurts": [vars(effect) for effect in reasons.hurts.get(label, [])],
        }
        for label, probability in reasons.proba.items()
    ]
    scores = {"gain": reasons.gain, "recipe": reasons.recipe, "spread": reasons.spread}
    return {"row": row, **scores, "labels": labels}


def _words(study: Study, row: int) -> list[dict[str, Any]]:
    weights = study.why(row).words()
    return [{"word": weight.word, "push": list(weight.push.values())} for weight in weights]


COMPUTED: dict[str, Callable[..., Any]] = {
    "why": _why,
    "words": _words,
    "unlike": Study.least_similar,
    "sure": Study.sure,
    "export": Study.export,
    "predictions": Study.write_predictions,
}
"""What takes longer than a look-up; arguments and results are plain data."""


def _failure(error: BaseException) -> str:
    remedy = (
        "make room in memory and start the server again"
        if isinstance(error, MemoryError)
        else "start the server again, and report what stands in its terminal"
    )
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return (
        f"The model could not be fitted again ({what[:500]}). All answers are saved, the order of the rows "
        f"is unchanged, and the next answer starts another try. If this happens again, {remedy}."
    )
