"""Monitoring: logs as JSON lines, the health check, and metrics for Prometheus."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from logging.handlers import WatchedFileHandler
from pathlib import Path
from time import monotonic
from typing import Any

import prometheus_client as prometheus
from fastapi import APIRouter, Request
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry
from starlette.responses import PlainTextResponse, Response
from starlette.types import Scope

from goalward.errors import BadParameter, GoalwardError
from goalward.studio.server.served_study import ServedStudy

OURS, ACCESS = logging.getLogger("goalward"), logging.getLogger("goalward.access")
ALIKE, ERRORS_ALIKE = 6000, 60
"""Lines a minute from the same place in the code with the same reply: logs must not fill a disk."""
FIELDS = ("method", "path", "status", "ms", "address", "by")
LONGEST = 4000
STUDY_METRICS = {
    "up": (GaugeMetricFamily, "Whether the study can be read."),
    "rows": (GaugeMetricFamily, "Rows of the pool."),
    "labels": (GaugeMetricFamily, "Rows with a label."),
    "skipped": (GaugeMetricFamily, "Rows that were skipped."),
    "events": (CounterMetricFamily, "Events in the journal."),
    "rankings": (CounterMetricFamily, "Models fitted and pools ranked."),
    "listeners": (GaugeMetricFamily, "Pages that are open."),
    "fitting": (GaugeMetricFamily, "Whether a model is being fitted."),
}


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


class Monitor(Collector):
    """Log and count replies, and collect metrics by study; None is a study that could not be opened."""

    def __init__(self, studies: Mapping[str, ServedStudy | None]) -> None:
        self.studies, self.registry = studies, CollectorRegistry()
        self._replies = prometheus.Counter(
            "goalward_replies", "Replies by status.", ["status"], registry=self.registry
        )
        self.registry.register(self)

    def reply(self, scope: Scope, status: int) -> None:
        """Count and log the reply to a request: not its query, where links have their tokens."""
        self._replies.labels(status).inc()
        fields = {
            "method": scope["method"][:20],
            "path": scope["path"][:200],
            "status": status,
            "ms": round(1000 * (monotonic() - scope["state"]["began"]), 1),
            "address": scope["client"][0],
            "by": getattr(scope["state"].get("principal"), "name", None),
        }
        ACCESS.log(logging.INFO if status < 400 else logging.WARNING, "request", extra=fields)

    def collect(self) -> Iterator[Metric]:
        numbers = {name: _numbers(served) for name, served in sorted(self.studies.items())}
        for metric, (kind, words) in STUDY_METRICS.items():
            family = kind(f"goalward_{metric}", words, labels=["study"])
            for name, values in numbers.items():
                if metric in values:
                    family.add_metric([name], values[metric])
            yield family


def _numbers(served: ServedStudy | None) -> dict[str, int]:
    try:
        state = served.study.state if served else None
    except GoalwardError:
        state = None
    if served is None or state is None:
        return {"up": 0}
    return {
        "up": 1,
        "rows": state.n_rows,
        "labels": state.n_labels,
        "skipped": state.n_skipped,
        "events": state.seq,
        "rankings": state.n_rounds,
        "listeners": served.live.listeners,
        "fitting": int(served.refitter.busy),
    }


monitoring = APIRouter()


@monitoring.get("/healthz")
def health(request: Request) -> dict[str, bool | int]:
    """Return that the page answers and how many studies can be read; it needs no token."""
    studies: dict[str, ServedStudy | None] = request.app.state.studies
    readable = sum(_numbers(served)["up"] for served in studies.values())
    if "" in studies:
        return {"ok": True, "study": bool(readable)}
    return {"ok": True, "studies": len(studies), "open": readable}


@monitoring.get("/metrics", response_class=PlainTextResponse)
def metrics(request: Request) -> Response:
    """Return counts in the text format of Prometheus."""
    text = prometheus.generate_latest(request.app.state.monitor.registry)
    return Response(text, media_type=prometheus.CONTENT_TYPE_LATEST)
