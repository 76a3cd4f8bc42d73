"""A table with columns of every type, on the page and downloaded from it."""

import pytest

import goalward as gw
from tests.conftest import need
from tests.studio.server.conftest import TOKEN, app_of
from tests.studio.tables.test_cells import odd_frame


@pytest.fixture
def client(tmp_path, monkeypatch):
    need("fastapi")
    from starlette.testclient import TestClient

    from goalward.studio.server.auth import Auth
    from goalward.studio.server.served_study import ServedStudy

    monkeypatch.setattr(
        "goalward.studio.tables.cache.user_cache_path", lambda name: tmp_path / "cache"
    )
    odd_frame().write_parquet(tmp_path / "odd.parquet")
    pool = gw.tables.Table(tmp_path / "odd.parquet", text="text")
    with gw.Study.create(tmp_path / "s.db", pool=pool, classes=["x", "y"]) as study:
        headers = {"authorization": f"Bearer {TOKEN}"}
        app = app_of(ServedStudy(study, Auth(TOKEN), by="ann"))
        with TestClient(app, "http://localhost", headers=headers) as client:
            yield client


def test_columns_of_every_type_are_shown_and_downloaded(client):
    (asked,) = client.post("/api/ask", json={"by": "ann", "n": 1}).json()["next"]
    told = {"by": "ann", "row": asked["row"], "label": "x"}
    assert client.post("/api/tell", json=told).status_code == 200
    for row in range(3):
        assert client.get(f"/api/rows/{row}").status_code == 200
    shown = dict(client.get("/api/rows/0").json()["columns"])
    assert shown["lasts"] == "PT172800.000007S"
    for page in ("/", "/review"):
        assert client.get(page).status_code == 200
    for format in ("csv", "tsv", "jsonl", "parquet"):
        assert client.get(f"/api/export?format={format}").status_code == 200
