"""Several studies in one server: one door, one list, and each study its own."""

import re
import signal
import subprocess
import sys
import threading
import urllib.request
from http.cookiejar import CookieJar
from types import SimpleNamespace

import pytest

import goalward as gw
from goalward.errors import BadParameter
from tests.conftest import need
from tests.studio.server.conftest import TOKEN, texts, until
from tests.studio.server.test_security import ROUTES
from tests.studio.server.test_serve import printed_link

need("fastapi")

from starlette.testclient import TestClient  # noqa: E402

from goalward.studio.server import Auth, ProxyConfig, ServedStudy, StudyList, create_app  # noqa: E402
from goalward.studio.server.served_study import path_name  # noqa: E402
from goalward.studio.study import refitter  # noqa: E402

BEARER = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def places(tmp_path):
    """Two studies, and one that is none."""
    for name, size in (("Reviews 2026.labels.db", 40), ("mails.labels.db", 20)):
        gw.Study.create(tmp_path / name, pool=texts(size), classes=["good", "bad"]).close()
    (tmp_path / "broken.labels.db").write_text("no database at all")
    names = ("Reviews 2026", "broken", "mails")
    return [str(tmp_path / f"{name}.labels.db") for name in names]


@pytest.fixture
def study_list(places):
    with StudyList(places) as opened:
        yield opened


def application(study_list, **options):
    auth = Auth(TOKEN, port=1)
    studies = {name: ServedStudy(one, auth) for name, one in study_list.studies.items()}
    return create_app(studies, auth, unopened=study_list.unopened, **options)


@pytest.fixture
def client(study_list):
    with TestClient(application(study_list), "http://127.0.0.1:8321", headers=BEARER) as made:
        yield made


def told(client, name, row, label, by="ann"):
    body = {"row": row, "label": label, "by": by}
    return client.post(f"/s/{name}/api/tell", json=body)


def test_each_study_is_below_its_own_name_and_gets_its_own_answers(client, study_list):
    assert told(client, "mails", 3, "good").status_code == 200
    assert told(client, "reviews-2026", 3, "bad", by="ben").status_code == 200
    assert dict(study_list.studies["mails"].state.labels) == {3: "good"}
    assert dict(study_list.studies["reviews-2026"].state.labels) == {3: "bad"}
    page = client.get("/s/mails/").text
    assert 'data-root="/s/mails"' in page
    assert 'href="/static/app.css"' in page
    assert '<a href="/">Studies</a>' in page
    assert client.get("/s/mails/api/status").json()["rows"] == 20
    # A page of one study that speaks to another is refused.
    other = {"x-goalward-study": study_list.studies["mails"].identity}
    asked = client.post("/s/reviews-2026/api/ask", json={"by": "ann"}, headers=other)
    assert asked.status_code == 409


def test_the_list_says_how_far_each_is_and_what_cannot_be_opened(client, places):
    told(client, "mails", 0, "good")
    listed = {one["name"]: one for one in client.get("/api/studies").json()}
    assert set(listed) == {"reviews-2026", "broken", "mails"}
    assert (listed["mails"]["labels"], listed["mails"]["rows"]) == (1, 20)
    assert "not the file of a study" in listed["broken"]["trouble"]
    assert "/broken" not in listed["broken"]["trouble"]
    page = client.get("/").text
    assert 'href="/s/mails/"' in page
    assert "/s/broken/" not in page
    assert client.get("/s/broken/").status_code == 404
    # Who signs in with the token is asked for a name, in whichever study they open.
    assert 'href="/s/mails/?who=ask"' in client.get("/?who=ask").text


@pytest.mark.attack("one of several studies damaged")
def test_a_study_that_cannot_be_read_any_more_is_said_and_stops_nobody(client, places, study_list):
    (name,) = [place for place in places if "mails" in place]
    aside = re.sub("mails", "away", name)
    subprocess.run(["mv", name, aside], check=True)
    listed = {one["name"]: one for one in client.get("/api/studies").json()}
    assert "gone" in listed["mails"]["trouble"]
    assert listed["reviews-2026"]["rows"] == 40
    assert client.get("/").status_code == 200
    assert told(client, "reviews-2026", 1, "good").status_code == 200
    assert client.get("/healthz").json() == {"ok": True, "studies": 3, "open": 1}
    subprocess.run(["mv", aside, name], check=True)
    assert client.get("/healthz").json()["open"] == 2


@pytest.mark.parametrize(("method", "path"), [*ROUTES, ("GET", "/api/studies")])
@pytest.mark.attack("no token, foreign Host or Origin at one of several studies")
def test_one_door_is_before_every_study(client, method, path, tried):
    for below in ("", "/s/mails", "/s/nothing"):
        there = below + path
        for headers in ({"authorization": ""}, {"authorization": "Bearer no"}):
            if there not in ("/healthz", "/login"):
                assert client.request(method, there, headers=headers).status_code == 401
        foreign = {"origin": "http://evil.example"}
        assert client.request(method, there, headers=foreign).status_code == 403
        assert client.request(method, there, headers={"host": "evil.example"}).status_code == 400
        if "/api/" in there:
            sent = {"content-type": "text/plain"}
            assert client.request(method, there, headers=sent).status_code == 415
    tried(12)


@pytest.mark.attack("no token, foreign Host or Origin at one of several studies")
def test_what_takes_no_token_at_the_door_takes_one_below_it(client, tried):
    for path in ("/start", "/login", "/healthz", "/static/app.css"):
        assert client.get(f"/s/mails{path}", headers={"authorization": ""}).status_code == 401
    # And a stranger cannot find out which studies there are.
    stranger = {"authorization": "", "accept": "text/html"}
    for name in ("mails", "broken", "nothing"):
        sent = client.get(f"/s/{name}/", headers=stranger, follow_redirects=False)
        assert (sent.status_code, sent.headers["location"]) == (303, "/login")
    tried(8)


@pytest.mark.parametrize(
    "name",
    ["..", "%2e%2e", "mails.labels.db", "../mails", "..%2fmails", "mails%00", "MAILS", "", "%5c"],
)
@pytest.mark.attack("paths that lead out")
def test_no_name_in_a_path_is_a_file(client, name):
    reply = client.get(f"/s/{name}/api/status", follow_redirects=False)
    assert reply.status_code in (400, 404)


def test_names_are_plain_and_no_two_are_the_same(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        place = tmp_path / folder / "<i> Ö.db"
        gw.Study.create(place, pool=texts(9), classes=["good", "bad"]).close()
    places = [str(tmp_path / folder / "<i> Ö.db") for folder in ("a", "b")]
    # Whatever stands beside it, and in whatever order: a path never leads to another study.
    with StudyList(places) as opened, StudyList(places[::-1]) as turned:
        names = {name: study.identity for name, study in opened.studies.items()}
        assert names == {f"i-{identity[:8]}": identity for identity in names.values()}
        assert names == {name: study.identity for name, study in turned.studies.items()}
    with StudyList(places[:1]) as alone:
        assert list(alone.studies) == ["i"]
    with pytest.raises(BadParameter, match="nothing to serve"):
        StudyList([str(tmp_path / "absent.db")])


def test_a_prefix_stands_before_the_list_and_every_study(study_list):
    proxy = ProxyConfig(prefix="/labels")
    with TestClient(application(study_list, proxy=proxy), "http://127.0.0.1:8321") as client:
        page = client.get("/labels/s/mails/", headers=BEARER).text
        assert 'data-root="/labels/s/mails"' in page
        assert '<a href="/labels/">Studies</a>' in page
        assert 'href="/labels/static/app.css"' in page
        listed = client.get("/labels/", headers=BEARER).text
        assert 'href="/labels/s/mails/"' in listed
        invited = client.post("/labels/s/mails/api/invite", json={}, headers=BEARER).json()
        assert invited["path"].startswith("/labels/start?token=")
        assert client.get(invited["path"]).url.path == "/labels/"
        body = {"row": 0, "label": "good", "by": "ann"}
        assert client.post("/labels/s/mails/api/tell", json=body).status_code == 200
        assert client.get("/s/mails/", headers=BEARER).status_code == 404


def test_studies_take_turns_at_fitting():
    at_once, most, lock, ready = [0], [0], threading.Lock(), threading.Event()

    class Slow:
        pool, checked = SimpleNamespace(ready=True), True
        fits = 0

        def due(self):
            return self.fits < 2

        def refresh(self):
            with lock:
                at_once[0] += 1
                most[0] = max(most[0], at_once[0])
            ready.wait(0.02)
            with lock:
                at_once[0] -= 1
            self.fits += 1
            return object()

    studies = [Slow() for _ in range(10)]
    fitting = [refitter.Refitter(study) for study in studies]
    for one in fitting:
        one.start()
    until(lambda: all(study.fits == 2 for study in studies))
    for one in fitting:
        one.close()
    assert most[0] <= refitter._FITTING._initial_value
    assert not any(one.trouble for one in fitting)


def test_a_study_whose_turn_never_comes_ends_all_the_same():
    held = refitter._FITTING._initial_value
    for _ in range(held):
        refitter._FITTING.acquire()
    try:
        pool = SimpleNamespace(ready=True)
        study = SimpleNamespace(pool=pool, checked=True, due=lambda: True, refresh=list)
        waiting = refitter.Refitter(study)
        waiting.start()
        waiting.close()
        assert not waiting._thread.is_alive()
        assert not waiting.busy
    finally:
        for _ in range(held):
            refitter._FITTING.release()


def test_the_command_serves_all_that_can_be_opened(places):
    command = [sys.executable, "-m", "goalward", "serve", *places, "--no-browser", "--port", "0"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, **pipes)
    try:
        link = printed_link(process)
        jar = urllib.request.HTTPCookieProcessor(CookieJar())
        with urllib.request.build_opener(jar).open(link, timeout=120) as page:
            assert b'href="/s/mails/"' in page.read()
    finally:
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=120)
    assert process.returncode == 0
    assert "broken is not served" in said


def test_paths_have_the_names_of_studies():
    assert path_name("data/Reviews 2026.labels.db") == "reviews-2026"
    assert path_name("postgresql://me@host/db?study=mails") == "mails"
