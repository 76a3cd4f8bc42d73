"""Computed features in a per-user cache, and files of a table watched for changes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import polars as pl
from numpy.typing import NDArray
from platformdirs import user_cache_path

from goalward.core.files import stamp_of, whole_file
from goalward.errors import NotWritten, PoolChanged
from goalward.studio.tables.cells import as_text
from goalward.studio.tables.read import PICTURE

ENDS = 2**15
"""Bytes at the beginning, and at the end, of a picture that are looked at."""
Arrays = dict[str, NDArray[Any]]


def cached(
    recipe: str, texts: Sequence[str], compute: Callable[[], Arrays], *, features: bool = True
) -> Arrays:
    """Return the features of texts ("X"), or the other arrays made of them, cached by content."""
    digest = sha256(recipe.encode())
    for text in texts:
        content = text.encode("utf-8", "surrogatepass")
        # Lengths first: two texts are not one longer text.
        digest.update(len(content).to_bytes(8, "little") + content)
    key = digest.hexdigest()
    path = Path(user_cache_path("goalward")) / "features" / f"{key}.npz"
    # Whatever is wrong with a file that need not be there.
    with suppress(Exception), path.open("rb") as stored, np.load(stored) as archive:
        wanted = [key] if features else [name for name in archive.files if name != key]
        if key in archive.files and wanted:
            return {"X" if name == key else name: archive[name] for name in wanted}
    arrays = compute()
    # A cache saves time and nothing else: a full disk is no reason to stop here.
    with suppress(OSError, NotWritten):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Only the user reads it: texts can be guessed from their features.
        own = partial(os.open, mode=0o600)
        with whole_file(path, force=True) as place, open(place, "wb", opener=own) as file:
            kept: Any = {key if name == "X" else name: array for name, array in arrays.items()}
            np.savez(file, **kept)
    return {name: array for name, array in arrays.items() if (name == "X") == features}


class Watch:
    """The files of a table, which must keep their `digests`; `PoolChanged` if they do not."""

    def __init__(self, files: Mapping[str, Path], digests: Mapping[str, str]) -> None:
        self._files, self._digests = files, digests
        self._stamps: dict[str, Any] = {}
        self.check()

    def check(self, rows: Any = None) -> None:
        """Raise `PoolChanged` if a file's content changed; it is read only where its stamp differs."""
        files = self._files
        # Stamps first: what changes while the digest is taken shows at the next look.
        stamps = {name: _stamps(path) for name, path in files.items()}
        if stamps == self._stamps:
            return
        for name, digest in digests(files).items():
            if digest != self._digests[name]:
                raise PoolChanged(
                    f"{files[name]} is not the file the study was made with (its SHA-256 differs). If "
                    "rows were appended, start `goalward label` again, or call study.extend(); else "
                    "restore it, or start a new study and import the labels."
                )
        self._stamps = stamps
        if hasattr(rows, "stamp"):
            rows.stamp = stamps["vectors"][0] or rows.stamp


def digests(files: Mapping[str, Path]) -> dict[str, str]:
    """Return digests of the contents of files, and of folders of pictures."""
    made = {}
    for name, path in files.items():
        try:
            if path.is_dir():
                inside = sorted((p.relative_to(path).as_posix(), p) for p in path.rglob("*"))
                listed = [(part, _ends(file)) for part, file in inside if file.is_file()]
                content = repr(listed).encode("utf-8", "surrogateescape")
                made[name] = sha256(content).hexdigest()
            else:
                with path.open("rb") as file:
                    made[name] = file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise PoolChanged(
                f"{path}, which holds rows of the study, could not be opened ({error.strerror}). Put it "
                "back, or say where it is now when the study is opened."
            ) from error
    return made


def rows_digest(frame: pl.DataFrame, folder: Path | None = None) -> str:
    """Return a digest of rows, by their cells, and of the pictures in `folder`."""
    if folder is not None:
        looked = [repr(_ends(folder / name)) for name in frame[PICTURE]]
        frame = frame.with_columns(pl.Series("looked", looked, dtype=pl.String))
    digest = sha256()
    for part in as_text(frame).iter_slices(2**16):
        digest.update(part.write_csv().encode())
    return digest.hexdigest()


def _stamps(path: Path) -> list[Any]:
    """Return the stamps of a file, or of a folder and those in it, which change with their lists."""
    inside = (sub for sub in path.rglob("*") if sub.is_dir()) if path.is_dir() else ()
    return [stamp_of(place) for place in (path, *inside)]


def _ends(path: Path) -> tuple[int, int]:
    """Return the size of a picture and a checksum of its ends: many large ones take no time."""
    size = path.stat().st_size
    with path.open("rb") as file:
        first = file.read(ENDS)
        file.seek(max(size - ENDS, len(first)))
        return size, crc32(file.read(), crc32(first))
