"""Which studies there are at a place."""

from __future__ import annotations

import json
from pathlib import Path

from sqlalchemy import Connection, text

from goalward.journal.places import NAME, SCHEMA, file_of, located
from goalward.journal.store import Store

__all__ = ["studies_at"]

SCHEMAS = (
    "SELECT table_schema FROM information_schema.tables "
    "WHERE table_name = 'goalward_events' ORDER BY table_schema"
)


def studies_at(place: str) -> list[str]:
    """Return the address of every study in a database, or in a folder; of one study, its own.

    Examples
    --------
    >>> studies_at("labels.db")
    ['labels.db']
    """
    if "://" not in place and Path(place).is_dir():
        return [str(path) for path in sorted(Path(place).glob("*.labels.db"))]
    url = located(place)
    if file_of(url) is not None or "study" in url.query:
        return [place]
    store = Store(place)
    found = store.run(_names)
    store.close()
    joint = "&" if url.query else "?"
    return [place if name is None else f"{place}{joint}study={name}" for name in found]


def _names(connection: Connection) -> list[str | None]:
    here = connection.execute(text("SELECT current_schema()")).scalar()
    names: list[str | None] = []
    for schema in connection.execute(text(SCHEMAS)).scalars().all():
        name = None if schema == here else schema.removeprefix(SCHEMA)
        if name is not None and not (schema.startswith(SCHEMA) and NAME.fullmatch(name)):
            continue
        first = text(f'SELECT body FROM "{schema}".goalward_events WHERE seq = 1')
        body = connection.execute(first).scalar()
        # Teams are kept in the same tables.
        if body is not None and json.loads(body)["kind"] == "created":
            names.append(name)
    return names
