"""Files of public data: found, or fetched and checked against a digest."""

from __future__ import annotations

import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

from platformdirs import user_cache_path
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from goalward.errors import DataMissing

__all__ = ["cache_folder", "checked", "download", "locate"]


def cache_folder() -> Path:
    """Return the per-user folder for downloaded data."""
    return Path(user_cache_path("goalward"))


def locate(name: str) -> Path | None:
    """Return the file or folder `name` under GOALWARD_DATA or in the cache, if it is there."""
    folders = [Path(os.environ["GOALWARD_DATA"])] if os.environ.get("GOALWARD_DATA") else []
    for folder in [*folders, cache_folder()]:
        if (folder / name).exists():
            return folder / name
    return None


def download(url: str, *, timeout: float = 20.0) -> bytes:
    """Return what `url` holds, with a progress bar; `DataMissing` without a network."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    try:
        with (
            urlopen(Request(url, headers={"User-Agent": "goalward"}), timeout=timeout) as reply,
            Progress(
                *columns, TransferSpeedColumn(), console=Console(stderr=True), transient=True
            ) as bar,
        ):
            total = int(reply.headers.get("Content-Length") or 0) or None
            task = bar.add_task(url.rsplit("/", 1)[-1], total=total)
            parts = []
            while part := reply.read(1 << 16):
                parts.append(part)
                bar.advance(task, len(part))
            return b"".join(parts)
    except (URLError, TimeoutError, ConnectionError) as error:
        raise DataMissing(
            f"{url} could not be fetched ({error}); a network was expected. Put the file where "
            "it is looked for, as docs/reproduction.md says, or try again with a network."
        ) from error


def checked(name: str, digest: str, make: Callable[[], bytes]) -> Path:
    """Return the file `name`, found or made, whose SHA-256 is `digest`.

    A file that was found elsewhere is checked too: wrong bytes are refused, never used.
    """
    found = locate(name)
    if found is not None:
        _check(found.read_bytes(), digest, str(found))
        return found
    target = cache_folder() / name
    try:
        content = make()
    except DataMissing as error:
        folder = os.environ.get("GOALWARD_DATA") or "a folder named by GOALWARD_DATA"
        raise DataMissing(
            f"{name} is not in {folder}, nor at {target}, and could not be fetched; one of "
            f"them was expected to hold it. Put {name} (SHA-256 {digest[:16]}...) into either. "
            f"[{error}]"
        ) from error
    _check(content, digest, name)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(target.suffix + ".part")
    partial.write_bytes(content)
    partial.replace(target)
    return target


def _check(content: bytes, digest: str, name: str) -> None:
    got = sha256(content).hexdigest()
    if got != digest:
        raise DataMissing(
            f"{name} has SHA-256 {got[:16]}...; {digest[:16]}... was expected, so its bytes are "
            "not those of the public file. Delete it and fetch it again."
        )
