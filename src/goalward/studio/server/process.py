"""Fits in a process of their own: the server looks things up, and no answer waits for Python's lock.

The process opens the studies itself; messages are lines of JSON on its pipes, so that it ends with the
server, however that ends.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from typing import Any, ClassVar, TextIO

from goalward import errors
from goalward.studio.study import Study
from goalward.studio.study.refitter import Refitter
from goalward.studio.tables import Table

TELLS = ("busy", "trouble", "damage", "preparing", "ready")
"""What a refitter tells of itself."""
READERS = 4
GONE = (
    "The background process that fits models stopped unexpectedly. All answers are saved; it restarts "
    "with the next answer. If this happens again, free some memory."
)


class Process:
    """The process, started when it is first needed and again if it was killed."""

    def __init__(self) -> None:
        self._lock, self._numbers = threading.Lock(), count(1)
        self._child: subprocess.Popen[str] | None = None
        self._waiting: dict[int, tuple[subprocess.Popen[str], Future[Any]]] = {}
        self.refitters: dict[int, RemoteRefitter] = {}

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def send(self, answer: Future[Any] | None = None, **message: Any) -> None:
        """Send a message; to a new process after all that is known of studies."""
        with self._lock:
            if not self.running:
                self._child = subprocess.Popen(
                    [sys.executable, "-c", f"from {__name__} import main; main()"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    encoding="utf-8",
                    # Ctrl-C is the server's. Not a session: Linux shares its time among these first.
                    process_group=0,
                )
                threading.Thread(target=self._listen, args=(self._child,), daemon=True).start()
                for key, refitter in self.refitters.items():
                    self._write({"key": key, "do": "open", **refitter.opening()})
            if answer is not None:
                assert self._child is not None
                message["id"] = number = next(self._numbers)
                self._waiting[number] = self._child, answer
            self._write(message)

    def open(self, refitter: RemoteRefitter) -> None:
        """Open the study of a refitter there."""
        self.refitters[refitter.key] = refitter
        again = (
            {"do": "open", **refitter.opening()} if self.running else {"do": "nudge", "now": False}
        )
        self.send(key=refitter.key, **again)

    def close(self, key: int) -> None:
        """Close a study there, if the process still runs."""
        with self._lock:
            if self.refitters.pop(key, None) is not None and self.running:
                self._write({"key": key, "do": "close"})

    def _write(self, message: dict[str, Any]) -> None:
        assert self._child is not None
        assert self._child.stdin is not None
        with suppress(OSError):  # it has ended: whoever waits hears it from `_listen`
            self._child.stdin.write(json.dumps(message) + "\n")
            self._child.stdin.flush()

    def call(self, **message: Any) -> Any:
        """Send a message and return the answer, or raise what was raised there."""
        answer = Future[Any]()
        self.send(answer, **message)
        return answer.result()

    def _listen(self, child: subprocess.Popen[str]) -> None:
        assert child.stdout is not None
        for line in child.stdout:
            if not line.endswith("\n"):
                break  # killed while it wrote
            message = json.loads(line)
            if "id" not in message:
                if refitter := self.refitters.get(message["key"]):
                    refitter.hear(**message["status"])
                continue
            _, answer = self._waiting.pop(message["id"])
            if "error" in message:
                kind, text = message["error"]
                answer.set_exception(getattr(errors, kind, errors.GoalwardError)(text))
            else:
                answer.set_result(message["result"])
        child.wait()
        assert child.stdin is not None
        with self._lock:  # another process may have been started since
            for pipe in (child.stdin, child.stdout):
                with suppress(OSError):
                    pipe.close()
            waiting = list(self._waiting.items())
            mine = [number for number, (asked, _) in waiting if asked is child]
            answers = [self._waiting.pop(number)[1] for number in mine]
            left = list(self.refitters.values()) if self._child is child else []
        for answer in answers:
            answer.set_exception(errors.GoalwardError(GONE))
        for refitter in left:
            refitter.hear(busy=False, preparing=None, trouble=GONE)


PROCESS, KEYS = Process(), count(1)


class RemoteRefitter:
    """A `Refitter` of a study in the other process, which opens the study there."""

    def __init__(self, study: Study, notify: Callable[[], None]) -> None:
        self.study, self.notify, self.key = study, notify, next(KEYS)
        self.busy = self.ready = False
        self.trouble: str | None = None
        self.damage: str | None = None
        self.preparing: str | None = None

    def opening(self) -> dict[str, Any]:
        """Return where the study is, with its password, and its rows if they were moved."""
        place, moved = self.study.place()
        return {"place": place, "rows": moved and [str(moved.path), moved.embeddings]}

    def hear(self, first: list[int] | None = None, **told: Any) -> None:
        if first is not None:
            self.study.ask_first(first)
        for name, value in told.items():
            setattr(self, name, value)
        self.notify()

    def start(self) -> None:
        """Open the study there, and begin."""
        self.study.ask_first([])
        PROCESS.open(self)

    def nudge(self, *, now: bool = False) -> None:
        if self.key in PROCESS.refitters:
            PROCESS.send(key=self.key, do="nudge", now=now)

    def compute(self, name: str, **given: Any) -> Any:
        return PROCESS.call(key=self.key, do="compute", name=name, given=given)

    def end(self) -> None:
        """End; what is under way is not waited for: it is stored whole, or not at all."""
        PROCESS.close(self.key)

    close = end


class Opened:
    """A study in the process that fits: its refitter, and what it tells the server."""

    through: ClassVar[Callable[..., Any] | None] = None
    """What calls the database."""
    replies: ClassVar[TextIO] = sys.stdout
    """The pipe to the server."""

    def __init__(self, key: int, place: str, rows: list[str] | None) -> None:
        self.key, self._first = key, False
        pool = rows and Table(rows[0], embeddings=rows[1])
        self.study = Study.open(place, pool=pool, through=Opened.through)
        self.refitter = Refitter(self.study, self.tell)
        self.tell()  # features that are there already are not told of by a fit
        self.refitter.start()

    def tell(self) -> None:
        """Send how far the refitter is, and, once the features are there, which rows to ask first."""
        status = {name: getattr(self.refitter, name) for name in TELLS}
        if status["ready"] and not self._first:
            self._first = True
            status["first"] = self.study.first_rows()
        reply(key=self.key, status=status)


_WRITING = threading.Lock()


def reply(**message: Any) -> None:
    """Send a message to the server."""
    with _WRITING, suppress(OSError):  # the server has ended, and so does this process
        Opened.replies.write(json.dumps(message) + "\n")
        Opened.replies.flush()


def answered(opened: dict[int, Future[Opened]], message: dict[str, Any]) -> None:
    """Do what a message says, and reply to one with a number."""
    number, key, do = message.pop("id", None), message.pop("key"), message.pop("do")
    result: Any = None
    try:
        there = opened[key].result()
        if do == "nudge":
            there.refitter.nudge(now=message["now"])
        elif do == "close":
            there.refitter.close()
            there.study.close()
        else:
            result = there.refitter.compute(message["name"], **message["given"])
    except Exception as error:
        known = hasattr(errors, type(error).__name__)
        text = str(error) if known else f"{type(error).__name__}: {error}"
        if number is not None:
            reply(id=number, error=[type(error).__name__, text])
        else:
            reply(key=key, status={"trouble": text})
        return
    if number is not None:
        reply(id=number, result=result)


def main() -> None:
    """Serve the messages of the server until its pipe ends."""
    # Whatever is printed here, by compiled code too, must not be taken for a message.
    Opened.replies, sys.stdout = os.fdopen(os.dup(1), "w", encoding="utf-8"), sys.stderr
    os.dup2(2, 1)
    # Who reads holds the study: threads of their own do, which are not nice and wait for no other.
    started = threading.Barrier(READERS)
    reads = ThreadPoolExecutor(READERS)
    for waiting in [reads.submit(started.wait) for _ in range(READERS)]:
        waiting.result()
    Opened.through = lambda work, *given, **more: reads.submit(work, *given, **more).result()
    with suppress(OSError, AttributeError):
        os.nice(19)  # of this thread, and of all that it starts
    # A thread that reads holds the study meanwhile: it must not wait long for one that fits.
    sys.setswitchinterval(0.0005)
    opened: dict[int, Future[Opened]] = {}
    places: dict[int, tuple[Any, ...]] = {}
    with ThreadPoolExecutor() as threads:
        for line in sys.stdin:
            message = json.loads(line)
            key = message["key"]
            if message["do"] == "open":
                places[key] = key, message["place"], message["rows"]
                message = {"key": key, "do": "nudge", "now": False}
            # One that could not be opened is tried again.
            if key not in opened or (opened[key].done() and opened[key].exception()):
                opened[key] = threads.submit(Opened, *places[key])
            threads.submit(answered, opened, message)
        # Answers are on disk, and a ranking is stored whole or not at all.
        os._exit(0)
