"""Nobody gets in who should not: every route, every method."""

import asyncio
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import need

need("fastapi")

from starlette.testclient import TestClient  # noqa: E402

from goalward.errors import BadParameter  # noqa: E402
from goalward.studio.server import Auth, serve  # noqa: E402
from goalward.studio.server.auth import network  # noqa: E402
from goalward.studio.server.security import OPEN, ProxyConfig  # noqa: E402
from tests.studio.server.conftest import TOKEN, app_of  # noqa: E402

ROUTES = [
    ("GET", "/"),
    ("GET", "/review"),
    ("GET", "/scores"),
    ("GET", "/docs"),
    ("GET", "/openapi.json"),
    ("GET", "/static/label.js"),
    ("POST", "/api/ask"),
    ("POST", "/api/tell"),
    ("POST", "/api/skip"),
    ("POST", "/api/undo"),
    ("POST", "/api/withdraw"),
    ("POST", "/api/note"),
    ("POST", "/api/classes"),
    ("POST", "/api/refresh"),
    ("POST", "/api/invite"),
    ("GET", "/api/rows/0"),
    ("GET", "/api/why/0"),
    ("GET", "/api/words/0"),
    ("GET", "/api/status"),
    ("GET", "/api/curve"),
    ("GET", "/api/stop"),
    ("GET", "/api/answers"),
    ("GET", "/api/utilities"),
    ("GET", "/api/scores"),
    ("GET", "/api/agreement"),
    ("GET", "/api/images/0"),
    ("GET", "/api/export"),
    ("GET", "/api/predictions"),
    ("GET", "/api/events"),
]
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"]
FOREIGN = [
    "evil.example",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "127.0.0.1:8321@evil.example",
    "localhost:port",
    "[::2]:8321",
    "192.168.0.7",
    "",
]
every_route = pytest.mark.parametrize(("method", "path"), ROUTES)


def test_the_list_of_routes_is_complete(client):
    listed = {(m, p.replace("/0", "/{row}")) for m, p in ROUTES}
    paths = client.get("/openapi.json").json()["paths"]
    described = {(m.upper(), path) for path, calls in paths.items() for m in calls}
    assert described - {("GET", "/healthz")} <= listed
    assert len(described) == 23


@every_route
@pytest.mark.attack("no token, or a wrong one")
def test_without_a_token_nothing_is_said(client, method, path, tried):
    for headers in ({}, {"authorization": "Bearer no"}, {"cookie": "goalward_1=no"}):
        done = client.request(method, path, headers={"authorization": "", **headers})
        assert done.status_code == 401
        assert set(done.json()) == {"error"}
    tried(3)


@every_route
@pytest.mark.attack("foreign Origin or Sec-Fetch-Site")
def test_a_foreign_origin_is_refused_whatever_the_method(client, method, path, tried):
    foreign = [{"origin": o} for o in ("http://evil.example", "null", "http://127.0.0.1:9", "x")]
    foreign += [{"sec-fetch-site": site} for site in ("cross-site", "same-site")]
    for headers in foreign:
        for any_method in (method, *METHODS):
            assert client.request(any_method, path, headers=headers).status_code == 403
    tried(len(foreign) * (1 + len(METHODS)))


@pytest.mark.parametrize("host", FOREIGN)
@pytest.mark.attack("foreign Host")
def test_a_foreign_host_is_refused_before_anything_else(client, host, tried):
    for method in METHODS:
        for token in ({}, {"authorization": ""}):
            done = client.request(method, "/api/status", headers={"host": host, **token})
            assert done.status_code == 400
    tried(2 * len(METHODS))


@pytest.mark.attack("foreign Host")
def test_two_hosts_are_one_too_many(address):
    name, port = address.removeprefix("http://").split(":")
    with socket.create_connection((name, int(port)), timeout=120) as raw:
        raw.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n")
        assert b" 400 " in raw.recv(4096).split(b"\r\n")[0]


def test_hosts_of_our_own():
    remote = ProxyConfig(names=("Desk.lan",), remote=True)
    for host in ("localhost", "127.0.0.1:80", "[::1]:8321", "LOCALHOST:1"):
        assert ProxyConfig().allows_host(host)
    assert remote.allows_host("192.168.0.7:8321")
    assert not ProxyConfig().allows_host("192.168.0.7:8321")
    assert remote.allows_host("desk.lan")
    assert not remote.allows_host("evil.example")


@given(st.text(max_size=12))
def test_no_other_host_header_is_ours(host):
    assert not ProxyConfig().allows_host(f"{host}y")
    assert not ProxyConfig().allows_host(f"localhost{host}x")


def test_our_own_origin_is_welcome(client):
    same = {"origin": "http://127.0.0.1:8321", "sec-fetch-site": "same-origin"}
    assert client.post("/api/ask", json={"by": "ann"}, headers=same).status_code == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "x/y"])
@pytest.mark.attack("other Content-Type")
def test_json_that_says_it_is_something_else_is_refused(client, kind, tried):
    for path in ("/api/ask", "/api/tell", "/api/undo"):
        done = client.post(path, content='{"by": "ann"}', headers={"content-type": kind})
        assert done.status_code == 415
    assert client.post("/api/ask", content='{"by": "ann"}').status_code == 422
    tried(4)


@pytest.mark.attack("malformed or endless bodies")
def test_long_bodies_are_refused_with_and_without_their_length(client, served, tried):
    body = b'{"by": "' + b"a" * 2**20 + b'"}'
    assert client.post("/api/ask", content=body).status_code == 413

    def pieces():
        for _ in range(40):
            yield b" " * 2**16

    assert client.post("/api/ask", content=pieces()).status_code == 413
    deep = b"[" * 200_000
    json = {"content-type": "application/json"}
    assert client.post("/api/ask", content=deep, headers=json).status_code in (400, 422)
    tried(3)


@pytest.mark.attack("malformed or endless bodies")
def test_a_body_that_never_comes_ends_the_request(served, monkeypatch):
    monkeypatch.setattr("goalward.studio.server.security.BODY_SECONDS", 0.05)
    app, sent = app_of(served), []

    async def never():
        await asyncio.sleep(60)

    async def send(message):
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"authorization", f"Bearer {TOKEN}".encode())]
    scope = {"type": "http", "method": "POST", "path": "/api/ask", "headers": headers}
    scope |= {"query_string": b"", "raw_path": b"/api/ask", "http_version": "1.1"}
    asyncio.run(app(scope, never, send))
    assert sent[0]["status"] == 408


@pytest.mark.parametrize("path", ["/", "/api/status", "/login", "/api/export", "/nothing"])
def test_every_answer_is_sealed(client, path):
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"


@pytest.mark.attack("links used again, or guessed")
def test_a_link_works_once_and_becomes_a_strict_cookie(client, served, tried):
    out = TestClient(client.app, "http://127.0.0.1:8321", follow_redirects=False)
    token = served.auth.new_link()
    first = out.get("/start", params={"token": token})
    assert first.status_code == 303
    assert first.headers["location"] == "/"
    cookie = first.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert token not in cookie
    assert out.get("/").status_code == 200
    stranger = TestClient(client.app, "http://127.0.0.1:8321")
    assert stranger.get("/start", params={"token": token}).status_code == 401
    assert stranger.get("/start").status_code == 401
    page = stranger.get("/", headers={"accept": "text/html"}, follow_redirects=False)
    assert page.headers["location"] == "/login"
    assert stranger.post("/login", data={"token": "wrong"}).status_code == 401
    assert stranger.post("/login", data={"token": TOKEN}).status_code == 200
    invited = out.post("/api/invite").json()["path"]
    guest = TestClient(client.app, "http://127.0.0.1:8321")
    assert guest.get(invited).url.query == b"who=ask"
    assert guest.get(invited, headers={"cookie": ""}).status_code == 401
    tried(5)


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e%2fapp.py",
        "/static/%252e%252e%252fapp.py",
        "/static/..\\app.py",
        "/static/app.css%00.py",
        "/api/images/../../etc/passwd",
        "/api/images/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "/api/images/0%2f..%2f..%2fetc",
        "/api/rows/..%2f0",
        "/api/why/../rows",
        "/api/export?format=../../labels",
        "/api/answers?only=../dev",
        "/api/images/-1",
        "/api/rows/99999",
        "/api/rows/1e3",
    ],
)
@pytest.mark.attack("paths that lead out")
def test_paths_lead_nowhere(client, path):
    assert client.get(path).status_code in (404, 422)


def test_listening_to_others_needs_a_token_of_ones_own(study):
    for host in ("0.0.0.0", "192.168.0.7", "::"):
        with pytest.raises(BadParameter, match="token"):
            serve({"": study}, host=host)
    with pytest.raises(BadParameter, match="16"):
        Auth("short")
    assert {"/start", "/login"} <= OPEN


def test_an_ipv6_network_is_one_caller():
    assert network("10.0.0.7") == network("::ffff:10.0.0.7") == "10.0.0.7"
    assert network("2001:db8::7") == "2001:db8::/64"
