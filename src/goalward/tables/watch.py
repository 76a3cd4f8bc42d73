"""The files of a table while they are in use: noticed when they are no longer what they were."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from goalward.core.npy import NpyFile, stamp_of
from goalward.errors import PoolChanged
from goalward.tables.table import Table

__all__ = ["Watch"]


class Watch:
    """The files of a table whose digests were right, and the stamps they had then.

    Parameters
    ----------
    table
        The table.
    digests
        SHA-256 of its files, as they must be; `PoolChanged` if they are not.
    """

    def __init__(self, table: Table, digests: Mapping[str, str]) -> None:
        self._table, self._digests = table, dict(digests)
        self._stamps = self._verified()

    def check(self, rows: Any = None) -> None:
        """Raise `PoolChanged` if a file has another content.

        Their stamps are looked at, a matter of microseconds; the content where they differ. A file
        that was touched, or put back, is the same file: `rows` that are read from it go on.
        """
        if self._stamps == self._seen():
            return
        self._stamps = self._verified()
        if isinstance(rows, NpyFile):
            rows.stamp = self._stamps["vectors"] or rows.stamp

    def _seen(self) -> dict[str, Any]:
        return {name: stamp_of(path) for name, path in self._table.files.items()}

    def _verified(self) -> dict[str, Any]:
        """Return the stamps of files whose digests are right."""
        # Stamps first: what changes while the digest is taken shows at the next look.
        stamps, now = self._seen(), self._table.fingerprint()
        for name, path in self._table.files.items():
            if now[name] != self._digests[name]:
                raise PoolChanged(
                    f"{path} is not the file the study was made with (its SHA-256 differs), so row "
                    "numbers may mean other rows. Restore it, or start a new study and import the "
                    "labels."
                )
        return stamps
