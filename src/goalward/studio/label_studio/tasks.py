"""Which task is which row, and the study of a project.

A study made of a project's tasks has their numbers in its table. Tasks made of a study's rows carry
the row's number, and a mark of the pool so that those of another study are not mistaken for them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from goalward.core.whole_file import whole_file
from goalward.errors import BadParameter, Empty, LabelStudioError, StudyExists
from goalward.studio.label_studio.client import Client
from goalward.studio.label_studio.config import LabelConfig
from goalward.studio.store.places import file_of, located
from goalward.studio.study import Study
from goalward.studio.study.settings import usual_learner, written_learner
from goalward.studio.tables import Table

__all__ = ["create_study", "from_project", "identified", "key_of", "rows_as_data"]

ROW, POOL = "goalward_row", "goalward_pool"
TASK, PROJECT = "label_studio_task", "label_studio_project"
OURS = ("goalward_", TASK, PROJECT)
"""How keys start that a task's own data cannot have."""


def identified(
    listed: Iterable[Mapping[str, Any]], study: Study, project: str
) -> tuple[dict[int, int], int]:
    """Return task -> row of those listed that are rows of a study, and how many are not."""
    known = _rows_of_project(study, project) if from_project(study) else None
    mark, n_rows = _pool_mark(study), study.n_rows
    rows, strangers = {}, 0
    for task in listed:
        number, data = task["id"], task["data"]
        if known is not None:
            row = known.get(number)
        else:
            row = data.get(ROW) if data.get(POOL) == mark else None
        # What a task holds can be edited there.
        if type(row) is int and 0 <= row < n_rows:
            rows[number] = row
        else:
            strangers += 1
    return rows, strangers


def key_of(project: Mapping[str, Any]) -> str:
    """Return a project's name that no other has, on this server or another: its number and birth."""
    born = sha256(str(project["created_at"]).encode()).hexdigest()[:6]
    return f"{project['id']}-{born}"


def from_project(study: Study) -> bool:
    """Return whether a study was made of a project's tasks."""
    table = study.pool.table
    return table is not None and {TASK, PROJECT} <= set(table.frame.columns)


def rows_as_data(
    study: Study, rows: Iterable[int], config: LabelConfig, more: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Return what tasks of rows hold: the keys the label config shows, and `more` columns."""
    mark = _pool_mark(study)
    wanted = dict.fromkeys((config.field, *config.fields, *more))
    made = []
    for row in rows:
        shown = study.show(row)
        columns = shown["columns"]
        main = shown.get("text", shown.get("image"))
        cells = columns if main is None else {**columns, config.field: main}
        absent = [name for name in wanted if name not in cells]
        if absent:
            raise BadParameter(
                f"The table has no {', '.join(map(repr, absent))} (it has {', '.join(columns) or 'none'}); "
                "the keys that the label config shows were expected. Name the column with --text, or "
                "change the label config."
            )
        made.append({name: _plain(cells[name]) for name in wanted} | {ROW: row, POOL: mark})
    return made


def create_study(
    place: str,
    client: Client,
    *,
    table: Table | None = None,
    numeric: tuple[str, ...] = (),
    embeddings: str = "auto",
    control: str | None = None,
    learner: Any = None,
    **options: Any,
) -> Study:
    """Return a new study with the project's choices or number, and its overlap as `answers`.

    Parameters
    ----------
    table
        Rows that will become tasks. Without it the tasks the project has are the pool; they are
        written to a table beside the study, with their numbers.
    numeric, embeddings
        Features of tasks, as in `Table`.
    control, learner
        The tag to work with, and what learns its answers. Without them the one Choices tag, or
        the one Number tag where there is none, says whether answers are classes, labels or numbers.
    options
        See `Study.create`.
    """
    project = client.project()
    kind = None if learner is None else written_learner(learner)[0]
    config = LabelConfig.parse(project["label_config"], control, kind)
    if table is None:
        file = file_of(located(place)) or Path(f"label-studio-{client.number}")
        path = file.with_suffix(".tasks.jsonl")
        _write_pool(path, client.tasks(), key_of(project), config.field)
        text = config.field if config.kind in ("HyperText", "Text") else None
        image = config.field if config.kind == "Image" else None
        table = Table(str(path), text, image, numeric, embeddings, alone=True)
    answers = int(project.get("maximum_annotations") or 1)
    chosen = {"answers": answers, **options}
    learner = usual_learner(config.asks.kind) if learner is None else learner
    return Study.create(place, pool=table, classes=list(config.classes), learner=learner, **chosen)


def _write_pool(path: Path, listed: Iterable[Mapping[str, Any]], project: str, field: str) -> None:
    """Write a project's tasks as a table."""
    lines = []
    for task in listed:
        data = {k: _plain(v) for k, v in task["data"].items() if not k.startswith(OURS)}
        if field not in data:
            raise LabelStudioError(
                f"Task {task['id']} has the keys {', '.join(data)}; {field!r}, which the label config "
                "shows, was expected. Repair or delete it."
            )
        lines.append(json.dumps({TASK: task["id"], PROJECT: project, **data}) + "\n")
    if not lines:
        raise Empty(
            "The project has no tasks; some were expected. Import them in Label Studio, or give rows "
            "with --table."
        )
    content = "".join(lines)
    if not path.exists():
        with whole_file(path) as partial:
            partial.write_text(content, encoding="utf-8")
    elif path.read_text(encoding="utf-8") != content:
        raise StudyExists(
            f"{path} is there and holds other tasks; a free place was expected. Remove it, or name "
            "another --study."
        )


def _rows_of_project(study: Study, project: str) -> dict[int, int]:
    """Return task -> row of a study that was made of a project's tasks."""
    assert study.pool.table is not None
    frame = study.pool.table.frame
    made_of = str(frame[PROJECT][0])
    if made_of != project:
        raise LabelStudioError(
            f"The study {study.url} was made of the project {made_of} and this is {project}; the same "
            "one was expected. Use another --study for this project."
        )
    return {int(task): row for row, task in enumerate(frame[TASK].to_list())}


def _pool_mark(study: Study) -> str:
    # Features computed on two machines may differ in the last digits; the file does not.
    kept = study.state.pool
    return str(kept["fingerprint"]["table"] if kept["kind"] == "table" else study.pool.digest)[:8]


def _plain(value: Any) -> Any:
    """Return a cell as JSON holds it."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return json.loads(json.dumps(value, default=str))
