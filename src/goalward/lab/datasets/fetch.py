"""Files of public data: found on disk, or downloaded and checked against a digest."""

import io
import os
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

from platformdirs import user_cache_path
from rich.console import Console
from rich.progress import wrap_file

from goalward.core.files import whole_file
from goalward.errors import DataMissing


def cache_folder() -> Path:
    """Return the per-user folder for downloaded data."""
    return Path(user_cache_path("goalward"))


def locate(name: str) -> Path | None:
    """Return the file or folder `name` under GOALWARD_DATA or in the cache, if it is there."""
    folders = [Path(os.environ["GOALWARD_DATA"])] if os.environ.get("GOALWARD_DATA") else []
    places = (folder / name for folder in [*folders, cache_folder()])
    return next((place for place in places if place.exists()), None)


def download(url: str) -> bytes:
    """Return the content of `url`, with a progress bar; `DataMissing` without a network."""
    content, console = io.BytesIO(), Console(stderr=True)
    try:
        with urlopen(Request(url, headers={"User-Agent": "goalward"}), timeout=20.0) as reply:
            size, name = int(reply.headers.get("Content-Length") or 0), url.rsplit("/", 1)[-1]
            with wrap_file(reply, size, description=name, console=console, transient=True) as file:
                shutil.copyfileobj(file, content)
    except (URLError, TimeoutError, ConnectionError) as error:
        raise DataMissing(
            f"{url} could not be downloaded ({error}). Try again with a network, or put the file "
            "where docs/reproduction.md says."
        ) from error
    return content.getvalue()


def checked(name: str, digest: str, make: Callable[[], bytes]) -> Path:
    """Return the file `name`, found or made, whose SHA-256 is `digest`; other bytes are refused."""
    path = locate(name)
    if path is not None:
        check_digest(path.read_bytes(), digest, str(path))
        return path
    path = cache_folder() / name
    try:
        content = make()
    except DataMissing as error:
        folder = os.environ.get("GOALWARD_DATA") or "a folder named by GOALWARD_DATA"
        raise DataMissing(
            f"{name} is not in {folder}, nor at {path}, and could not be downloaded. Put {name} "
            f"(SHA-256 {digest[:16]}...) into either. [{error}]"
        ) from error
    check_digest(content, digest, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path, force=True) as part:
        part.write_bytes(content)
    return path


def check_digest(content: Any, digest: str, name: str) -> None:
    """Raise unless the content is that of the public file."""
    got = sha256(content).hexdigest()
    if got != digest:
        raise DataMissing(
            f"{name} must have SHA-256 {digest[:16]}..., got {got[:16]}...: its content is not that "
            "of the public file. Delete it and fetch it again."
        )
