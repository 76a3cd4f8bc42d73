"""Pictures of a table: found by row number, only inside one folder, only as pictures."""

from __future__ import annotations

from pathlib import Path

from goalward.errors import DataMissing
from goalward.study import Study

__all__ = ["picture"]

LARGEST = 32 * 2**20
SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
)


def picture(study: Study, row: int, folder: Path | None = None) -> tuple[bytes, str]:
    """Return the picture of a row and its type.

    What the table names must lie, links followed, in `folder` (by default the table's own), and
    begin like a picture. SVG is left out: it can hold scripts.
    """
    table = study.pool.table
    named = study.show(row).get("image")
    if table is None or not named:
        raise DataMissing(f"Row {row} has no picture.")
    home = (folder or table.folder).resolve()
    try:
        path = (home / str(named)).resolve(strict=True)
    except (OSError, ValueError, RuntimeError) as error:
        raise DataMissing(f"The picture of row {row} is not there.") from error
    if not path.is_relative_to(home) or not path.is_file():
        raise DataMissing(
            f"The picture of row {row} lies outside the folder of the table. Move it there, or start "
            "with --images FOLDER."
        )
    try:
        if path.stat().st_size > LARGEST:
            raise DataMissing(f"The picture of row {row} is larger than {LARGEST // 2**20} MB.")
        content = path.read_bytes()
    except OSError as error:
        raise DataMissing(
            f"The picture of row {row} could not be read ({error.strerror or error}). Look at its "
            "permissions, or at the disk it lies on."
        ) from error
    kind = _kind(content)
    if kind is None:
        raise DataMissing(f"The file of row {row} is no PNG, JPEG, GIF, WebP, AVIF or BMP picture.")
    return content, kind


def _kind(content: bytes) -> str | None:
    for start, kind in SIGNATURES:
        if content.startswith(start):
            return kind
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    if content[4:12] in (b"ftypavif", b"ftypavis"):
        return "image/avif"
    return None
