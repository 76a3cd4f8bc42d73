import pytest

import goalward as gw
from tests.conftest import need
from tests.study.test_study import X, answered, made


def test_the_same_study_on_postgresql(postgres, tmp_path):
    ours = answered(made(tmp_path, dev=0.2), 3)
    theirs = gw.Study.create(postgres, pool=X, classes=[0, 1, 2], dev=0.2)
    answered(theirs, 3)
    assert dict(theirs.state.labels) == dict(ours.state.labels)
    with gw.Study.open(postgres) as again:
        assert again.ask(5) == ours.ask(5)
    with pytest.raises(gw.errors.StudyExists):
        gw.Study.create(postgres, pool=X, classes=[0, 1, 2])
    assert "gw@" in theirs.url
    theirs.close()


def test_an_old_study_on_postgresql_is_upgraded_after_a_copy(postgres):
    import psycopg

    with gw.Study.create(postgres, pool=X[:9], classes=[0, 1]) as study:
        study.tell(0, 1)
    with psycopg.connect(postgres) as connection:
        connection.execute(
            "ALTER TABLE goalward_study DROP COLUMN head_seq, DROP COLUMN head_digest"
        )
        connection.execute("UPDATE goalward_study SET version = 1")
    with gw.Study.open(postgres) as again:
        again.tell(1, 0)
        assert dict(again.state.labels) == {0: 1, 1: 0}
    with psycopg.connect(postgres) as connection:
        kept = connection.execute("SELECT count(*) FROM goalward_events_v1").fetchone()
        assert kept == (2,)


def test_a_study_on_a_server_that_is_not_there_is_a_clear_error():
    need("psycopg")
    with pytest.raises(gw.errors.NotWritten, match="could not be reached"):
        gw.Study.open("postgresql://gw:secret@127.0.0.1:1/none")
