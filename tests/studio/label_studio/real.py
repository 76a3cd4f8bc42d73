"""The bridge against a real Label Studio on loopback: `make test-label-studio`.

Not collected by a plain `pytest`: the server takes minutes to install and a minute to start. Its name
is in GOALWARD_LABEL_STUDIO. People's part is played through its own interface.
"""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

import goalward as gw
from goalward.studio.label_studio import LabelConfig
from goalward.studio.study.exchange import NoAnswer
from tests.studio.label_studio.conftest import mood
from tests.studio.label_studio.fake import CONFIG, NUMBER, SEVERAL, region
from tests.studio.label_studio.test_kinds import SAYS, TRUTH

TOKEN = secrets.token_hex(20)
PERSON = "ann@example.org"


def free_port():
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        return chosen.getsockname()[1]


def until(found, seconds):
    """Return the first true value of `found()`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = found()
        if value:
            return value
        time.sleep(0.2)
    raise TimeoutError(f"nothing after {seconds} s")


@contextmanager
def process(command, log, **options):
    """Run a program in a group of its own and end it."""
    with log.open("w") as file:
        running = subprocess.Popen(
            command, stdout=file, stderr=subprocess.STDOUT, start_new_session=True, **options
        )
    try:
        yield running
    finally:
        os.killpg(running.pid, signal.SIGTERM)
        try:
            running.wait(120)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    import httpx

    program = os.environ.get("GOALWARD_LABEL_STUDIO")
    assert program, "set GOALWARD_LABEL_STUDIO, or run make test-label-studio"
    home = tmp_path_factory.mktemp("label-studio")
    port = free_port()
    # Nothing may call home.
    silent = {"COLLECT_ANALYTICS": "false", "LATEST_VERSION_CHECK": "false", "SENTRY_DSN": ""}
    options = ["--no-browser", "--internal-host", "127.0.0.1", "--port", str(port)]
    options += ["--data-dir", str(home), "--username", PERSON, "--password", secrets.token_hex(8)]
    options += ["--user-token", TOKEN, "--enable-legacy-api-token"]
    url = f"http://127.0.0.1:{port}"

    def answers():
        try:
            return httpx.get(f"{url}/health", timeout=2, trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    log = home / "log"
    env = os.environ | silent
    with process([program, "start", *options], log, cwd=home, env=env) as running:
        until(lambda: running.poll() is not None or answers(), 240)
        assert running.poll() is None, log.read_text()[-2000:]
        yield url


@pytest.fixture(scope="module")
def api(server):
    """What people and administrators do."""
    import httpx

    headers = {"Authorization": f"Token {TOKEN}"}
    with httpx.Client(base_url=server, headers=headers, timeout=60, trust_env=False) as client:

        def call(method, path, body=None, **params):
            answer = client.request(method, path, json=body, params=params)
            assert answer.status_code < 300, f"{method} {path}: {answer.status_code} {answer.text}"
            return answer.json() if answer.content else None

        version = call("GET", "/api/version")["release"]
        print(f"Label Studio {version}")
        yield call


class Project:
    """A project, and a person who works on it."""

    def __init__(self, api, config=CONFIG):
        made = {"title": f"goalward {secrets.token_hex(3)}", "label_config": config}
        self.api, self.number = api, api("POST", "/api/projects", made)["id"]

    @property
    def settings(self):
        return self.api("GET", f"/api/projects/{self.number}/")

    def served(self):
        return self.api("GET", f"/api/projects/{self.number}/next")

    def annotate(self, task, *choices, **more):
        result = region("mood", choices=list(choices)) if choices else []
        body = {"result": result, **more}
        return self.api("POST", f"/api/tasks/{task}/annotations", body)["id"]

    def answer(self, count):
        """Take what is served and answer it; return row -> label."""
        said = {}
        for _ in range(count):
            task = self.served()
            label = mood(task["data"]["text"])
            self.annotate(task["id"], label)
            said[task["data"].get("goalward_row", task["id"])] = label
        return said

    def ordered(self, ordering, count):
        query = json.dumps({"ordering": [ordering]})
        page = self.api("GET", "/api/tasks", project=self.number, page_size=count, query=query)
        return page["tasks"]


@pytest.fixture
def project(api):
    return Project(api)


def command(server, project, *more):
    run = [sys.executable, "-m", "goalward", "label-studio", "--url", server]
    return [*run, "--project", str(project.number), *map(str, more)]


def environment(tmp_path, token=TOKEN):
    return os.environ | {"LABEL_STUDIO_TOKEN": token, "XDG_CACHE_HOME": str(tmp_path / "cache")}


def once(server, project, tmp_path, *more, token=TOKEN):
    run = command(server, project, "--once", "--json", *more)
    env = environment(tmp_path, token)
    done = subprocess.run(run, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert token not in done.stdout + done.stderr
    return json.loads(done.stdout)


def rows(tasks):
    return [task["data"]["goalward_row"] for task in tasks]


def quiet(done):
    names = ("imported", "told", "skipped", "withdrawn", "pushed")
    return all(done[name] == 0 for name in names)


def test_a_table_is_labelled_in_the_order_of_the_study(server, project, table, tmp_path):
    place = tmp_path / "s.db"
    options = ["--table", table, "--text", "text", "--study", place, "--refit", "4"]
    options += ["--dev", "0"]

    first = once(server, project, tmp_path, *options)
    assert (first["imported"], first["pushed"]) == (48, 48)
    assert quiet(once(server, project, tmp_path, *options))
    assert project.settings["sampling"] == "Uncertainty sampling"
    assert project.settings["model_version"] == first["version"]

    said = project.answer(8)
    second = once(server, project, tmp_path, *options)
    assert second["told"] == 8
    assert second["version"] != first["version"]
    assert project.settings["model_version"] == second["version"]
    assert quiet(once(server, project, tmp_path, *options))
    with gw.Study.open(place) as study:
        assert dict(study.state.labels) == said
        queue = list(study.state.ranking.queue)
        utilities = study.state.ranking.utilities
        assert utilities[0] == max(utilities)
    assert project.served()["data"]["goalward_row"] == queue[0]

    by_score = project.ordered("tasks:predictions_score", 40)
    assert rows(by_score) == queue
    assert by_score[0]["data"].keys() == {"text", "goalward_row", "goalward_pool"}
    assert list(project.api("GET", f"/api/projects/{project.number}/model-versions/")) == [
        second["version"]
    ]


def test_changed_deleted_skipped_and_odd_annotations_are_followed(
    server, project, table, tmp_path, api
):
    place = tmp_path / "s.db"
    options = ["--table", table, "--text", "text", "--study", place]
    once(server, project, tmp_path, *options)
    tasks = {t["data"]["goalward_row"]: t["id"] for t in project.ordered("tasks:id", 48)}
    kept, changed, deleted = (project.annotate(tasks[row], "good") for row in (0, 1, 2))
    assert once(server, project, tmp_path, *options)["told"] == 3

    api("PATCH", f"/api/annotations/{changed}/", {"result": region("mood", choices=["bad"])})
    api("DELETE", f"/api/annotations/{deleted}/")
    project.annotate(tasks[3], was_cancelled=True)
    project.annotate(tasks[4], "ugly")  # it is taken there, 201
    done = once(server, project, tmp_path, *options)
    assert (done["told"], done["withdrawn"], done["skipped"]) == (1, 1, 1)
    (odd,) = done["refused"]
    assert odd["task"] == tasks[4]
    assert "'ugly' is not one of the classes" in odd["reason"]
    assert quiet(once(server, project, tmp_path, *options))
    with gw.Study.open(place) as study:
        assert dict(study.state.labels) == {0: "good", 1: "bad"}
        assert set(study.state.skipped) == {3}
        (annotator,) = study.state.annotators
        assert annotator.endswith(f"/{PERSON}")
    assert kept


def test_the_projects_own_tasks_are_the_pool_with_a_personal_access_token(
    server, project, table, tmp_path, api
):
    texts = [line.split(",")[1] for line in table.read_text().splitlines()[1:]]
    data = [{"data": {"text": text}} for text in texts]
    api("POST", f"/api/projects/{project.number}/import", data)
    token = api("POST", "/api/token/", {})["token"]
    options = ["--study", "own.db", "--refit", "4", "--dev", "25%", "--prefill"]
    assert once(server, project, tmp_path, *options, token=token)["imported"] == 0
    project.answer(12)
    done = once(server, project, tmp_path, *options, token=token)
    assert done["told"] == 12
    with gw.Study.open(tmp_path / "own.db") as study:
        assert len(study.state.dev) == 3
        for row, label in study.state.labels.items():
            assert label == mood(texts[row])
    assert b"eyJ" not in b"".join(path.read_bytes() for path in tmp_path.glob("own*"))


@pytest.mark.parametrize(
    ("kind", "config", "odd", "reason"),
    [
        ("labels", SEVERAL, region("traits", choices=["ugly"]), "'ugly' is not one of the labels"),
        ("numbers", NUMBER, region("price", number="3"), "'3' is not a finite number"),
    ],
)
def test_several_choices_and_numbers_go_in_and_out(
    server, table, tmp_path, api, kind, config, odd, reason
):
    project, place = Project(api, config), tmp_path / "s.db"
    options = ["--table", table, "--text", "text", "--study", place, "--refit", "4"]
    options += ["--dev", "0", "--prefill"]
    assert once(server, project, tmp_path, *options)["pushed"] == 48
    tasks = {t["data"]["goalward_row"]: t["id"] for t in project.ordered("tasks:id", 48)}
    said = {}
    for _ in range(12):
        task = project.served()
        text = task["data"]["text"]
        project.annotate(task["id"], result=SAYS[kind](text))
        said[task["data"]["goalward_row"]] = TRUTH[kind](text)
    left = [row for row in tasks if row not in said]
    project.annotate(tasks[left[0]], result=odd)  # it is taken there, 201
    project.annotate(tasks[left[1]], was_cancelled=True)
    done = once(server, project, tmp_path, *options)
    assert (done["told"], done["skipped"]) == (12, 1)
    assert [(one["task"], one["reason"]) for one in done["refused"]] == [(tasks[left[0]], reason)]
    assert quiet(once(server, project, tmp_path, *options))
    with gw.Study.open(place) as study:
        assert study.state.settings.kind == kind
        assert dict(study.state.labels) == said
        queue = [row for row in study.state.ranking.queue if row in left[1:]]
        classes = study.state.classes
    assert project.served()["data"]["goalward_row"] == queue[0]

    stored = api("GET", "/api/predictions/", project=project.number)
    assert len(stored) == done["pushed"]
    asked = LabelConfig.parse(config)
    found = {one["task"]: asked.answer(one["result"], classes) for one in stored}
    assert not any(isinstance(one, NoAnswer) for one in found.values())
    texts = {task["id"]: task["data"]["text"] for task in project.ordered("tasks:id", 48)}
    if kind == "labels":
        right = [("good" in said) == (mood(texts[task]) == "good") for task, said in found.items()]
    else:
        right = [abs(said - TRUTH[kind](texts[task])) < 2 for task, said in found.items()]
    assert sum(right) > 0.7 * len(right)
