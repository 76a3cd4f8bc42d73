"""People with accounts: every route as every role, and the ways in."""

import csv
import re
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest

import goalward as gw
from tests.conftest import need

need("fastapi")

import httpx  # noqa: E402
from starlette.testclient import TestClient  # noqa: E402

from goalward.errors import BadParameter  # noqa: E402
from goalward.studio import team as in_team  # noqa: E402
from goalward.studio import team as passphrase  # noqa: E402
from goalward.studio.server import Auth, ProxyConfig, ServedStudy, create_app, serve  # noqa: E402
from goalward.studio.server.auth import AT_ONCE, HASHES, LONGEST_LINE  # noqa: E402
from goalward.studio.server.new_study import NewStudy, start  # noqa: E402
from goalward.studio.server.pages import study_list  # noqa: E402
from goalward.studio.server.served_study import EACH  # noqa: E402
from goalward.studio.store import events  # noqa: E402
from goalward.studio.team import (  # noqa: E402
    ROLES,
    SignedIn,
    Team,
)
from tests.studio.server.conftest import TOKEN, app_of, running, until  # noqa: E402

HERE = "http://127.0.0.1:8321"
WORDS = "four words of mine"
PEOPLE = {"annotator": "Bo", "reviewer": "Cleo", "owner": "Ann"}
TABLE = Path(__file__).parents[3] / "docs/how-to/accounts.csv"


class Clock:
    now = 1.8e9

    def __call__(self):
        return self.now


@pytest.fixture(autouse=True)
def cheap(monkeypatch):
    monkeypatch.setattr(passphrase, "COST", 2**4)


@pytest.fixture
def team(tmp_path):
    made = Team.create(tmp_path / "team.db", clock=Clock())
    for role, name in PEOPLE.items():
        made.join(made.invite(name, role), WORDS)
    yield made
    made.close()


@pytest.fixture
def served(study, team):
    auth = Auth(TOKEN, port=1, team=team)
    # Nothing wears off, however long a test takes.
    auth.attempts.clock = auth.accounts.clock = lambda: 0.0
    return ServedStudy(study, auth)


@pytest.fixture
def app(served):
    made = app_of(served)
    with TestClient(made, HERE):
        yield made


def signed_in(app, name, words=WORDS):
    client = TestClient(app, HERE, follow_redirects=False)
    done = client.post("/login", data={"name": name, "passphrase": words})
    assert done.status_code == 303, done.text
    return client


@pytest.fixture
def bo(app):
    return signed_in(app, "Bo")


@pytest.fixture
def cleo(app):
    return signed_in(app, "Cleo")


@pytest.fixture
def ann(app):
    return signed_in(app, "Ann")


def routes(app):
    """Every method and path that the application has."""
    # Newer versions of FastAPI keep included routers whole.
    included = (getattr(route, "original_router", None) for route in app.routes)
    every = [*app.routes, *(one for router in included if router for one in router.routes)]
    found = [route for route in every if hasattr(route, "methods")]
    assert len(found) > 30
    return sorted((m, route.path) for route in found for m in route.methods - {"HEAD"})


def said_in_docs():
    """What docs/how-to/accounts.csv says of each path: three cells."""
    found = {}
    for _, paths, *cells in csv.reader(TABLE.read_text("utf-8").splitlines()[1:]):
        for path in re.findall(r"`([^`]+)`", paths):
            assert path not in found
            found[path] = dict(zip(ROLES, cells, strict=True))
    return found


def test_the_table_in_the_docs_names_every_route(app):
    others = {route.path for router in (study_list, start) for route in router.routes}
    assert set(said_in_docs()) == {path for _, path in routes(app)} | others


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.attack("every route as every role")
def test_every_route_as_every_role_is_as_the_docs_say(app, served, study, role, tried):
    served.live.close()  # so that streams end
    before, said, name = study.state.seq, said_in_docs(), PEOPLE[role]
    client = signed_in(app, name)
    for method, path in sorted(routes(app), key=lambda route: route[1] == "/logout"):
        real = path.replace("{row}", "0").replace("{name}", "label.js")
        done = client.request(method, real, json={} if method == "POST" else None)
        refused = said[path][role] == "no"
        assert (done.status_code == 403) == refused, (role, method, path, done.text)
        assert done.status_code != 401 or path in ("/login", "/start", "/join")
        assert done.status_code < 500
        if refused:
            assert name in done.json()["error"]
    kinds = {type(r.event) for r in study._ledger.store.read() if r.seq > before}
    assert kinds <= {events.Asked, events.Exported, events.Ranked}
    tried(len(routes(app)))


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.attack("every route as every role")
def test_only_owners_begin_studies(team, tmp_path, role):
    auth = Auth(port=1, team=team)
    app = create_app({}, auth, new=NewStudy(auth, None, tmp_path))
    with TestClient(app, HERE):
        client = signed_in(app, PEOPLE[role])
        for route in start.routes:
            (method,) = route.methods
            if route.path.endswith("upload"):
                kind = {"content-type": "application/octet-stream"}
                done = client.post(route.path, content=b"", headers=kind)
            elif route.path.endswith("sample") and role == "owner":
                continue  # it would make one
            else:
                done = client.request(method, route.path, json={} if method == "POST" else None)
            assert (done.status_code == 403) == (role != "owner"), (route.path, done.text)


@pytest.mark.attack("no sign-in")
def test_nobody_gets_anywhere_without_signing_in(app, team, tried):
    for cookie in ("", "x" * 43, *team.members.sessions, app.state.auth.session):
        client = TestClient(app, HERE, cookies={"goalward_1": cookie}, follow_redirects=False)
        for method, path in routes(app):
            if path in ("/login", "/join", "/start", "/healthz"):
                continue
            real = path.replace("{row}", "0").replace("{name}", "label.js")
            assert client.request(method, real).status_code == 401, path
    tried(len(routes(app)))


@pytest.mark.attack("other people's studies and answers")
def test_a_role_in_another_study_is_none_in_this(app, team, served):
    team.join(team.invite("Dan", "owner", study="another"), WORDS)
    dan = signed_in(app, "Dan")
    for path in ("/", "/api/status", "/api/answers", "/api/export"):
        assert dan.get(path).status_code == 403
    assert dan.post("/api/tell", json={"row": 0, "label": "good"}).status_code == 403
    assert dan.get("/people").status_code == 200
    assert dan.post("/api/team/remove", json={"name": "Bo"}).status_code == 403
    assert [p["name"] for p in dan.get("/api/team").json()["people"]] == ["Dan"]
    team.set_role("Dan", "owner", study=served.id)
    assert dan.get("/api/export").status_code == 200
    # An owner of a study, and not of the team.
    assert dan.post("/api/team/invite", json={"name": "E"}).status_code == 403


@pytest.mark.attack("other people's studies and answers")
def test_nobody_answers_for_another(app, bo, ann, study):
    for path, more in (
        ("/api/tell", {"row": 0, "label": "good"}),
        ("/api/skip", {"row": 0}),
        ("/api/undo", {}),
        ("/api/withdraw", {"row": 0}),
        ("/api/note", {"row": 0, "text": "x"}),
        ("/api/ask", {}),
    ):
        before = study.state.seq
        for client in (bo, ann):
            done = client.post(path, json={"by": "Cleo", **more})
            assert done.status_code == 403
            assert done.headers["x-goalward-person"] == "other"
        assert study.state.seq == before
    assert bo.post("/api/tell", json={"row": 0, "label": "good", "by": "bo"}).status_code == 403
    assert bo.post("/api/tell", json={"row": 0, "label": "good"}).status_code == 200
    assert bo.post("/api/tell", json={"row": 1, "label": "bad", "by": "Bo"}).status_code == 200
    assert {row: set(said) for row, said in study.state.standings.items()} == {0: {"Bo"}, 1: {"Bo"}}


@pytest.mark.attack("other people's studies and answers")
def test_an_annotator_sees_their_own_answers_only(app, bo, cleo, study):
    study.tell(0, "good", by="Ann")
    study.tell(0, "bad", by="Bo")
    study.tell(1, "good", by="Ann")
    seen = bo.get("/api/answers").json()
    assert [line["row"] for line in seen["rows"]] == [0]
    assert seen["rows"][0]["answers"] == [{"by": "Bo", "label": "bad", "says": "bad"}]
    assert seen["rows"][0]["label"] == "bad"
    for wanted in ({"by": "Ann"}, {"label": "good"}, {"only": "disagreeing"}, {"only": "doubted"}):
        assert bo.get("/api/answers", params=wanted).status_code == 403
        assert bo.get("/review", params=wanted).status_code == 403
        assert cleo.get("/api/answers", params=wanted).status_code == 200
    assert "Ann" not in bo.get("/review").text
    assert "Ann" in cleo.get("/review").text
    assert bo.get("/api/answers", params={"only": "open"}).json()["total"] == study.n_rows - 2


@pytest.mark.attack("other people's studies and answers")
def test_an_annotator_sees_neither_notes_nor_labels_of_others(app, bo, cleo, study, tried):
    for row in range(40):
        study.tell(row, "good" if row % 2 else "bad", by="Ann")
        study.note(row, "Ann thinks so", by="Ann")
    study.refresh()
    study.tell(0, "bad", by="Bo")
    study.note(0, "mine", by="Bo")
    mine = [{"by": "Bo", "text": "mine"}]
    assert bo.get("/api/answers").json()["rows"][0]["notes"] == mine
    assert bo.get("/api/rows/0").json()["notes"] == mine
    assert bo.post("/api/note", json={"row": 0, "text": "more"}).json()["n_notes"] == 2
    study.withdraw(0, by="Bo")
    gets = ["/review", *(f"/api/rows/{row}" for row in range(40))]
    said = [bo.get(path).text for path in gets]
    posts = (("undo", {}), ("ask", {"n": 50}), ("skip", {"row": 39}), ("withdraw", {"row": 39}))
    said += [bo.post(f"/api/{path}", json=more).text for path, more in posts]
    said.append(bo.post("/api/tell", json={"row": 0, "label": "good"}).text)
    assert not [one for one in said if "Ann thinks" in one]
    whys = [client.get("/api/why/1").json()["labels"] for client in (bo, cleo)]
    found = [[one["helps"] + one["hurts"] for one in labels] for labels in whys]
    assert not any(found[0])
    assert any(found[1])
    assert cleo.get("/api/rows/0").json()["n_notes"] == 3
    tried(len(said) + 1)


def test_pages_offer_what_a_role_may_do(bo, cleo, ann):
    pages = {name: c.get("/").text for name, c in (("bo", bo), ("cleo", cleo), ("ann", ann))}
    offered = {
        name: [w in text for w in ("/api/export", ">Scores<", ">People<")]
        for name, text in pages.items()
    }
    assert offered == {"bo": [False] * 3, "cleo": [True, True, False], "ann": [True] * 3}
    assert 'data-by="Bo"' in pages["bo"]
    assert "who-dialog" not in pages["bo"]


@pytest.mark.attack("sessions that are over")
def test_signing_in_makes_a_new_strict_cookie_and_ends_the_old_session(app, team):
    client = TestClient(app, HERE, follow_redirects=False, cookies={"goalward_1": "chosen"})
    seen = set()
    for _ in range(3):
        done = client.post("/login", data={"name": "bo", "passphrase": WORDS})
        cookie = done.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert "Max-Age=604800" in cookie
        assert "Secure" not in cookie
        seen.add(re.search("goalward_1=([^;]+)", cookie)[1])
        assert len(team.members.sessions_of("Bo")) == 1
    assert len(seen) == 3
    assert "chosen" not in seen
    https = TestClient(app, HERE.replace("http:", "https:"), follow_redirects=False)
    done = https.post("/login", data={"name": "bo", "passphrase": WORDS})
    assert "Secure" in done.headers["set-cookie"]


@pytest.mark.attack("guesses at a passphrase, a name or an invitation")
def test_a_wrong_name_and_a_wrong_passphrase_get_the_same_reply(app, team, tried):
    team.set_role("Eve", "annotator")
    said = set()
    for name in ("Bo", "Nobody", "Eve"):
        client = TestClient(app, HERE)
        done = client.post("/login", data={"name": name, "passphrase": "something else"})
        assert done.status_code == 401
        assert "set-cookie" not in done.headers
        said.add(done.text.replace(name, ""))
    assert len(said) == 1
    for sent in ({}, {"name": "Bo"}, {"name": "Bo", "passphrase": ""}, {"token": TOKEN}):
        assert TestClient(app, HERE).post("/login", data=sent).status_code == 401
    tried(7)


@pytest.mark.attack("guesses at a passphrase, a name or an invitation")
def test_guesses_are_slowed_down_at_sign_in_and_at_links(app, tried, monkeypatch):
    client = TestClient(app, HERE)
    # The same one again, too: each costs a hash.
    wrong = {"name": "Bo", "passphrase": "one that was good yesterday"}
    replies = [client.post("/login", data=wrong).status_code for _ in range(30)]
    assert replies == [401] * (AT_ONCE + 1) + [429] * (29 - AT_ONCE)
    assert client.post("/login", data={"name": "Bo", "passphrase": WORDS}).status_code == 429
    other = TestClient(app, HERE, client=("10.0.0.9", 1), follow_redirects=False)
    assert other.post("/login", data={"name": "Bo", "passphrase": WORDS}).status_code == 303
    # A link that is none costs no hash.
    monkeypatch.setattr(in_team, "hash_passphrase", lambda words: pytest.fail("a hash was made"))
    third = TestClient(app, HERE, client=("10.0.0.10", 1))
    words = {"passphrase": WORDS, "again": WORDS}
    tries = [third.post("/join", data={"invite": f"x{n}", **words}).status_code for n in range(30)]
    assert tries == [401] * (AT_ONCE + 1) + [429] * (29 - AT_ONCE)
    tried(61)


@pytest.mark.attack("guesses at a passphrase, a name or an invitation")
def test_a_network_of_ipv6_is_one_guesser_and_an_account_is_slow_for_all(app, tried):
    def replies(addresses, words):
        clients = (
            TestClient(app, HERE, client=(one, 1), follow_redirects=False) for one in addresses
        )
        sent = {"name": "Bo", "passphrase": words}
        return [client.post("/login", data=sent).status_code for client in clients]

    assert replies((f"2001:db8::{n:x}" for n in range(30)), "guess").count(401) == AT_ONCE + 1
    assert replies(["2001:db8:0:1::1"], WORDS) == [303]
    # As many as can guess at once pause an account; those before do not.
    most = app.state.auth.accounts.at_once
    before = replies((f"10.0.{n}.1" for n in range(most - 40)), "guess")
    assert set(before) == {401}
    assert replies(["10.1.0.1"], WORDS) == [303]
    after = replies((f"10.2.{n}.1" for n in range(60)), "guess")
    assert 429 in after
    assert replies(["10.1.0.2"], WORDS) == [429]
    tried(30 + most + 20)


@pytest.fixture
def held(monkeypatch):
    """Hashes that wait until they may go on, and the passphrases they were asked for, in order."""
    matches, hashes = in_team.check_passphrase, SimpleNamespace(of=[], go=threading.Event())

    def slow(words, kept):
        hashes.of.append(words)
        assert hashes.go.wait(120)
        return matches(words, kept)

    monkeypatch.setattr(in_team, "check_passphrase", slow)
    yield hashes
    hashes.go.set()


def line(source, address):
    """Return a client that calls from an address of this machine's own."""
    transport = httpx.HTTPTransport(local_address=source)
    return httpx.Client(base_url=address, timeout=120, transport=transport)


@pytest.mark.attack("guesses that keep others from signing in")
def test_who_guesses_keeps_nobody_else_waiting(served, held, tried):
    waiting, now = served.auth.queue.waiting, iter(range(0, 10**9, 1000))
    # All wrong guesses have worn off when the next comes, and yet who made none goes first.
    served.auth.attempts.clock = lambda: next(now)
    for n in range(6):
        served.auth.attempts.failed(f"127.0.0.{10 + n}")

    def guess(n):
        # Sixty clients of six addresses.
        with line(f"127.0.0.{10 + n % 6}", address) as client:
            sent = {"name": ("Ann", "Nobody")[n % 2], "passphrase": f"guess {n}"}
            return client.post("/login", data=sent).status_code

    def right():
        with line("127.0.0.9", address) as client:
            done = client.post("/login", data={"name": "Ann", "passphrase": WORDS})
        return done.status_code

    with running(served) as address, ThreadPoolExecutor(61) as threads:
        guesses = [threads.submit(guess, n) for n in range(60)]
        until(lambda: waiting.total() == 60 - HASHES)
        ours = threads.submit(right)
        until(lambda: waiting["127.0.0.9"])
        held.go.set()
        assert ours.result() == 303
        assert {one.result() for one in guesses} <= {401, 429}
    # Behind those that were begun, and no other.
    assert held.of.index(WORDS) == HASHES
    tried(60)


@pytest.mark.attack("guesses that keep others from signing in")
def test_one_network_waits_in_a_line_that_ends_and_who_hung_up_is_not_hashed(served, held, tried):
    queue, at = served.auth.queue, "name=Ann&passphrase=gone"
    request = f"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(at)}\r\n\r\n{at}"
    with running(served) as address, ThreadPoolExecutor(HASHES + 1) as threads:
        sign_in = {"name": "Ann", "passphrase": WORDS}

        def right():
            return httpx.post(f"{address}/login", data=sign_in, timeout=120).status_code

        begun = [threads.submit(right) for _ in range(HASHES)]
        until(lambda: len(held.of) == HASHES)
        port = int(address.rpartition(":")[2])
        gone = [socket.create_connection(("127.0.0.1", port)) for _ in range(LONGEST_LINE)]
        for one in gone:
            one.sendall(request.encode())
        until(lambda: queue.waiting["127.0.0.1"] == LONGEST_LINE)
        assert right() == 429
        for one in gone:
            one.close()
        held.go.set()
        assert [one.result() for one in begun] == [303] * HASHES
        assert right() == 303
    assert held.of == [WORDS] * (HASHES + 1)
    tried(LONGEST_LINE)


def test_a_passphrase_is_changed_and_sessions_end_everywhere(app, bo, team):
    elsewhere = signed_in(app, "Bo")
    for sent in ({"old": "not the one", "new": "another passphrase"}, {"old": WORDS, "new": "x"}):
        assert bo.post("/api/team/passphrase", json=sent).status_code == 422
    assert elsewhere.get("/api/status").status_code == 200
    changed = {"old": WORDS, "new": "another passphrase"}
    assert bo.post("/api/team/passphrase", json=changed).status_code == 200
    assert elsewhere.get("/api/status").status_code == 401
    assert bo.get("/api/status").status_code == 200
    assert team.sign_in("Bo", WORDS) is None
    assert team.members.person("Bo").role() == "annotator"
    elsewhere, third = (signed_in(app, "Bo", "another passphrase") for _ in range(2))
    assert bo.post("/logout", data={"everywhere": "yes"}).status_code == 303
    for client in (bo, elsewhere, third):
        assert client.get("/api/status").status_code == 401
    program = TestClient(app, HERE, headers={"authorization": f"Bearer {TOKEN}"})
    assert program.post("/api/team/passphrase", json=changed).status_code == 422


@pytest.mark.attack("sessions that are over")
def test_sessions_end_by_time_by_their_owner_and_by_an_owner_of_the_team(
    app, team, bo, ann, cleo, tried
):
    (mine,) = bo.get("/api/team").json()["people"]
    assert mine["sessions"][0]["here"]
    assert "owner" not in {p["role"] for p in bo.get("/api/team").json()["people"]}
    anns = next(p for p in ann.get("/api/team").json()["people"] if p["name"] == "Ann")
    stolen = {"id": anns["sessions"][0]["id"]}
    for client in (bo, cleo):
        assert client.post("/api/team/revoke", json=stolen).status_code == 422
    second = signed_in(app, "Bo")
    assert bo.post("/api/team/revoke", json={"id": mine["sessions"][0]["id"]}).status_code == 200
    assert bo.get("/api/status").status_code == 401
    bos = next(p for p in ann.get("/api/team").json()["people"] if p["name"] == "Bo")
    assert ann.post("/api/team/revoke", json={"id": bos["sessions"][0]["id"]}).status_code == 200
    assert second.get("/api/status").status_code == 401
    third = signed_in(app, "Bo")
    assert third.post("/logout").status_code == 303
    assert third.get("/api/status").status_code == 401
    assert cleo.get("/api/status").status_code == 200
    team.clock.now += 7 * 86400
    assert cleo.get("/api/status").status_code == 401
    page = cleo.get("/", headers={"accept": "text/html"})
    assert page.headers["location"] == "/login"
    tried(3)


@pytest.mark.attack("sessions that are over")
def test_removed_and_demoted_people_are_so_at_once(app, ann, bo, cleo, tried):
    assert ann.post("/api/team/role", json={"name": "Cleo", "role": "annotator"}).status_code == 200
    assert cleo.get("/api/export").status_code == 403
    assert ann.post("/api/team/remove", json={"name": "Bo"}).status_code == 200
    assert bo.get("/api/status").status_code == 401
    for body in ({"name": "Ann"}, {"name": "Nobody"}):
        assert ann.post("/api/team/remove", json=body).status_code == 422
    done = ann.post("/api/team/role", json={"name": "Nobody", "role": "owner"})
    assert done.status_code == 422
    tried(2)


def test_an_invitation_from_the_page_to_the_first_answer(app, ann, study):
    made = ann.post("/api/team/invite", json={"name": "Dan", "role": "annotator"}).json()
    assert made["link"].startswith(f"{HERE}/join?invite=")
    assert [i["name"] for i in ann.get("/api/team").json()["invited"]] == ["Dan"]
    dan = TestClient(app, HERE, follow_redirects=False)
    # From a mail or a chat, as browsers open it; looking does not use it up.
    for _ in range(2):
        page = dan.get(made["link"], headers={"sec-fetch-site": "cross-site"})
        assert page.status_code == 200
        assert "Dan" in page.text
    invite = made["link"].partition("invite=")[2]
    for words, again in (("short", "short"), (WORDS, "other words here")):
        done = dan.post("/join", data={"invite": invite, "passphrase": words, "again": again})
        assert done.status_code == 422
    done = dan.post("/join", data={"invite": invite, "passphrase": WORDS, "again": WORDS})
    assert done.status_code == 303
    assert dan.post("/api/tell", json={"row": 3, "label": "bad"}).status_code == 200
    assert set(study.state.standings[3]) == {"Dan"}
    assert TestClient(app, HERE).get(made["link"]).status_code == 401
    foreign = {"origin": "http://evil.example"}
    for path in ("/join", "/login", "/logout", "/api/team/invite"):
        assert ann.post(path, data={}, headers=foreign).status_code == 403


def test_a_program_goes_on_with_the_token_and_is_an_owner(app, study):
    program = TestClient(app, HERE, headers={"authorization": f"Bearer {TOKEN}"})
    told = program.post("/api/tell", json={"row": 0, "label": "good", "by": "anybody"})
    assert told.status_code == 200
    assert program.post("/api/tell", json={"row": 1, "label": "good"}).status_code == 422
    assert program.get("/api/export").status_code == 200
    assert (
        program.post("/api/team/invite", json={"name": "Dan", "role": "owner"}).status_code == 200
    )
    assert program.get("/people").status_code == 200
    assert program.post("/api/invite").status_code == 409
    wrong = TestClient(app, HERE, headers={"authorization": "Bearer no"})
    assert wrong.get("/api/status").status_code == 401


def test_who_answered_undid_and_exported_is_in_the_journal(app, bo, cleo, study):
    bo.post("/api/tell", json={"row": 0, "label": "good"})
    bo.post("/api/tell", json={"row": 1, "label": "good"})
    bo.post("/api/undo", json={})
    assert bo.get("/api/export").status_code == 403
    assert cleo.get("/api/export", params={"format": "jsonl"}).status_code == 200
    written = [r.event for r in study._ledger.store.read()]
    assert [(e.by, e.row) for e in written if isinstance(e, events.Told)] == [("Bo", 0), ("Bo", 1)]
    assert [e.by for e in written if isinstance(e, events.Undone)] == ["Bo"]
    assert [(e.by, e.what) for e in written if isinstance(e, events.Exported)] == [
        ("Cleo", "labels.jsonl")
    ]
    came = [r.event for r in app.state.auth.team.store.read()]
    assert {e.name for e in came if isinstance(e, SignedIn)} == {"Bo", "Cleo"}


@pytest.mark.attack("sessions that are over")
def test_a_stream_ends_for_who_is_signed_out(served, team):
    with running(served) as address, httpx.Client(base_url=address, timeout=120) as client:
        client.post("/login", data={"name": "Bo", "passphrase": WORDS})
        with client.stream("GET", "/api/events") as stream:
            lines = stream.iter_lines()
            assert next(line for line in lines if line.startswith("id:"))
            team.remove("Bo")
            served.study.tell(0, "good", by="Ann")
            served.changed()
            assert not [line for line in lines if line.startswith("id:")]


@pytest.mark.attack("streams of one person")
def test_the_streams_of_one_person_leave_room_for_others(served, tried):
    with ExitStack() as held:
        address = held.enter_context(running(served))
        bo, cleo = (httpx.Client(base_url=address, timeout=120) for _ in range(2))
        for client, name in ((bo, "Bo"), (cleo, "Cleo")):
            held.enter_context(client)
            client.post("/login", data={"name": name, "passphrase": WORDS})
        streams = [held.enter_context(bo.stream("GET", "/api/events")) for _ in range(EACH)]
        said = [stream.iter_lines() for stream in streams]
        assert [next(lines) for lines in said] == ["retry: 2000"] * EACH
        with bo.stream("GET", "/api/events") as one_more:
            assert one_more.status_code == 503
        with cleo.stream("GET", "/api/events") as other:
            assert next(other.iter_lines())
    tried(EACH + 1)


class TestProxies:
    """A name in a header, from named proxies only."""

    def client(self, served, address, header="X-Forwarded-User", **headers):
        proxy = ProxyConfig(proxies=("10.0.0.5", "10.1.0.0/24"), user_header=header)
        app = app_of(served, proxy=proxy)
        return TestClient(app, HERE, client=(address, 1), headers=headers)

    def test_a_named_proxy_is_believed(self, served, study, team):
        for address in ("10.0.0.5", "10.1.0.77"):
            with self.client(served, address, **{"x-forwarded-user": "Bo"}) as bo:
                told = bo.post("/api/tell", json={"row": 0, "label": "good"})
                assert told.status_code == 200
                assert bo.get("/api/export").status_code == 403
        assert set(study.state.standings[0]) == {"Bo"}
        came = [r.event for r in team.store.read() if isinstance(r.event, SignedIn)]
        assert len(came) == 1

    @pytest.mark.parametrize("name", ["\uff22o", "BO", "bo", "B\u2134", "Bo\u200b"])
    @pytest.mark.attack("other people's studies and answers")
    def test_a_name_counts_letter_by_letter(self, served, name):
        with self.client(served, "10.0.0.5", **{"x-forwarded-user": name.encode()}) as other:
            assert other.get("/api/status").status_code == 403

    @pytest.mark.parametrize("address", ["10.0.0.6", "127.0.0.1", "10.1.1.1", "::1", "testclient"])
    def test_nobody_else_is(self, served, address):
        for name in ("x-forwarded-user", "X_Forwarded_User", "remote-user"):
            with self.client(served, address, **{name: "Ann"}) as client:
                assert client.get("/api/status").status_code == 401

    def test_who_claims_to_be_forwarded_by_the_proxy_is_not_it(self, served):
        lies = {"x-forwarded-user": "Ann", "x-forwarded-for": "10.0.0.5"}
        with self.client(served, "10.0.0.6", **lies) as client:
            assert client.get("/api/status").status_code == 401

    def test_unknown_names_and_two_names_are_refused(self, served):
        with self.client(served, "10.0.0.5", **{"x-forwarded-user": "Mallory"}) as client:
            assert client.get("/api/status").status_code == 403
        with self.client(served, "10.0.0.5") as client:
            two = [("x-forwarded-user", "Bo"), ("x-forwarded-user", "Ann")]
            assert client.get("/api/status", headers=two).status_code == 400
            assert client.get("/api/status").status_code == 401
            assert client.get("/api/status", headers={"x-forwarded-user": ""}).status_code == 401

    def test_it_is_off_unless_named(self, served):
        with self.client(served, "10.0.0.5", "", **{"x-forwarded-user": "Ann"}) as client:
            assert client.get("/api/status").status_code == 401
        with pytest.raises(BadParameter, match="needs --proxy"):
            ProxyConfig(user_header="X-Forwarded-User")
        with pytest.raises(BadParameter, match="needs --team"):
            serve({}, proxy=ProxyConfig(proxies=("10.0.0.5",), user_header="X-Forwarded-User"))

    def test_real_addresses_behind_the_proxy_are_what_is_slowed_down(self, served):
        with self.client(served, "10.0.0.5") as client:
            for n in range(15):
                guess = {"name": "Bo", "passphrase": f"guess {n}"}
                client.post("/login", data=guess, headers={"x-forwarded-for": "192.0.2.1"})
            right = {"name": "Bo", "passphrase": WORDS}
            slow = client.post("/login", data=right, headers={"x-forwarded-for": "192.0.2.1"})
            assert slow.status_code == 429
            other = client.post("/login", data=right, headers={"x-forwarded-for": "192.0.2.2"})
            assert other.status_code == 200


def test_a_server_with_a_team_prints_no_link_that_opens_it(study, team, monkeypatch, capsys):
    ready = threading.Event()
    monkeypatch.setattr("uvicorn.Server.run", lambda self, sockets: ready.set())
    place = team.store.path
    serve({"": study}, team=place, port=0, browser=False)
    said = capsys.readouterr().out
    assert ready.is_set()
    assert "token" not in said
    assert "Sign in by name" in said
    serve({"": study}, team=place, host="0.0.0.0", port=0, browser=False)
    with pytest.raises(BadParameter, match="--team or --token-file"):
        serve({"": study}, host="0.0.0.0", port=0, browser=False)
    assert socket.gethostname()


@pytest.mark.attack("other people's studies and answers")
def test_of_several_studies_everybody_gets_their_own(tmp_path, team):
    studies = {
        name: gw.Study.create(tmp_path / f"{name}.db", pool=[[0.0], [1.0]], classes=["a", "b"])
        for name in ("one", "two")
    }
    auth = Auth(TOKEN, port=1, team=team)
    served = {name: ServedStudy(study, auth) for name, study in studies.items()}
    one, two = served["one"].id, served["two"].id
    team.join(team.invite("Dan", "annotator", study=one), WORDS)
    team.join(team.invite("Eve", "owner", study=two), WORDS)
    team.set_role("Eve", "annotator", study=one)
    app = create_app(served, auth, unopened={"three": "It is damaged."})
    with TestClient(app, HERE):
        people = {name: signed_in(app, name) for name in ("Dan", "Eve", "Bo", "Ann")}
        listed = {
            name: {s["name"] for s in client.get("/api/studies").json()}
            for name, client in people.items()
        }
        assert listed == {
            "Dan": {"one"},
            "Eve": {"one", "two"},
            "Bo": {"one", "two", "three"},
            "Ann": {"one", "two", "three"},
        }
        assert "/s/two/" not in people["Dan"].get("/").text
        for path in ("/", "/api/status", "/api/rows/0", "/api/answers", "/api/export", "/docs"):
            assert people["Dan"].get(f"/s/two{path}").status_code == 403
        told = {"row": 0, "label": "a"}
        assert people["Dan"].post("/s/two/api/tell", json=told).status_code == 403
        assert people["Dan"].post("/s/one/api/tell", json=told).status_code == 200
        assert people["Eve"].get("/s/two/api/export").status_code == 200
        assert people["Eve"].get("/s/one/api/export").status_code == 403
        assert people["Eve"].post("/api/team/invite", json={"name": "F"}).status_code == 403
        assert people["Ann"].get("/people").status_code == 200
        assert people["Ann"].get("/s/one/people").status_code == 404
        assert people["Bo"].get("/s/one/api/export").status_code == 403
    assert set(studies["one"].state.standings[0]) == {"Dan"}
    assert not studies["two"].state.standings
    for study in studies.values():
        study.close()
