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
"""Bytes within which rows that are asked for are read together."""


class Header(NamedTuple):
    """What a .npy file says of itself."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        """Bytes of the numbers, as a Python integer: a lie overflows nothing."""
        return math.prod(self.shape) * self.dtype.itemsize


def npy_header(file: Any) -> Header:
    """Return the header of an open .npy file, which is left at the first number.

    Raises `BadInput` for what is no .npy file, and for objects, which would be unpickled.
    """
    try:
        version: Any = np.lib.format.read_magic(file)
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        header = Header(*read(file))
    except (KeyError, ValueError, EOFError, OverflowError) as error:
        raise BadInput(f"no header of a plain .npy file ({error})") from error
    if header.dtype.hasobject or any(size < 0 for size in header.shape):
        raise BadInput(f"{header.dtype} of shape {header.shape}, which are not plain numbers")
    return header


def stamp_of(path: str | Path) -> Stamp | None:
    """Return what tells a file from another, or from itself before a change; None if it is gone."""
    try:
        return _stamp(os.stat(path))
    except OSError:
        return None


class RowsOnDisk(ABC):
    """Rows that are taken like those of an array, and read when they are."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def rows(self, start: int, stop: int) -> NDArray[Any]:
        """Return consecutive rows, in memory of their own."""

    @abstractmethod
    def take(self, positions: NDArray[Any]) -> NDArray[Any]:
        """Return rows at positions, in the order they are given."""

    def __getitem__(self, index: Any) -> NDArray[Any]:
        if isinstance(index, tuple):
            index, *columns = index
            if any(other not in (Ellipsis, slice(None)) for other in columns):
                raise Unsupported(
                    "Columns of rows on disk were asked for; rows were expected. Take the rows "
                    "first: pool[10:20][:, 3]."
                )
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step > 0:
                return self.rows(start, max(start, stop))[::step]
            index = np.arange(start, stop, step)
        positions = _positions(index, len(self))
        rows = self.take(np.atleast_1d(positions))
        return rows[0] if positions.ndim == 0 else rows

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self.rows(0, len(self)), dtype=dtype)


def _positions(index: Any, total: int) -> NDArray[Any]:
    """Return rows as positions from 0, from an index as arrays take it: a number, some, or a mask."""
    positions = np.asarray(index)
    if positions.dtype == bool:
        if positions.shape != (total,):
            raise IndexError(f"a mask of shape {positions.shape} for {total} rows")
        positions = np.flatnonzero(positions)
    positions = positions.astype(np.int64)
    positions = np.where(positions < 0, positions + total, positions)
    if positions.size and not (positions.min() >= 0 and positions.max() < total):
        raise IndexError(f"row {positions.max()} of {total}")
    return positions


class NpyFile(RowsOnDisk):
    """The rows of a .npy file, taken like those of an array and read when they are.

    Parameters
    ----------
    path
        The file, a table of numbers.
    changed
        What to raise when the file is no longer the one that was opened.
    """

    def __init__(self, path: str | Path, changed: type[GoalwardError] = DataMissing) -> None:
        self.path, self._changed = Path(path), changed
        with self.path.open("rb", buffering=0) as file:
            self.stamp = _stamp(os.fstat(file.fileno()))
            header = npy_header(file)
            self._first = file.tell()
        room = self.stamp[0] - self._first
        if room < header.nbytes:
            raise BadInput(
                f"{header.nbytes:,} bytes of numbers declared and {room:,} there; as many as it "
                "declares were expected"
            )
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
        """Fill an array with consecutive rows, read to where they belong if it is like the file."""
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
        """Give the file, the same before and after what is done with it."""

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
        """Fill an array from the number `first` on; bytes that are missing are an error."""
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
            f"{self.path} has changed, or is gone, since it was opened ({why}); the same file was "
            "expected. Put it back, or open it again."
        )


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_size, status.st_mtime_ns, status.st_ino


@contextmanager
def whole_file(path: str | Path, *, force: bool = False) -> Iterator[Path]:
    """Give the path to write to; when the block ends without an error, it becomes `path`.

    Parameters
    ----------
    force
        Take the place of a file that is there; without it that is `WouldOverwrite`, also where the
        file came while the block was at work.
    """
    path = Path(path)
    if not force:
        refuse_existing(path)
    # Ending as the file will: what writes it may look at that.
    partial = path.with_name(f".{path.stem[:100]}.{token_hex(4)}.part{path.suffix}")
    try:
        yield partial
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
        if force:
            partial.replace(path)
        else:
            _publish(partial, path)
        _keep_name(path.parent)
    except GoalwardError as error:
        # What wrote it knew no other name.
        error.args = tuple(str(said).replace(partial.name, path.name) for said in error.args)
        raise
    except OSError as error:
        # Some name the file as it was written to.
        said = re.sub(r":[^:]*\.part.*", "", str(error.strerror or error))
        raise NotWritten(
            f"{path} could not be written ({said}). Give another path, or make room; nothing else was "
            "changed."
        ) from error
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def whole_folder(path: str | Path, *, holds: str, force: bool = False) -> Iterator[Path]:
    """Give a folder to write to; when the block ends without an error, it becomes `path`.

    Parameters
    ----------
    holds
        A file that every such folder has: without it, `force` takes the place of nothing.
    force
        Take the place of such a folder; without it that is `WouldOverwrite`.
    """
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
        raise NotWritten(
            f"{path} could not be written ({error.strerror or error}). Give another path, or make "
            "room; nothing else was changed."
        ) from error
    finally:
        for left in (partial, before):
            rmtree(left, ignore_errors=True)


def refuse_existing(path: Path) -> None:
    """Raise `WouldOverwrite` where something is."""
    if os.path.lexists(path):
        raise WouldOverwrite(
            f"{path} is there already; a new file was expected. It was left as it is: give another "
            "path, or say force=True (--force on the command line)."
        )


def refuse_inputs(path: Path, inputs: Iterable[str | Path]) -> None:
    """Raise `WouldOverwrite` where a path leads to one of `inputs`, or into one that is a folder."""
    for one in inputs:
        folders = path.absolute().parents if Path(one).is_dir() else ()
        if any(same_file(place, one) for place in (path, *folders)):
            raise WouldOverwrite(
                f"{path} is what is read here ({one}), and would be lost; another file was expected. It "
                "was left as it is: give another path."
            )


def same_file(one: str | Path, other: str | Path) -> bool:
    """Return whether two paths lead to one file, by whatever links."""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return os.path.realpath(one) == os.path.realpath(other)


def _publish(partial: Path, path: Path) -> None:
    """Give a file its name, unless the name was taken meanwhile."""
    try:
        os.link(partial, path)
    except OSError:
        # Taken, or no hard links here (FAT, some shares): what is left is to look, then to move.
        refuse_existing(path)
        partial.replace(path)


def _keep_name(folder: Path) -> None:
    """Have the disk keep the name too; where a folder cannot be opened, the system does."""
    with suppress(OSError):
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
