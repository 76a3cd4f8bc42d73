"""How files of arrays give their rows: .npy, HDF5 and Zarr. Tables are in `tabular`.

The metadata of a Zarr array names the codecs that decode it, and among those that numcodecs knows is
`pickle`, which runs what it reads. So the metadata is read here first, and only names listed here
pass.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

from goalward.core.extras import needing
from goalward.core.npy import NpyFile
from goalward.errors import BadInput, DataMissing, ShapeMismatch, Unsupported

__all__ = ["FileReader", "Hdf5", "Npy", "Zarr"]

CODECS = frozenset(
    {
        *("adler32", "crc32", "crc32c", "fletcher32", "jenkins_lookup3"),
        *("blosc", "bz2", "gzip", "lz4", "lzma", "zlib", "zstd"),
        *("astype", "bitround", "delta", "fixedscaleoffset", "packbits", "pcodec", "quantize"),
        *("bytes", "shuffle", "sharding_indexed", "transpose", "zfpy"),
    }
)
"""Codecs that turn bytes into bytes, or into numbers."""
METADATA = (".zarray", "zarr.json")


class FileReader(ABC):
    """An open file of rows."""

    suffixes: ClassVar[tuple[str, ...]]
    shape: tuple[int, int]
    dtype: np.dtype[Any]

    @abstractmethod
    def __init__(self, path: Path, columns: tuple[str, ...], ids: str | None) -> None: ...

    @abstractmethod
    def rows(self, start: int, stop: int) -> NDArray[Any]:
        """Return consecutive rows."""

    @abstractmethod
    def take(self, positions: NDArray[Any]) -> NDArray[Any]:
        """Return rows at positions, in the order they are given."""

    @abstractmethod
    def ids(self, column: str) -> NDArray[Any]:
        """Return the ids of all rows."""

    def mapped(self, start: int, stop: int) -> NDArray[Any]:
        """Return consecutive rows, for those who are done with them at once: a view if possible."""
        return self.rows(start, stop)

    def fill(self, target: NDArray[Any], start: int) -> None:
        """Fill an array with consecutive rows."""
        np.copyto(target, self.rows(start, start + len(target)))


class _ArrayFile(FileReader):
    """Rows of anything that has a shape and slices like an array."""

    def _open(self, path: Path, array: Any, ids: str | None) -> None:
        if len(array.shape) != 2 or np.dtype(array.dtype).kind not in "fiu":
            raise ShapeMismatch(
                f"{path} holds {array.dtype} numbers of shape {tuple(array.shape)}; a table of "
                "numbers, (rows, features), was expected. Save it with one line per row."
            )
        self._path, self._array = path, array
        if ids is not None:
            self.ids(ids)
        self.shape = (int(array.shape[0]), int(array.shape[1]))
        self.dtype = np.dtype(array.dtype)

    def rows(self, start: int, stop: int) -> NDArray[Any]:
        """Return consecutive rows."""
        return np.asarray(self._array[start:stop])

    def ids(self, column: str) -> NoReturn:
        """Refuse: an array has no columns of ids."""
        raise Unsupported(
            f"{self._path} is an array and has no column {column!r}; a table was expected for ids. "
            "Leave ids out: rows are then known by their positions."
        )


class Npy(_ArrayFile):
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
        self._open(path, array, ids)

    def mapped(self, start: int, stop: int) -> NDArray[Any]:
        """Return consecutive rows as a view of the file."""
        return np.asarray(self._map[start:stop])

    def fill(self, target: NDArray[Any], start: int) -> None:
        """Fill an array with consecutive rows: read to where they belong."""
        self._array.fill(target, start)

    def take(self, positions: NDArray[Any]) -> NDArray[Any]:
        """Return rows at positions."""
        return np.asarray(self._array.take(positions))


class Hdf5(_ArrayFile):
    """A dataset of an HDF5 file."""

    suffixes = (".h5", ".hdf5")

    def __init__(self, path: Path, columns: tuple[str, ...], ids: str | None) -> None:
        with needing(str(path)):
            import h5py
        try:
            file = h5py.File(path, "r")
        except OSError as error:
            raise DataMissing(
                f"{path} cannot be opened as HDF5 ({error}); a whole file was expected. Write it "
                "again: it may have been cut off."
            ) from error
        array, link = h5py.Dataset, h5py.ExternalLink
        links = [n for n in file if isinstance(file.get(n, getlink=True), link)]
        names = [n for n in file if n not in links and isinstance(file.get(n), array)]
        name = columns[0] if columns else (names[0] if len(names) == 1 else None)
        if name in links or (name is None and links and not names):
            _refuse_others(path, name or links[0])
        if name is None or name not in file:
            raise DataMissing(
                f"{path} holds the datasets {', '.join(names) or 'none'}; one name was expected. "
                f"Pass columns={names[0] if names else 'X'!r}."
            )
        dataset = file[name]
        if not isinstance(dataset, array):
            raise DataMissing(
                f"{name!r} of {path} is no dataset; one of {', '.join(names)} was expected."
            )
        if dataset.is_virtual or dataset.external or dataset.file.filename != file.filename:
            _refuse_others(path, name)
        self._open(path, dataset, ids)

    def take(self, positions: NDArray[Any]) -> NDArray[Any]:
        """Return rows at positions: read in order of the file, as HDF5 wants it."""
        distinct, back = np.unique(positions, return_inverse=True)
        return np.asarray(self._array[distinct])[back]


class Zarr(_ArrayFile):
    """A Zarr array in a folder."""

    suffixes = (".zarr",)

    def __init__(self, path: Path, columns: tuple[str, ...], ids: str | None) -> None:
        _no_columns(path, columns)
        with needing(str(path)):
            import zarr
        try:
            _check_codecs(path)
            array = zarr.open_array(path, mode="r")
        except Exception as error:
            raise DataMissing(
                f"{path} cannot be opened as a Zarr array ({error}); one of plain numbers was "
                "expected. Save it with zarr.save_array and a codec of numbers, Blosc or Zstd say."
            ) from error
        self._open(path, array, ids)

    def take(self, positions: NDArray[Any]) -> NDArray[Any]:
        """Return rows at positions."""
        return np.asarray(self._array.oindex[positions, :])


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


def _check_codecs(folder: Path) -> None:
    """Raise `BadInput` if a Zarr array holds anything but numbers, or needs another codec."""
    files = [folder / name for name in METADATA if (folder / name).is_file()]
    if not files:
        raise BadInput(f"neither {' nor '.join(METADATA)} is there")
    for path in files:
        try:
            meta = json.loads(path.read_text("utf-8"))
            names = [*_codecs(meta)]
            kind = _kind_of(meta)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OSError) as error:
            raise BadInput(f"{path.name} is not the metadata of an array: {error!r}") from error
        strange = [name for name in names if name not in CODECS]
        if strange:
            raise BadInput(f"the codec {strange[0]!r}, which is not one of numbers")
        if kind not in "fiu":
            raise BadInput(f"{path.name} says that it holds no numbers")


def _codecs(meta: dict[str, Any]) -> Iterator[str]:
    """Return the codecs of an array of the second or third format, nested ones too."""
    if meta["zarr_format"] == 2:
        for codec in (meta.get("compressor"), *_listed(meta.get("filters"))):
            if codec is not None:
                yield str(codec["id"])
        return
    if meta.get("storage_transformers"):
        raise ValueError("storage transformers are not known here")
    yield from _nested(meta["codecs"])


def _nested(codecs: Any) -> Iterator[str]:
    for codec in _listed(codecs):
        # A codec without options may be its name alone.
        name = codec if isinstance(codec, str) else codec["name"]
        yield str(name).removeprefix("numcodecs.")
        options = {} if isinstance(codec, str) else codec.get("configuration") or {}
        for inner in ("codecs", "index_codecs"):
            yield from _nested(options.get(inner))


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is not a list of codecs")
    return value


def _kind_of(meta: dict[str, Any]) -> str:
    name = meta["dtype"] if meta["zarr_format"] == 2 else meta["data_type"]
    return np.dtype(name).kind if isinstance(name, str) else "V"
