import uuid
from pathlib import Path

import pytest
from typer.testing import CliRunner

import goalward as gw
from goalward.cli import app as cli
from goalward.errors import BadParameter
from goalward.studio.server import StudyList
from goalward.studio.store.store import studies_at
from goalward.studio.study import copies
from goalward.studio.team import Team
from tests.conftest import need
from tests.studio.study.test_study import X

SECRET = "correct horse"


def test_a_study_on_a_server_that_is_not_there_is_a_clear_error():
    need("psycopg")
    with pytest.raises(gw.errors.NotWritten, match="could not be reached"):
        gw.Study.open("postgresql://gw:secret@127.0.0.1:1/none")


def test_studies_by_name_share_a_database_and_nothing_else(postgres, tmp_path):
    unnamed = gw.Study.create(postgres, pool=X, classes=[0, 1, 2], seed=1)
    mails = gw.Study.create(f"{postgres}?study=mails", pool=X, classes=[0, 1], seed=2)
    other = gw.Study.create(f"{postgres}?study=Mails-2", pool=X, classes=[0, 1])
    unnamed.tell(0, 2)
    mails.tell(5, 1)
    mails.refresh()
    with gw.Study.open(f"{postgres}?study=mails") as again:
        assert dict(again.state.labels) == {5: 1}
        assert again.identity == mails.identity
        assert again.url.endswith("?study=mails")
    with gw.Study.open(postgres) as again:
        assert dict(again.state.labels) == {0: 2}
    assert not other.state.labels
    named = [f"{postgres}?study={name}" for name in ("Mails-2", "mails")]
    assert studies_at(postgres) == [*named, postgres]
    assert studies_at(named[0]) == [named[0]]
    with pytest.raises(gw.errors.StudyExists):
        gw.Study.create(f"{postgres}?study=mails", pool=X, classes=[0, 1])
    with pytest.raises(gw.errors.NotAStudy, match="study=absent"):
        gw.Study.open(f"{postgres}?study=absent")
    for study in (unnamed, mails, other):
        study.close()


def test_a_named_study_is_backed_up_and_put_back_under_another_name(postgres, tmp_path):
    place, copy = f"{postgres}?study=mails", tmp_path / "mails.backup.db"
    with gw.Study.create(place, pool=X, classes=[0, 1]) as study:
        study.tell(3, 1)
        study.backup(copy)
    said = CliRunner().invoke(cli, ["restore", str(copy), f"{postgres}?study=again"])
    assert said.exit_code == 0
    with gw.Study.open(f"{postgres}?study=again") as again, gw.Study.open(place) as first:
        assert dict(again.state.labels) == {3: 1}
        assert again.identity == first.identity
        again.tell(4, 0)
        assert dict(first.state.labels) == {3: 1}
    assert studies_at(postgres) == [f"{postgres}?study={name}" for name in ("again", "mails")]
    with pytest.raises(gw.errors.StudyExists):
        copies.restore(copy, place)
    # A team is kept in the same way, and is no study.
    Team.create(f"{postgres}?study=team").close()
    assert len(studies_at(postgres)) == 2


@pytest.mark.parametrize(
    "name", ["", "a b", 'x"; DROP SCHEMA public; --', "../x", "-x", "ö", "x" * 51, "a&study=b"]
)
def test_a_name_that_could_be_anything_else_is_refused(postgres, name):
    with pytest.raises(BadParameter, match=r"letters, digits|not the address"):
        gw.Study.create(f"{postgres}?study={name}", pool=X, classes=[0, 1])


@pytest.fixture
def locked(server, postgres):
    """A database, and a user who needs a password for it."""
    import psycopg

    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        data = Path(connection.execute("SHOW data_directory").fetchone()[0])
        user = f"ann_{uuid.uuid4().hex[:8]}"
        connection.execute(f"CREATE USER {user} PASSWORD '{SECRET}'")
        name = postgres.rpartition("/")[2]
        connection.execute(f"GRANT ALL ON DATABASE {name} TO {user}")
        rules = data / "pg_hba.conf"
        before = rules.read_text()
        rules.write_text(f"host {name} {user} 127.0.0.1/32 scram-sha-256\n{before}")
        connection.execute("SELECT pg_reload_conf()")
        yield postgres.replace("gw@", f"{user}@")
        rules.write_text(before)
        connection.execute("SELECT pg_reload_conf()")


def test_the_password_comes_from_the_environment_or_a_file(locked, tmp_path, monkeypatch):
    place = f"{locked}?study=mails"
    for name in ("PGPASSWORD", "PGPASSFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(gw.errors.NotWritten, match="could not be reached"):
        gw.Study.open(place)
    monkeypatch.setenv("PGPASSWORD", SECRET)
    gw.Study.create(place, pool=X, classes=[0, 1]).close()
    monkeypatch.delenv("PGPASSWORD")
    kept = tmp_path / "password"
    kept.write_text(f"*:*:*:*:{SECRET}\n")
    kept.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(kept))
    with gw.Study.open(place) as study:
        study.tell(0, 1)
        assert SECRET not in study.url


@pytest.mark.parametrize("form", ["user:{}@host/db", "user@host/db?password={}", "user:{}@host"])
def test_a_password_is_in_no_error(locked, form):
    host, _, name = locked.partition("@")[2].rpartition("/")
    user = locked.partition("://")[2].partition("@")[0]
    for wrong in ("hunter2x", "hunter2x/y@z", "hunter2x%zz"):
        place = form.format(wrong).replace("user", user).replace("host", host).replace("db", name)
        for address in (f"postgresql://{place}", f"mysql://{place}", f"postgresql://{place}:x/y"):
            for attempt in (gw.Study.open, studies_at, lambda one: StudyList([one])):
                with pytest.raises(gw.errors.GoalwardError) as refused:
                    attempt(address)
                error = refused.value
                while error is not None:
                    assert "hunter2x" not in f"{error} {error!r}"
                    error = error.__cause__
            said = CliRunner().invoke(cli, ["status", address])
            assert "hunter2x" not in f"{said.output} {said.exception}"


def test_a_house_takes_all_studies_of_a_database(postgres):
    for name in ("", "?study=mails"):
        gw.Study.create(f"{postgres}{name}", pool=X, classes=[0, 1]).close()
    nowhere = "postgresql://gw@127.0.0.1:1/none"
    with StudyList([nowhere, postgres]) as house:
        assert "mails" in house.studies
        assert len(house.studies) == 2
        assert "could not be reached" in house.unopened["none"]


def test_a_team_on_postgresql_is_one_for_every_process(postgres):
    place = f"{postgres}?study=team"
    team, other = Team.create(place), Team.open(place)
    team.join(team.invite("Ann", "owner"), "four words of mine")
    session = other.sign_in("ann", "four words of mine")
    assert team.signed_in(session).role() == "owner"
    (known,) = team.members.sessions_of()
    other.revoke(known.session, by="Ann")
    assert team.signed_in(session) is None
    assert [type(r.event).__name__ for r in team.store.read()][-1] == "Revoked"
    team.close()
    other.close()
