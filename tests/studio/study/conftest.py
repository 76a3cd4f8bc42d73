"""A real PostgreSQL server, started by the tests as a user of its own."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import uuid
from pathlib import Path

import pytest

from tests.conftest import REQUIRED, need


def _missing(reason):
    if REQUIRED:
        pytest.fail(f"{reason}, and everything is required here")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def server():
    need("psycopg")
    homes = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: int(p.parent.name))
    found = shutil.which("initdb") or (homes and str(homes[-1] / "initdb"))
    if not found:
        _missing("PostgreSQL is not installed (apt-get install postgresql)")
    binaries = Path(found).resolve().parent
    user = None
    if os.geteuid() == 0:
        # The server refuses to run as root.
        names = [name for name in ("postgres", "nobody") if _known(name)]
        if not names:
            _missing("PostgreSQL does not run as root, and there is no other user")
        user = names[0]
    folder = Path(tempfile.mkdtemp(prefix="gw-pg-", dir="/tmp"))
    if user:
        shutil.chown(folder, user)
    data = folder / "data"
    run = {"user": user, "cwd": folder, "capture_output": True, "timeout": 120}
    subprocess.run([binaries / "initdb", "-D", data, "-U", "gw", "-A", "trust"], check=True, **run)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = f"-p {port} -k {folder} -h 127.0.0.1"
    control = [binaries / "pg_ctl", "-D", data, "-w", "-l", folder / "log"]
    start = {**run, "capture_output": False, "stdout": subprocess.DEVNULL}
    subprocess.run([*control, "-o", options, "start"], check=True, **start)
    yield f"postgresql://gw@127.0.0.1:{port}"
    subprocess.run([*control, "-m", "immediate", "stop"], check=True, **start)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgres(server):
    """The address of a new, empty database."""
    import psycopg

    name = f"study_{uuid.uuid4().hex}"
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return f"{server}/{name}"


@pytest.fixture(params=["sqlite", "postgresql"])
def storage(request, tmp_path):
    """A free place for a study in each database, one after the other."""
    if request.param == "sqlite":
        return str(tmp_path / "labels.db")
    return request.getfixturevalue("postgres")


def _known(name):
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True
