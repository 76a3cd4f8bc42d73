"""Files of public data: found, or fetched and checked against a digest."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

from platformdirs import user_cache_path
from rich.console import Console
from rich.progress import wrap_file

from goalward.core.whole_file import whole_file
from goalward.errors import DataMissing

__all__ = ["cache_folder", "checked", "download", "locate"]


def cache_folder() -> Path:
    """Return the per-user folder for downloaded data."""
    return Path(user_cache_path("goalward"))


def locate(name: str) -> Path | None:
    """Return the file or folder `name` under GOALWARD_DATA or in the cache, if it is there."""
    folders = [Path(os.environ["GOALWARD_DATA"])] if os.environ.get("GOALWARD_DATA") else []
    places = (folder / name for folder in [*folders, cache_folder()])
    return next((place for place in places if place.exists()), None)


def download(url: str) -> bytes:
    """Return what `url` holds, with a progress bar; `DataMissing` without a network."""
    content, console = io.BytesIO(), Console(stderr=True)
    try:
        with urlopen(Request(url, headers={"User-Agent": "goalward"}), timeout=20.0) as reply:
            size, name = int(reply.headers.get("Content-Length") or 0), url.rsplit("/", 1)[-1]
            with wrap_file(reply, size, description=name, console=console, transient=True) as file:
                shutil.copyfileobj(file, content)
    except (URLError, TimeoutError, ConnectionError) as error:
        raise DataMissing(
            f"{url} could not be fetched ({error}); a network was expected. Put the file where "
            "it is looked for, as docs/reproduction.md says, or try again with a network."
        ) from error
    return content.getvalue()


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
    with whole_file(target, force=True) as path:
        path.write_bytes(content)
    return target


def _check(content: bytes, digest: str, name: str) -> None:
    got = sha256(content).hexdigest()
    if got != digest:
        raise DataMissing(
            f"{name} has SHA-256 {got[:16]}...; {digest[:16]}... was expected, so its bytes are "
            "not those of the public file. Delete it and fetch it again."
        )
