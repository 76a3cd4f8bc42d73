"""A table read in a process of its own, within a limit of memory: what ends that ends nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl

from goalward import errors
from goalward.studio.tables.read import Written, parsed

__all__ = ["parsed_apart"]

MEMORY = 2**32
"""Bytes that reading a table may take; less where the machine has less."""
SECONDS = 180
"""Time for it. Without memory for an exception, CPython may try to make one for ever."""
# Every thread takes of the limit; Python's own allocator asks again for each object at the limit.
ENVIRONMENT = {"POLARS_MAX_THREADS": "2", "OPENBLAS_NUM_THREADS": "1", "PYTHONMALLOC": "malloc"}


def parsed_apart(path: Path, *asked: str | None) -> tuple[pl.DataFrame, Written]:
    """Return a table and how it was written, as `parsed` does."""
    with TemporaryDirectory() as folder:
        out = Path(folder) / "table.arrow"
        # Never from the working folder, where a stranger's file may have a module's name.
        command = [sys.executable, "-P", "-m", "goalward.studio.tables.apart"]
        found = os.pathsep.join(place for place in sys.path if place)
        done = None
        with suppress(subprocess.TimeoutExpired):
            done = subprocess.run(
                [*command, json.dumps([_memory(), str(path.absolute()), str(out), *asked])],
                env=os.environ | ENVIRONMENT | {"PYTHONPATH": found},
                capture_output=True,
                timeout=SECONDS,
                check=False,
            )
        if done is None or done.returncode:
            raise errors.BadInput(
                f"{path.name} could not be read within {_memory() / 2**30:.1f} GB of memory and "
                f"{SECONDS // 60} minutes; a smaller table was expected. Keep the rows and columns that "
                "you need, or save it as .parquet."
            )
        said = json.loads(done.stdout)
        if "error" in said:
            raise getattr(errors, said["error"])(said["message"])
        encoding, separator, sheet, sheets = said["how"]
        how = Written(encoding, separator, sheet, tuple(sheets))
        return pl.read_ipc(out.read_bytes()), how


def _memory() -> int:
    pages = os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else MEMORY
    return min(MEMORY, pages * 4096 // 2)


def _child(memory: int, path: str, out: str, *asked: Any) -> dict[str, Any]:
    """Read a table into a file within the limit; return how it was written, or what is wrong."""
    with suppress(ImportError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        table, how = parsed(Path(path), *asked)
        table.write_ipc(out)
    except errors.GoalwardError as error:
        return {"error": type(error).__name__, "message": str(error)}
    return {"how": how}


if __name__ == "__main__":
    print(json.dumps(_child(*json.loads(sys.argv[1]))))
