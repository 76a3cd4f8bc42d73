"""How each kind of file gives its rows: arrays here, tables in `tabular`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from goalward.core.npy import NpyFile
from goalward.errors import DataMissing, MissingExtra, ShapeMismatch, Unsupported
from goalward.pool.codecs import check_codecs
from goalward.pool.tabular import Ipc, Parquet

__all__ = ["READERS", "Reader"]


class Reader(Protocol):
    """An open file of rows."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]

    def rows(self, start: int, stop: int) -> NDArray[Any]:
        """Return consecutive rows."""
        ...

    def mapped(self, start: int, stop: int) -> NDArray[Any]:
        """Return consecutive rows, for those who are done with them at once: a view if possible."""
        ...

    def fill(self, target: NDArray[Any], start: int) -> None:
        """Fill an array with consecutive rows."""
        ...

    def take(self, positions: NDArray[Any]) -> NDArray[Any]:
        """Return rows at positions, in the order they are given."""
        ...

    def ids(self, column: str) -> NDArray[Any]:
        """Return the ids of all rows."""
        ...


class _Sliced:
    """Rows of anything that has a shape and slices like an array."""

    suffixes: ClassVar[tuple[str, ...]] = ()

    def __init__(self, path: Path, array: Any, ids: str | None) -> None:
        if len(array.shape) != 2 or np.dtype(array.dtype).kind not in "fiu":
            raise ShapeMismatch(
                f"{path} holds {array.dtype} numbers of shape {tuple(array.shape)}; a table of "
                "numbers, (rows, features), was expected. Save it with one line per row."
            )
        if ids is not None:
            raise Unsupported(
                f"{path} is an array and has no column {ids!r}; a table was expected for ids. "
                "Leave ids out: rows are then known by their positions."
            )
        self._array = array
        self.shape = (int(array.shape[0]), int(array.shape[1]))
        self.dtype = np.dtype(array.dtype)

    def rows(self, start: int, stop: int) -> NDArray[Any]:
        """Return consecutive rows."""
        return np.asarray(self._array[start:stop])

    def mapped(self, start: int, stop: int) -> NDArray[Any]:
        """Return consecutive rows."""
        return self.rows(start, stop)

    def fill(self, target: NDArray[Any], start: int) -> None:
        """Fill an array with consecutive rows."""
        np.copyto(target, self.rows(start, start + len(target)))

    def take(self, positions: NDArray[Any]) -> NDArray[Any]:
        """Return rows at positions: read in order of the file, which all of them can."""
        order = np.argsort(positions, kind="stable")
        distinct, back = np.unique(positions[order], return_inverse=True)
        found = np.empty((len(positions), self.shape[1]), dtype=self.dtype)
        found[order] = np.asarray(self._array[distinct])[back]
        return found

    def ids(self, column: str) -> NDArray[Any]:
        """Refuse: an array has no columns of ids."""
        raise Unsupported(f"An array has no column {column!r}. Leave ids out.")


class Npy(_Sliced):
    """NumPy's own format, by plain reads; mapped for one pass over a pool.

    Plain reads of a pool in the page cache take up to 1.75 times as long as a map (K = 2, 1 GB),
    and the rows of a map that is shortened end the process by a signal. So what is handed out is
    read, and only a block that is scored at once, and whose file was looked at just before, is mapped.
    """

    suffixes = (".npy",)

    def __init__(self, path: Path, columns: tuple[str, ...], ids: str | None) -> None:
        _no_columns(path, columns)
        try:
            array = NpyFile(path)
            self._map = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, EOFError, ValueError) as error:
            raise DataMissing(
                f"{path} cannot be read as .npy ({error}); a whole file of plain numbers was "
                "expected. Write it again: it may have been cut off."
            ) from error
        super().__init__(path, array, ids)

    def mapped(self, start: int, stop: int) -> NDArray[Any]:
        """Return consecutive rows as a view of the file."""
        return np.asarray(self._map[start:stop])

    def fill(self, target: NDArray[Any], start: int) -> None:
        """Fill an array with consecutive rows: read to where they belong."""
        self._array.fill(target, start)

    def take(self, positions: NDArray[Any]) -> NDArray[Any]:
        """Return rows at positions."""
        return np.asarray(self._array.take(positions))


class Hdf5(_Sliced):
    """A dataset of an HDF5 file."""

    suffixes = (".h5", ".hdf5")

    def __init__(self, path: Path, columns: tuple[str, ...], ids: str | None) -> None:
        h5py = _imported("h5py", path)
        try:
            file = h5py.File(path, "r")
        except OSError as error:
            raise DataMissing(
                f"{path} cannot be opened as HDF5 ({error}); a whole file was expected. Write it "
                "again: it may have been cut off."
            ) from error
        links = [n for n in file if isinstance(file.get(n, getlink=True), h5py.ExternalLink)]
        names = [n for n in file if n not in links and isinstance(file.get(n), h5py.Dataset)]
        name = columns[0] if columns else (names[0] if len(names) == 1 else None)
        if name in links or (name is None and links and not names):
            _refuse_others(path, name or links[0])
        if name is None or name not in file:
            raise DataMissing(
                f"{path} holds the datasets {', '.join(names) or 'none'}; one name was expected. "
                f"Pass columns={names[0] if names else 'X'!r}."
            )
        found = file[name]
        if not isinstance(found, h5py.Dataset):
            raise DataMissing(
                f"{name!r} of {path} is no dataset; one of {', '.join(names)} was expected."
            )
        if found.is_virtual or found.external or found.file.filename != file.filename:
            _refuse_others(path, name)
        super().__init__(path, found, ids)


class Zarr(_Sliced):
    """A Zarr array in a folder."""

    suffixes = (".zarr",)

    def __init__(self, path: Path, columns: tuple[str, ...], ids: str | None) -> None:
        _no_columns(path, columns)
        zarr = _imported("zarr", path)
        try:
            check_codecs(path)
            array = zarr.open_array(path, mode="r")
        except Exception as error:
            raise DataMissing(
                f"{path} cannot be opened as a Zarr array ({error}); one of plain numbers was "
                "expected. Save it with zarr.save_array and a codec of numbers, Blosc or Zstd say."
            ) from error
        super().__init__(path, array, ids)

    def take(self, positions: NDArray[Any]) -> NDArray[Any]:
        """Return rows at positions."""
        return np.asarray(self._array.oindex[positions, :])


READERS: dict[str, Any] = {
    "npy": Npy,
    "parquet": Parquet,
    "ipc": Ipc,
    "hdf5": Hdf5,
    "zarr": Zarr,
}
"""Kinds of files, by name."""


def _no_columns(path: Path, columns: tuple[str, ...]) -> None:
    if columns:
        raise Unsupported(
            f"{path} is an array without named columns, and columns={columns} came. Leave it out."
        )


def _refuse_others(path: Path, name: str) -> None:
    # Whoever sends a file must not choose what else is read.
    raise DataMissing(
        f"{name!r} of {path} lies in another file, which it names; rows in the file itself were "
        "expected. Copy them: file['X'] = rows, with h5py."
    )


def _imported(module: str, path: Path) -> Any:
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtra(
            f"{path} needs the package {module}, which is not installed. pip install {module}, or "
            "save the features with numpy.save."
        ) from error
