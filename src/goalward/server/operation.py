"""For those who run the page: whether it is well, and numbers for Prometheus."""

from __future__ import annotations

from collections import Counter

from fastapi import APIRouter, Request
from starlette.responses import PlainTextResponse, Response

from goalward.errors import GoalwardError
from goalward.server.served_study import ServedStudy

__all__ = ["operation"]

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
