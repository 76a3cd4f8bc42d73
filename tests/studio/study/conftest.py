"""A real PostgreSQL server, started by the tests as a user of its own."""

import uuid

import pytest

from tests.conftest import REQUIRED, need
from tests.studio.study.postgresql import NoServer, running


def _missing(reason):
    if REQUIRED:
        pytest.fail(f"{reason}, and everything is required here")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def server():
    need("psycopg")
    try:
        with running() as address:
            yield address
    except NoServer as missing:
        _missing(str(missing))


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
