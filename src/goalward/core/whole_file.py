"""A file that stands under its name whole or not at all, and never over another by accident."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from shutil import rmtree

from goalward.errors import GoalwardError, NotWritten, WouldOverwrite

__all__ = ["refuse_existing", "refuse_inputs", "same_file", "whole_file", "whole_folder"]


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
