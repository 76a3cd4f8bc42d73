"""An old study behind a page: found damaged there, and looked at while another program holds it."""

import sqlite3

import numpy as np

import goalward as gw
from goalward.studio.server.auth import Auth
from goalward.studio.server.served_study import ServedStudy
from goalward.studio.store.store import Store
from goalward.studio.study import ledger
from tests.conftest import need
from tests.studio.server.conftest import TOKEN, app_of, until

need("fastapi")


def _served(place):
    return ServedStudy(gw.Study.open(place, timeout=600), Auth(TOKEN))


def _client(served):
    from starlette.testclient import TestClient

    headers = {"authorization": f"Bearer {TOKEN}"}
    return TestClient(app_of(served), "http://localhost", headers=headers)


def _old(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger, "FEW", 10)
    place = tmp_path / "old.db"
    with gw.Study.create(place, pool=np.eye(40)[:, :3], classes=["a", "b"]) as study:
        study.tell_many([(row, "a") for row in range(25)])
    gw.Study.open(place).close()
    return place


def test_a_damaged_old_event_is_said_on_the_page(tmp_path, monkeypatch):
    place = _old(tmp_path, monkeypatch)
    damage = "UPDATE goalward_events SET body = replace(body, '\"a\"', '\"b\"') WHERE seq = 5"
    Store.open(place, damaged=True).run(lambda c: c.exec_driver_sql(damage), purpose="write")
    served = _served(place)
    assert not served.study.checked
    with _client(served) as client:
        until(lambda: served.refitter.damage is not None)
        assert "Event 5 of" in client.get("/api/status").json()["trouble"]
    served.study.close()


def test_a_whole_old_study_is_checked_behind_the_page(tmp_path, monkeypatch):
    served = _served(_old(tmp_path, monkeypatch))
    with _client(served) as client:
        until(lambda: served.study.checked)
        assert client.get("/api/status").json()["trouble"] is None
    served.study.close()


def test_a_page_shows_where_a_study_stood_while_another_program_holds_it(tmp_path, monkeypatch):
    place = _old(tmp_path, monkeypatch)
    served = ServedStudy(gw.Study.open(place, timeout=0.5), Auth(TOKEN))
    with _client(served) as client:
        until(lambda: served.study.checked)
        assert client.get("/review").status_code == 200
        other = sqlite3.connect(place, timeout=60.0, isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        for path, status in (("/", 200), ("/api/status", 200), ("/review", 503)):
            assert client.get(path).status_code == status
        said = client.get("/api/status").json()
        assert said["labels"] == 25
        assert "Another program holds the study" in said["trouble"]
        other.execute("ROLLBACK")
        until(lambda: client.get("/api/status").json()["trouble"] is None)
        other.close()
    served.study.close()
