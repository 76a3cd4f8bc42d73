"""A plan written into a project: predictions that decide what is served, columns that people see."""

from __future__ import annotations

from typing import Any

from goalward.adapters.label_studio.client import Client
from goalward.adapters.label_studio.config import LabelConfig
from goalward.adapters.label_studio.plan import OURS, Plan
from goalward.adapters.label_studio.tasks import RANK, UTILITY, Tasks

__all__ = ["push_columns", "push_predictions"]

BY_SCORE = "Uncertainty sampling"
"""What Label Studio calls serving the lowest score first."""
VIEW = "goalward: next first"


def push_predictions(client: Client, plan: Plan, tasks: Tasks, config: LabelConfig) -> int:
    """Make a project serve tasks as planned and return how many predictions that took."""
    project, versions, of_row = client.project(), client.versions(), tasks.of_row
    lines: list[dict[str, Any]] = []
    if project.get("model_version") != plan.version or project.get("sampling") != BY_SCORE:
        if plan.version in versions:
            # A push that was cut short: its predictions would stand twice.
            client.remove_version(plan.version)
        rows = [question.row for question in plan.questions if question.row in of_row]
        lines = [{"task": of_row[row], **plan.prediction(row, config)} for row in rows]
        client.add_predictions(lines)
        # Only now: until all are there, the ones of the last round serve.
        client.set_project(model_version=plan.version, sampling=BY_SCORE)
    for version in versions:
        # The Data Manager's score may be the mean over all versions, so old ones have to go.
        if version.startswith(OURS) and version != plan.version:
            client.remove_version(version)
    return len(lines)


def push_columns(client: Client, plan: Plan, tasks: Tasks, count: int) -> int:
    """Write the columns of the first `count` rows, clear those of others, and return how many changed."""
    of_row = tasks.of_row
    wanted = {of_row[row]: columns for row, columns in plan.columns(count).items() if row in of_row}
    changed = [t for t in {**wanted, **tasks.ranked} if wanted.get(t) != tasks.ranked.get(t)]
    for task in changed:
        # The data of a task is replaced whole: read it at the last moment.
        data = client.task(task)["data"]
        others = {key: value for key, value in data.items() if key not in (RANK, UTILITY)}
        client.set_data(task, others | wanted.get(task, {}))
    tasks.ranked.clear()
    tasks.ranked.update(wanted)
    if wanted:
        client.add_view(VIEW, f"tasks:data.{RANK}")
    return len(changed)
