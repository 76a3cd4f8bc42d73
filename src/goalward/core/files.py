"""Files: `.npy` by plain reads, and files written whole or not at all."""

from __future__ import annotations

import math
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from io import RawIOBase
from pathlib import Path
from secrets import token_hex
from shutil import rmtree
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from goalward.errors import (
    BadInput,
    DataMissing,
    GoalwardError,
    NotWritten,
    Unsupported,
    WouldOverwrite,
)

Stamp = tuple[int, int, int]
"""Size, time of the last change in nanoseconds, and inode."""
SPAN = 2**18
"""Bytes within which requested rows are read together."""


class Header(NamedTuple):
    """The header of a .npy file."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        """Size of the data as a Python integer, which a false header cannot overflow."""
        return math.prod(self.shape) * self.dtype.itemsize


def npy_header(file: Any) -> Header:
    """Read the header of an open .npy file; raise `BadInput` if invalid or of pickled objects."""
    form = np.lib.format
    readers: Any = {(1, 0): form.read_array_header_1_0, (2, 0): form.read_array_header_2_0}
    try:
        header = Header(*readers[form.read_magic(file)](file))
    except (KeyError, ValueError, EOFError, OverflowError) as error:
        raise BadInput(f"no header of a plain .npy file ({error})") from error
    if header.dtype.hasobject or any(size < 0 for size in header.shape):
        raise BadInput(f"{header.dtype} of shape {header.shape}, which are not plain numbers")
    return header


def stamp_of(path: str | Path) -> Stamp | None:
    """Return size, time and inode of a file; None if it is gone."""
    try:
        return _stamp(os.stat(path))
    except OSError:
        return None


class RowsOnDisk(ABC):
    """Rows on disk that are indexed like an array."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def rows(self, start: int, stop: int) -> NDArray[Any]:
        """Return consecutive rows as a new array."""

    @abstractmethod
    def take(self, positions: NDArray[Any]) -> NDArray[Any]:
        """Return the rows at positions, in the given order."""

    def __getitem__(self, index: Any) -> NDArray[Any]:
        if isinstance(index, tuple):
            index, *columns = index
            if any(other not in (Ellipsis, slice(None)) for other in columns):
                raise Unsupported(
                    "Rows on disk are taken by rows only. Take the rows first: pool[10:20][:, 3]."
                )
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step > 0:
                return self.rows(start, max(start, stop))[::step]
            index = np.arange(start, stop, step)
        positions, total = np.asarray(index), len(self)
        if positions.dtype == bool:
            if positions.shape != (total,):
                raise IndexError(f"a mask of shape {positions.shape} for {total} rows")
            positions = np.flatnonzero(positions)
        positions = positions.astype(np.int64)
        positions = np.where(positions < 0, positions + total, positions)
        if positions.size and not (positions.min() >= 0 and positions.max() < total):
            raise IndexError(f"row {positions.max()} of {total}")
        rows = self.take(np.atleast_1d(positions))
        return rows[0] if positions.ndim == 0 else rows

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self.rows(0, len(self)), dtype=dtype)


class NpyFile(RowsOnDisk):
    """The rows of a .npy file, indexed like an array; `changed` is raised if the file changes."""

    def __init__(self, path: str | Path, changed: type[GoalwardError] = DataMissing) -> None:
        self.path, self._changed = Path(path), changed
        with self.path.open("rb", buffering=0) as file:
            self.stamp = _stamp(os.fstat(file.fileno()))
            header = npy_header(file)
            self._first = file.tell()
        room = self.stamp[0] - self._first
        if room < header.nbytes:
            raise BadInput(f"{header.nbytes:,} bytes of numbers declared, and {room:,} there")
        self.shape, self._fortran, self.dtype = header

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def rows(self, start: int, stop: int) -> NDArray[Any]:
        with self._opened() as file:
            return self._read(file, start, stop)

    def fill(self, target: NDArray[Any], start: int) -> None:
        """Fill an array with consecutive rows, without a copy if it has the file's layout."""
        if self._fortran or target.dtype != self.dtype or not target.flags.c_contiguous:
            np.copyto(target, self.rows(start, start + len(target)))
            return
        with self._opened() as file:
            self._fill(file, target, start * self.shape[1])

    def take(self, positions: NDArray[Any]) -> NDArray[Any]:
        taken = np.empty((len(positions), self.shape[1]), dtype=self.dtype)
        if len(positions) == 0:
            return taken
        span = max(1, SPAN // max(1, self.shape[1] * self.dtype.itemsize))
        order = np.argsort(positions, kind="stable")
        edges = np.flatnonzero(np.diff(positions[order] // span)) + 1
        with self._opened() as file:
            for near in np.split(order, edges):
                first, last = int(positions[near[0]]), int(positions[near[-1]])
                taken[near] = self._read(file, first, last + 1)[positions[near] - first]
        return taken

    @contextmanager
    def _opened(self) -> Iterator[RawIOBase]:
        """Yield the open file; raise if it changed before or meanwhile."""

        def check() -> None:
            if _stamp(os.fstat(file.fileno())) != self.stamp:
                raise self._gone("its size, its time, or the file itself is another")

        try:
            with self.path.open("rb", buffering=0) as file:
                check()
                yield file
                check()
        except OSError as error:
            raise self._gone(str(error.strerror or error)) from error

    def _read(self, file: RawIOBase, start: int, stop: int) -> NDArray[Any]:
        n, d = self.shape
        if not self._fortran:
            rows = np.empty((stop - start, d), dtype=self.dtype)
            self._fill(file, rows, start * d)
            return rows
        columns = np.empty((d, stop - start), dtype=self.dtype)
        for j in range(d):
            self._fill(file, columns[j], j * n + start)
        return columns.T

    def _fill(self, file: RawIOBase, target: NDArray[Any], first: int) -> None:
        """Fill an array from element `first` on; raise if bytes are missing."""
        if target.size == 0:
            return
        file.seek(self._first + first * self.dtype.itemsize)
        left: Any = target.reshape(-1).view(np.uint8).data
        while left:
            # One call reads 2 GB at most.
            count = file.readinto(left)
            if not count:
                raise self._gone("it was cut off while it was read")
            left = left[count:]

    def _gone(self, why: str) -> GoalwardError:
        return self._changed(
            f"{self.path} has changed, or is gone, since it was opened ({why}). Put it back, or open it "
            "again."
        )


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_size, status.st_mtime_ns, status.st_ino


@contextmanager
def whole_file(path: str | Path, *, force: bool = False) -> Iterator[Path]:
    """Yield a temporary path that becomes `path` on success; `force` replaces a file."""
    path = Path(path)
    if not force:
        refuse_existing(path)
    # Same suffix: writers may choose the format by it.
    partial = path.with_name(f".{path.stem[:100]}.{token_hex(4)}.part{path.suffix}")
    try:
        yield partial
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
        if force:
            partial.replace(path)
        else:
            try:
                os.link(partial, path)
            except OSError:
                # The file exists, or the file system has no hard links (FAT, some shares).
                refuse_existing(path)
                partial.replace(path)
        _keep_name(path.parent)
    except GoalwardError as error:
        error.args = tuple(str(text).replace(partial.name, path.name) for text in error.args)
        raise
    except OSError as error:
        # Some messages name the temporary file.
        raise _not_written(
            path, re.sub(r":[^:]*\.part.*", "", str(error.strerror or error))
        ) from error
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def whole_folder(path: str | Path, *, holds: str, force: bool = False) -> Iterator[Path]:
    """Yield a temporary folder that becomes `path`; `force` replaces a folder with file `holds`."""
    path = Path(path)
    if not (force and (path / holds).is_file()):
        refuse_existing(path)
    partial = path.with_name(f".{path.name[:100]}.{token_hex(4)}.part")
    before = partial.with_suffix(".before")
    try:
        partial.mkdir(parents=True)
        yield partial
        for file in partial.iterdir():
            with file.open("rb+") as opened:
                os.fsync(opened.fileno())
        if path.exists():
            path.rename(before)
        partial.rename(path)
        _keep_name(path.parent)
    except OSError as error:
        if before.exists() and not path.exists():
            before.rename(path)
        raise _not_written(path, str(error.strerror or error)) from error
    finally:
        for left in (partial, before):
            rmtree(left, ignore_errors=True)


def _not_written(path: Path, why: str) -> NotWritten:
    return NotWritten(
        f"{path} could not be written ({why}). Give another path, or make room; nothing else was "
        "changed."
    )


def refuse_existing(path: Path) -> None:
    """Raise `WouldOverwrite` if the path exists."""
    if os.path.lexists(path):
        raise WouldOverwrite(
            f"{path} exists already, and was left as it is. Give another path, or say force=True "
            "(--force on the command line)."
        )


def refuse_inputs(path: Path, inputs: Iterable[str | Path]) -> None:
    """Raise `WouldOverwrite` if a path is one of `inputs` or inside one."""
    for source in inputs:
        folders = path.absolute().parents if Path(source).is_dir() else ()
        if any(same_file(place, source) for place in (path, *folders)):
            raise WouldOverwrite(
                f"{path} must be another file than what is read here ({source}), which would be lost. "
                "It was left as it is: give another path."
            )


def same_file(one: str | Path, other: str | Path) -> bool:
    """Return whether two paths are the same file, through links too."""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return os.path.realpath(one) == os.path.realpath(other)


def _keep_name(folder: Path) -> None:
    """Sync the folder entry to disk, where the system allows to open a folder."""
    with suppress(OSError):
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
