"""The side door: it answers, wakes the bridge, and keeps no secret."""

import asyncio
import base64
import logging
import threading

import pytest

from goalward.studio.label_studio import backend_app
from tests.conftest import need

SECRET = "a-token-of-label-studio"


@pytest.fixture
def events():
    return {"wake": threading.Event(), "train": threading.Event()}


@pytest.fixture
def door(bridge, events):
    need("starlette")
    return visitor(backend_app(bridge, **events))


def visitor(application):
    import httpx

    class Visitor:
        def post(self, path, **body):
            return self.request("POST", path, **body)

        def get(self, path):
            return self.request("GET", path)

        def request(self, method, path, **body):
            async def sent():
                transport = httpx.ASGITransport(application)
                async with httpx.AsyncClient(transport=transport, base_url="http://door") as client:
                    return await client.request(method, path, **body)

            return asyncio.run(sent())

    return Visitor()


def test_it_says_that_it_is_well(door):
    assert door.get("/health").json()["status"] == "UP"


def test_setup_tells_the_version_and_keeps_no_token(door, bridge, study, caplog, tmp_path):
    body = {"project": "7.1", "schema": "<View/>", "hostname": "", "access_token": SECRET}
    with caplog.at_level(logging.DEBUG):
        assert door.post("/setup", json=body).json() == {"model_version": bridge.version}
    assert SECRET not in caplog.text
    bridge.sync()
    assert SECRET not in repr(vars(bridge))
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or SECRET.encode() not in path.read_bytes()


def test_predictions_are_those_that_were_pushed(door, bridge, fake):
    tasks = [{"id": 1}]
    before = door.post("/predict", json={"tasks": tasks}).json()["results"]
    assert before == [{"result": [], "score": 1.0, "model_version": bridge.version}]
    bridge.sync()
    tasks = [*fake.tasks.values(), {"id": 10**9}, {"id": [1]}, "x"]
    results = door.post("/predict", json={"tasks": tasks}).json()["results"]
    pushed = {p["task"]: p["score"] for p in fake.predictions}
    assert [r["score"] for r in results[:48]] == [pushed[task] for task in fake.tasks]
    assert [r["score"] for r in results[48:]] == [1.0, 1.0, 1.0]


def test_a_task_goes_by_its_number_and_by_nothing_that_equals_it(door, bridge, fake):
    """True equals 1 in Python, and 1.0 in JSON is no task's number."""
    bridge.sync()
    first = next(iter(fake.tasks))
    bridge._rows[1] = bridge._rows[first]
    tasks = [{"id": one} for one in (1, True, 1.0, "1", None, 1.5, 2**70)]
    scores = [r["score"] for r in door.post("/predict", json={"tasks": tasks}).json()["results"]]
    assert scores[0] < 1.0
    assert scores[1:] == [1.0] * 6


@pytest.mark.parametrize(
    "action", ["ANNOTATION_CREATED", "ANNOTATIONS_DELETED", "PROJECT_UPDATED", "START_TRAINING"]
)
def test_a_webhook_wakes_the_bridge(door, events, action):
    """START_TRAINING comes without an annotation."""
    assert door.post("/webhook", json={"action": action, "project": {"id": 7}}).status_code == 201
    assert events["wake"].is_set()
    assert events["train"].is_set() == (action == "START_TRAINING")


def test_webhooks_of_other_projects_wake_nobody(door, events):
    door.post("/webhook", json={"action": "ANNOTATION_CREATED", "project": {"id": 8}})
    assert not events["wake"].is_set()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'"x"', b"[" * 100_000, b'{"tasks": 3}'])
@pytest.mark.parametrize("path", ["/predict", "/webhook"])
def test_odd_bodies_are_refused(door, events, path, content):
    assert door.post(path, content=content).status_code == 400
    assert not events["wake"].is_set()


def test_large_bodies_are_refused(door, monkeypatch):
    monkeypatch.setattr("goalward.studio.label_studio.backend.LARGEST", 100)
    assert door.post("/predict", json={"tasks": ["x" * 200]}).status_code == 400


def test_a_password_is_wanted_where_one_is_set(bridge, events):
    need("starlette")
    door = visitor(backend_app(bridge, password="sesame", **events))
    for path in ("/setup", "/predict"):
        body = {"tasks": []}
        assert door.post(path, json=body).status_code == 401
        assert door.post(path, json=body, auth=("any", "wrong")).status_code == 401
        odd = {"Authorization": "Basic é".encode("latin-1")}
        assert door.post(path, json=body, headers=odd).status_code == 401
        assert door.post(path, json=body, auth=("any", "sesame")).status_code == 200
    bearer = {"Authorization": "Bearer " + base64.b64encode(b"any:sesame").decode()}
    assert door.post("/setup", json={}, headers=bearer).status_code == 401
    assert door.get("/health").status_code == 200
