"""Monitoring: logs as JSON lines, and the health check."""

import json
import logging
import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from logging.handlers import WatchedFileHandler
from pathlib import Path
from time import monotonic
from typing import Any

from fastapi import APIRouter, Request
from starlette.types import Scope

from goalward.errors import BadParameter, GoalwardError
from goalward.studio.server.served_study import ServedStudy

OURS, ACCESS = logging.getLogger("goalward"), logging.getLogger("goalward.access")
ALIKE, ERRORS_ALIKE = 6000, 60
"""Lines a minute from the same place in the code with the same reply: logs must not fill a disk."""
FIELDS = ("method", "path", "status", "ms", "address", "by")
LONGEST = 4000


class JsonLines(logging.Formatter):
    """A record as one line of JSON: time, level, event, and the fields of a request."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": f"{self.formatTime(record, '%Y-%m-%dT%H:%M:%S')}.{record.msecs:03.0f}",
            "level": record.levelname.lower(),
            "event": record.getMessage()[:LONGEST],
        }
        line |= {name: vars(record)[name] for name in FIELDS if name in vars(record)}
        if record.exc_info:
            # The last lines say where it happened.
            line["trace"] = self.formatException(record.exc_info)[-LONGEST:]
        return json.dumps(line)


class RateLimit(logging.Filter):
    """Drops records that are alike once there were enough of them in a minute."""

    def __init__(self) -> None:
        super().__init__()
        self.clock, self._minute, self._seen = monotonic, 0, Counter[tuple[object, ...]]()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is written; the last one says that others are left out."""
        minute = int(self.clock() // 60)
        if minute != self._minute:
            self._minute, self._seen = minute, Counter()
        kind = (record.name, record.pathname, record.lineno, vars(record).get("status"))
        most = ALIKE if record.levelno < logging.WARNING else ERRORS_ALIKE
        self._seen[kind] += 1
        if self._seen[kind] == most:
            record.msg = f"{record.msg} (others like this are left out until the next minute)"
        return self._seen[kind] <= most


class PrivateFile(WatchedFileHandler):
    """A log file that only its owner can read, reopened after logrotate moved it away."""

    def _open(self) -> Any:
        private = partial(os.open, mode=0o600)
        return open(self.baseFilename, self.mode, encoding=self.encoding, opener=private)


@contextmanager
def logging_to(path: Path | None) -> Iterator[None]:
    """Write JSON lines to a file, or with "-" to stderr; without a path only errors, as text."""
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    if path is not None and str(path) != "-":
        try:
            handler = PrivateFile(path, encoding="utf-8")
        except OSError as error:
            raise BadParameter(
                f"--log {path} cannot be written ({error}). Name a file, or - for stderr."
            ) from error
    if path is not None:
        handler.setFormatter(JsonLines())
    handler.setLevel(logging.ERROR if path is None else logging.INFO)
    handler.addFilter(RateLimit())
    root, before = logging.getLogger(), OURS.level
    root.addHandler(handler)
    OURS.setLevel(before if path is None else logging.INFO)
    try:
        yield
    finally:
        OURS.setLevel(before)
        root.removeHandler(handler)
        handler.close()


def log_reply(scope: Scope, status: int) -> None:
    """Log the reply to a request: not its query, where links have their tokens."""
    fields = {
        "method": scope["method"][:20],
        "path": scope["path"][:200],
        "status": status,
        "ms": round(1000 * (monotonic() - scope["state"]["began"]), 1),
        "address": scope["client"][0],
        "by": getattr(scope["state"].get("principal"), "name", None),
    }
    ACCESS.log(logging.INFO if status < 400 else logging.WARNING, "request", extra=fields)


def _readable(served: ServedStudy | None) -> bool:
    with suppress(GoalwardError):
        return served is not None and served.study.state is not None
    return False


monitoring = APIRouter()


@monitoring.get("/healthz")
def health(request: Request) -> dict[str, bool | int]:
    """Return that the page answers and how many studies can be read; it needs no token."""
    studies: dict[str, ServedStudy | None] = request.app.state.studies
    readable = sum(map(_readable, studies.values()))
    if "" in studies:
        return {"ok": True, "study": bool(readable)}
    return {"ok": True, "studies": len(studies), "open": readable}
