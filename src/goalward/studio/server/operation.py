"""For those who run the page: whether it is well, and numbers for Prometheus."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from logging.handlers import WatchedFileHandler
from pathlib import Path
from time import monotonic
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from goalward.errors import BadParameter, GoalwardError
from goalward.studio.server.served_study import ServedStudy

__all__ = ["Bounded", "JsonLines", "Logged", "logs_written", "operation"]


# What the server writes down: a JSON object a line, bounded, without secrets.
#
# A request is its path without what follows the question mark: links carry tokens there. Of lines that
# are alike only so many are written a minute: whoever can make a server write can fill its disk.


OURS, ACCESS = logging.getLogger("goalward"), logging.getLogger("goalward.access")
ALIKE, TROUBLES_ALIKE = 6000, 60
"""Lines a minute, of those that are alike: the same place in the code, and the same reply."""
FIELDS = ("method", "path", "status", "ms", "address", "by")
LONGEST = 4000


class JsonLines(logging.Formatter):
    """A record as one line of JSON: time, level, what happened, and the fields of a request."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        said: dict[str, object] = {
            "time": f"{self.formatTime(record, '%Y-%m-%dT%H:%M:%S')}.{record.msecs:03.0f}",
            "level": record.levelname.lower(),
            "event": record.getMessage()[:LONGEST],
        }
        said |= {name: vars(record)[name] for name in FIELDS if name in vars(record)}
        if record.exc_info:
            # The last lines say where it happened.
            said["trace"] = self.formatException(record.exc_info)[-LONGEST:]
        return json.dumps(said)


class Bounded(logging.Filter):
    """Lets so many lines that are alike pass in a minute; the last says that others are left out.

    Examples
    --------
    >>> bounded, record = Bounded(), logging.makeLogRecord({"msg": "A disk is full.", "levelno": 40})
    >>> sum(bounded.filter(record) for _ in range(1000))
    60
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        super().__init__()
        self.clock = clock
        self._minute, self._seen = 0, Counter[tuple[object, ...]]()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is written."""
        minute = int(self.clock() // 60)
        if minute != self._minute:
            self._minute, self._seen = minute, Counter()
        kind = (record.name, record.pathname, record.lineno, vars(record).get("status"))
        most = ALIKE if record.levelno < logging.WARNING else TROUBLES_ALIKE
        self._seen[kind] += 1
        if self._seen[kind] == most:
            record.msg = f"{record.msg} (others like this are left out until the next minute)"
        return self._seen[kind] <= most


class OwnFile(WatchedFileHandler):
    """A file that its owner alone reads: names and addresses are in it."""

    def _open(self) -> Any:
        return open(
            self.baseFilename,
            self.mode,
            encoding=self.encoding,
            opener=lambda path, flags: os.open(path, flags, 0o600),
        )


@contextmanager
def logs_written(path: Path | None) -> Iterator[None]:
    """Write what happens to a file, which may be rotated, or with "-" to stderr.

    Without a path there are errors only, on stderr, as people read them.
    """
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    if path is not None and str(path) != "-":
        try:
            handler = OwnFile(path, encoding="utf-8")
        except OSError as error:
            raise BadParameter(
                f"--log {path} cannot be written ({error}); a file, or - for stderr, was expected."
            ) from error
    if path is not None:
        handler.setFormatter(JsonLines())
    handler.setLevel(logging.ERROR if path is None else logging.INFO)
    handler.addFilter(Bounded())
    root, before = logging.getLogger(), OURS.level
    root.addHandler(handler)
    OURS.setLevel(before if path is None else logging.INFO)
    try:
        yield
    finally:
        OURS.setLevel(before)
        root.removeHandler(handler)
        handler.close()


class Logged:
    """An application whose requests are written down, with who asked and how long it took."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, and write it down when its reply begins."""
        began = monotonic()

        async def written(message: Message) -> None:
            if message["type"] == "http.response.start":
                person = scope.get("state", {}).get("person")
                fields = {
                    "method": scope["method"][:20],
                    "path": scope["path"][:200],
                    "status": message["status"],
                    "ms": round(1000 * (monotonic() - began), 1),
                    "address": (scope.get("client") or ("",))[0],
                    "by": getattr(person, "name", None),
                }
                level = logging.INFO if message["status"] < 400 else logging.WARNING
                ACCESS.log(level, "request", extra=fields)
            await send(message)

        logged = scope["type"] == "http" and ACCESS.isEnabledFor(logging.INFO)
        await self.app(scope, receive, written if logged else send)


MEASURED = {
    "up": ("gauge", "Whether the study can be read."),
    "rows": ("gauge", "Rows of the pool."),
    "labels": ("gauge", "Rows with a label."),
    "skipped": ("gauge", "Rows that were skipped."),
    "events_total": ("counter", "Events in the journal."),
    "rankings_total": ("counter", "Models fitted and pools ranked."),
    "listeners": ("gauge", "Pages that are open."),
    "fitting": ("gauge", "Whether a model is being fitted."),
}
operation = APIRouter()
"""The routes that machines watch."""


@operation.get("/healthz")
def health(request: Request) -> dict[str, bool | int]:
    """Say that the page answers and its studies can be read; nothing else, for it needs no token."""
    listed = request.app.state.listed()
    well = sum(_numbers(served)["up"] for served in listed.values())
    if "" in listed:
        return {"ok": True, "study": bool(well)}
    return {"ok": True, "studies": len(listed), "open": well}


@operation.get("/metrics", response_class=PlainTextResponse)
def metrics(request: Request) -> Response:
    """Return counts in the text form that Prometheus reads."""
    replies: Counter[int] = request.app.state.replies
    found = {name: _numbers(served) for name, served in sorted(request.app.state.listed().items())}
    lines: list[str] = []
    for name, (kind, words) in MEASURED.items():
        lines += [f"# HELP goalward_{name} {words}", f"# TYPE goalward_{name} {kind}"]
        for study, numbers in found.items():
            of = f'{{study="{study}"}}' if study else ""
            lines += [f"goalward_{name}{of} {numbers[name]}"] if name in numbers else []
    lines += [
        "# HELP goalward_replies_total Replies by status.",
        "# TYPE goalward_replies_total counter",
    ]
    lines += [f'goalward_replies_total{{status="{s}"}} {n}' for s, n in sorted(replies.items())]
    return Response("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")


def _numbers(served: ServedStudy | None) -> dict[str, int]:
    """Return what is counted of a study; of one that cannot be read just now, that."""
    if served is None:
        return {"up": 0}
    try:
        state = served.study.state
    except GoalwardError:
        return {"up": 0}
    return {
        "up": 1,
        "rows": state.n_rows,
        "labels": state.n_labels,
        "skipped": state.n_skipped,
        "events_total": state.seq,
        "rankings_total": len(state.rounds),
        "listeners": served.live.listeners,
        "fitting": int(served.refitter.busy),
    }
