"""Copies of a study: before it is upgraded, and whenever its owner asks for one."""

from __future__ import annotations

from itertools import count
from pathlib import Path

from sqlalchemy import Connection, text

from goalward.core.whole_file import whole_file
from goalward.journal.engine import opened

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
    with whole_file(target) as partial:
        partial.touch(0o600)
        # Connections of its own: the copy is of what is committed.
        source, copy = opened(path, mode="ro"), opened(partial)
        try:
            source.backup(copy)
        finally:
            source.close()
            copy.close()
    return str(target)
