"""A proxy before the page: believed where it was named, and nobody else is."""

import asyncio
import json
from contextlib import contextmanager
from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient
from typer.testing import CliRunner

from goalward.cli import app as cli
from goalward.errors import BadParameter
from goalward.studio.server import Auth, ProxyConfig
from goalward.studio.server.auth import AT_ONCE
from goalward.studio.server.security import SecurityMiddleware
from tests.studio.server.conftest import TOKEN, app_of

BEARER = {"authorization": f"Bearer {TOKEN}"}
PROXY, OTHER = ("10.0.0.3", 5), ("192.0.2.9", 5)
NAME = "labels.example"
CONFIG = ProxyConfig(names=(NAME,), prefix="/labels", proxies=("10.0.0.0/24", "::1"))


@contextmanager
def calling(served, client, proxy=CONFIG):
    app = app_of(served, proxy=proxy)
    with TestClient(app, "http://10.0.0.1:8321", client=client, follow_redirects=False) as made:
        yield made


def forwarded(address="192.0.2.7", proto="https", host=NAME):
    named = {"for": address, "proto": proto, "host": host}
    return {f"x-forwarded-{name}": value for name, value in named.items() if value is not None}


def seen(client, headers):
    """What a request is taken for: its caller, scheme and host; and how it was refused."""
    pairs = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    scope = {"type": "http", "method": "GET", "path": "/labels/", "query_string": b""}
    scope |= {"client": client, "headers": pairs, "scheme": "http"}
    replies = []

    async def send(message):
        replies.append(message)

    middleware = SecurityMiddleware(None, auth=Auth(), proxy=CONFIG)
    asyncio.run(middleware(scope, None, send))
    host = dict(scope["headers"]).get(b"host")
    return scope["client"][0], scope["scheme"], host, json.loads(replies[1]["body"])["error"]


def test_a_named_proxy_says_who_calls_by_which_scheme_and_name(served):
    with calling(served, PROXY) as proxy:
        link = f"/labels/start?token={served.auth.new_link()}"
        opened = proxy.get(link, headers=forwarded())
        assert opened.status_code == 303
        assert "Secure" in opened.headers["set-cookie"]
        assert opened.headers["strict-transport-security"].startswith("max-age=")
        asked = {**BEARER, **forwarded(), "origin": f"https://{NAME}"}
        invited = proxy.post("/labels/api/invite", json={}, headers=asked).json()
        assert invited["address"] == f"https://{NAME}"
        assert NAME in invited["says"]
        assert f"https://{NAME}/labels/api/ask" in proxy.get("/labels/docs", headers=asked).text
        plain = {**forwarded(proto="http"), "host": NAME}
        link = f"/labels/start?token={served.auth.new_link()}"
        opened = proxy.get(link, headers=plain)
        assert "Secure" not in opened.headers["set-cookie"]
        assert "strict-transport-security" not in opened.headers


def test_origins_and_hosts_are_those_of_outside(served):
    with calling(served, PROXY) as proxy:
        for headers, status in (
            ({**forwarded(), "origin": f"https://{NAME}"}, 200),
            ({**forwarded(), "origin": "https://evil.example"}, 403),
            ({**forwarded(), "origin": "http://10.0.0.1:8321"}, 403),
            (forwarded(host="evil.example"), 400),
            (forwarded(host=f"{NAME}, evil.example"), 400),
            (forwarded(host=f"evil.example, {NAME}"), 200),
            (forwarded(host=""), 400),
        ):
            asked = {**BEARER, **headers}
            assert proxy.get("/labels/api/status", headers=asked).status_code == status


@pytest.mark.attack("forwarded headers of strangers")
def test_what_anybody_else_forwards_is_not_believed(served, tried):
    with calling(served, OTHER) as stranger:
        asked = {**BEARER, **forwarded()}
        # Its own Host counts, which is not ours; and a name of ours makes no HTTPS of HTTP.
        assert stranger.get("/labels/api/status", headers=asked).status_code == 400
        link = f"/labels/start?token={served.auth.new_link()}"
        opened = stranger.get(link, headers={**forwarded(), "host": NAME})
        assert opened.status_code == 303
        assert "Secure" not in opened.headers["set-cookie"]
    tried(2)


@pytest.mark.attack("forwarded headers of strangers")
def test_guesses_are_slowed_down_for_the_caller_and_not_for_the_proxy(served):
    def guess(client, number, address):
        wrong = {"authorization": f"Bearer {number}", "host": NAME, "x-forwarded-for": address}
        return client.get("/labels/api/status", headers=wrong).status_code

    with calling(served, PROXY) as proxy:
        asked = [guess(proxy, n, "192.0.2.7") for n in range(AT_ONCE + 2)]
        assert asked[0] == 401
        assert asked[-1] == 429
        assert guess(proxy, "x", "192.0.2.8") == 401
        # What the caller says of itself stands before what the proxy adds.
        assert guess(proxy, "x", "203.0.113.1, 192.0.2.7") == 429
    with calling(served, OTHER) as stranger:
        asked = [guess(stranger, n, f"192.0.2.{100 + n}") for n in range(AT_ONCE + 2)]
        assert asked[-1] == 429


@pytest.mark.parametrize(
    ("values", "caller"),
    [
        (["192.0.2.7"], "192.0.2.7"),
        (["8.8.8.8, 192.0.2.7"], "192.0.2.7"),
        (["8.8.8.8", "192.0.2.7"], "192.0.2.7"),
        (["192.0.2.7, 10.0.0.9"], "192.0.2.7"),
        (["10.0.0.8, 10.0.0.9"], "10.0.0.8"),
        (["<script>, 192.0.2.7"], "192.0.2.7"),
        (["192.0.2.7:4711"], "192.0.2.7"),
        (["[2001:db8::1]:4711"], "2001:db8::1"),
        (["2001:DB8:0::1"], "2001:db8::1"),
        (["::ffff:192.0.2.7"], "192.0.2.7"),
        (["192.0.2.7, unknown"], None),
        (["_hidden"], None),
        (["192.0.2.7,"], "10.0.0.3"),
        (["192.0.2.300"], None),
        (["127.1"], None),
        (["0x7f.0.0.1"], None),
        (["fe80::1%eth0"], None),
        (["\xa0192.0.2.7x"], None),
        ([], "10.0.0.3"),
    ],
)
@pytest.mark.attack("forwarded headers of strangers")
def test_the_last_address_that_is_no_proxy_of_ours_calls(values, caller):
    headers = [("x-forwarded-for", value) for value in values]
    address, *_, refused = seen(PROXY, headers)
    if caller is None:
        assert "does not end in an address" in refused
    else:
        assert address == caller
    # From elsewhere, none of it counts.
    assert seen(OTHER, [*headers, ("forwarded", "for=1.2.3.4")])[0] == OTHER[0]


def test_a_scheme_is_one_of_two():
    assert seen(PROXY, [("x-forwarded-proto", "https")])[1] == "https"
    # Another one makes no HTTPS of HTTP.
    for odd in ("ftp", "https;", ",", "https\x00", "https, http", "http, https"):
        assert seen(PROXY, [("x-forwarded-proto", odd)])[1] == "http"
    assert seen(("::ffff:10.0.0.3", 1), [("x-forwarded-proto", "https")])[1] == "https"


@given(st.text(st.characters(max_codepoint=255), max_size=20))
@pytest.mark.attack("forwarded headers of strangers")
def test_no_text_makes_a_stranger_a_proxy_or_breaks_anything(text):
    headers = [(f"x-forwarded-{name}", text) for name in ("for", "proto", "host")]
    assert seen(OTHER, headers)[:3] == (OTHER[0], "http", None)
    address, scheme, _, refused = seen(PROXY, headers)
    assert "does not end in an address" in refused or ip_address(address)
    assert scheme in ("http", "https")


@pytest.mark.attack("paths that lead out")
def test_outside_the_prefix_there_is_nothing(served):
    with calling(served, OTHER) as client:
        for path in ("/", "/labelsx", "/labelslogin", "/login", "/api/status", "/healthz", "//"):
            reply = client.get(path, headers={**BEARER, "host": NAME})
            assert reply.status_code == 404
            assert "below /labels/" in reply.json()["error"]
            assert reply.headers["x-frame-options"] == "DENY"
        bare = client.get("/labels", headers={"host": NAME})
        assert (bare.status_code, bare.headers["location"]) == (308, "/labels/")
        assert client.get("/labels/healthz", headers={"host": NAME}).json()["ok"]
        for path in ("/labels/api/status", "/labels/labels/login", "/labels//login"):
            assert client.get(path, headers={"host": NAME}).status_code == 401


def test_a_prefix_or_a_proxy_that_is_none_is_refused():
    assert ProxyConfig(prefix="/a/b-c/").prefix == "/a/b-c"
    assert ProxyConfig(prefix="/").prefix == ""
    for prefix in ("labels", "/a b", "/../x", "//x", '/"><script>', "/a?b", "/."):
        with pytest.raises(BadParameter, match="prefix"):
            ProxyConfig(prefix=prefix)
    for proxy in ("proxy.example", "10.0.0.0/33", "10.0.0.1/24", ""):
        with pytest.raises(BadParameter, match="proxy"):
            ProxyConfig(proxies=(proxy,))
    said = CliRunner().invoke(cli, ["label", "--proxy", "nginx", "--no-browser"])
    assert "nginx" in str(said.exception)
