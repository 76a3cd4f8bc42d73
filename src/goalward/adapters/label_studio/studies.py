"""The study of a project: of rows in a table, or of the tasks the project has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from goalward.adapters.label_studio.client import Client
from goalward.adapters.label_studio.config import LabelConfig
from goalward.adapters.label_studio.tasks import key_of, write_pool
from goalward.journal.engine import file_of, located
from goalward.study import Study
from goalward.tables import Table

__all__ = ["create_study"]

TEXTS = ("HyperText", "Text")


def create_study(
    place: str,
    client: Client,
    *,
    table: Table | None = None,
    numeric: tuple[str, ...] = (),
    embeddings: str = "auto",
    control: str | None = None,
    **options: Any,
) -> Study:
    """Return a new study with the project's classes, and its overlap as `answers`.

    Parameters
    ----------
    table
        Rows that will become tasks. Without it the tasks the project has are the pool; they are
        written to a table beside the study, with their numbers.
    numeric, embeddings
        Features of tasks, as in `Table`.
    options
        See `Study.create`.
    """
    project = client.project()
    config = LabelConfig.parse(project["label_config"], control)
    if table is None:
        path = _beside(place, client.number)
        write_pool(path, client.tasks(), key_of(project), config.field)
        text = config.field if config.kind in TEXTS else None
        image = config.field if config.kind == "Image" else None
        table = Table(str(path), text, image, numeric, embeddings)
    answers = int(project.get("maximum_annotations") or 1)
    chosen = {"answers": answers, **options}
    return Study.create(place, pool=table, classes=list(config.classes), **chosen)


def _beside(place: str, project: int) -> Path:
    path = file_of(located(place))
    return path.with_suffix(".tasks.jsonl") if path else Path(f"label-studio-{project}.tasks.jsonl")
