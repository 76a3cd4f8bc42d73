"""What a Zarr array may bring along: codecs of numbers, by name, and nothing that runs code.

Its metadata names the codecs that decode it, and among those that numcodecs knows is `pickle`,
which runs what it reads. So the metadata is read here first, and only names listed here pass.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from goalward.errors import BadInput

__all__ = ["check_codecs"]

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


def check_codecs(folder: Path) -> None:
    """Raise `BadInput` if a Zarr array holds anything but numbers, or needs another codec."""
    found = [folder / name for name in METADATA if (folder / name).is_file()]
    if not found:
        raise BadInput(f"neither {' nor '.join(METADATA)} is there")
    for path in found:
        try:
            meta = json.loads(path.read_text("utf-8"))
            names = [*_names(meta)]
            kind = _kind(meta)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OSError) as error:
            raise BadInput(f"{path.name} is not the metadata of an array: {error!r}") from error
        strange = [name for name in names if name not in CODECS]
        if strange:
            raise BadInput(f"the codec {strange[0]!r}, which is not one of numbers")
        if kind not in "fiu":
            raise BadInput(f"{path.name} says that it holds no numbers")


def _names(meta: dict[str, Any]) -> Iterator[str]:
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


def _kind(meta: dict[str, Any]) -> str:
    name = meta["dtype"] if meta["zarr_format"] == 2 else meta["data_type"]
    return np.dtype(name).kind if isinstance(name, str) else "V"
