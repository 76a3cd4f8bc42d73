"""A real PostgreSQL server of our own, started as another user than root."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class NoServer(Exception):
    """PostgreSQL cannot be started here."""


def binaries() -> Path:
    """Return the folder with initdb, pg_ctl and pg_dump of the newest version that is installed."""
    homes = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: int(p.parent.name))
    found = shutil.which("initdb") or (homes and str(homes[-1] / "initdb"))
    if not found:
        raise NoServer("PostgreSQL is not installed (apt-get install postgresql)")
    return Path(found).resolve().parent


@contextmanager
def running() -> Iterator[str]:
    """Run a server in a temporary folder and give its address, without the name of a database."""
    tools, user = binaries(), None
    if os.geteuid() == 0:
        # The server refuses to run as root.
        names = [name for name in ("postgres", "nobody") if _known(name)]
        if not names:
            raise NoServer("PostgreSQL does not run as root, and there is no other user")
        user = names[0]
    folder = Path(tempfile.mkdtemp(prefix="gw-pg-", dir="/tmp"))
    if user:
        shutil.chown(folder, user)
    data = folder / "data"
    run = {"user": user, "cwd": folder, "capture_output": True, "timeout": 120}
    subprocess.run([tools / "initdb", "-D", data, "-U", "gw", "-A", "trust"], check=True, **run)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = f"-p {port} -k {folder} -h 127.0.0.1"
    control = [tools / "pg_ctl", "-D", data, "-w", "-l", folder / "log"]
    start = {**run, "capture_output": False, "stdout": subprocess.DEVNULL}
    subprocess.run([*control, "-o", options, "start"], check=True, **start)
    try:
        yield f"postgresql://gw@127.0.0.1:{port}"
    finally:
        subprocess.run([*control, "-m", "immediate", "stop"], check=True, **start)
        shutil.rmtree(folder, ignore_errors=True)


def _known(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True
