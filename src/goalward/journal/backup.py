"""A copy of an older study before it is upgraded."""

from __future__ import annotations

import os
import sqlite3
from itertools import count
from pathlib import Path

from sqlalchemy import Connection, text

__all__ = ["keep_backup"]

TABLES = ("goalward_study", "goalward_events", "goalward_blobs")


def keep_backup(connection: Connection, path: Path | None, version: int) -> str:
    """Return where the copy is: a file beside an SQLite study, tables beside those of a server."""
    if path is None:
        for table in TABLES:
            connection.execute(text(f"CREATE TABLE {table}_v{version} AS SELECT * FROM {table}"))
        return f"{TABLES[0]}_v{version}"
    target = next(
        candidate
        for n in count()
        if not (
            candidate := path.with_name(f"{path.name}.v{version}{f'.{n}' if n else ''}.bak")
        ).exists()
    )
    # A connection of its own: the copy is of what is committed.
    source, copy = sqlite3.connect(f"file:{path}?mode=ro", uri=True), sqlite3.connect(target)
    try:
        source.backup(copy)
    finally:
        source.close()
        copy.close()
    with target.open("rb+") as file:
        os.fsync(file.fileno())
    return str(target)
