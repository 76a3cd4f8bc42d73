"""For those who run the page: whether it is well, and numbers for Prometheus."""

from __future__ import annotations

from collections import Counter

from fastapi import APIRouter, Request
from starlette.responses import PlainTextResponse, Response

from goalward.server.api import Served

__all__ = ["operation"]

operation = APIRouter()
"""The routes that machines watch."""


@operation.get("/healthz")
def health(request: Request) -> dict[str, bool]:
    """Say that the page answers and its study can be read; nothing else, for it needs no token."""
    served = request.app.state.served
    return {"ok": True, "study": served is not None and served.study.state.seq > 0}


@operation.get("/metrics", response_class=PlainTextResponse)
def metrics(request: Request, served: Served) -> Response:
    """Return counts in the text form that Prometheus reads."""
    state = served.study.state
    replies: Counter[int] = request.app.state.replies
    numbers = {
        ("rows", "gauge", "Rows of the pool."): state.n_rows,
        ("labels", "gauge", "Rows with a label."): len(state.labels),
        ("skipped", "gauge", "Rows that were skipped."): len(state.skipped),
        ("events_total", "counter", "Events in the journal."): state.seq,
        ("rankings_total", "counter", "Models fitted and pools ranked."): len(state.rounds),
        ("listeners", "gauge", "Pages that are open."): served.live.listeners,
        ("fitting", "gauge", "Whether a model is being fitted."): int(served.refitter.busy),
    }
    lines: list[str] = []
    for (name, kind, help_), value in numbers.items():
        lines += [f"# HELP goalward_{name} {help_}", f"# TYPE goalward_{name} {kind}"]
        lines.append(f"goalward_{name} {value}")
    lines += [
        "# HELP goalward_replies_total Replies by status.",
        "# TYPE goalward_replies_total counter",
    ]
    lines += [f'goalward_replies_total{{status="{s}"}} {n}' for s, n in sorted(replies.items())]
    return Response("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")
