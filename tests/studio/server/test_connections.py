"""Nobody without a token keeps others out: connections, guesses, certificates, links."""

import asyncio
import os
import socket
import ssl
import stat
import subprocess
import sys
import threading
import urllib.request
from contextlib import suppress
from importlib import import_module
from urllib.parse import urlsplit

import pytest

from goalward.errors import BadParameter
from goalward.studio.tables.table import SAMPLE_CLASSES, write_sample
from tests.conftest import need
from tests.studio.server.conftest import TOKEN, running, until

need("fastapi")

import httpx  # noqa: E402
from starlette.exceptions import HTTPException  # noqa: E402

from goalward.studio.server.auth import AT_ONCE, SECONDS, Attempts, HashQueue  # noqa: E402
from goalward.studio.server.serve import _check_tls  # noqa: E402

BEARER = {"authorization": f"Bearer {TOKEN}"}
HALF = b"GET /api/status HTTP/1.1\r\nHost: 127.0.0.1\r\n"

connections = import_module("goalward.studio.server.serve")


def connect(address):
    at = urlsplit(address)
    return socket.create_connection((at.hostname, at.port), timeout=120)


def asked(address, trusted=None):
    request = urllib.request.Request(f"{address}/api/status", headers=BEARER)
    with urllib.request.urlopen(request, timeout=120, context=trusted) as reply:
        return reply.status


def is_closed(line):
    """Return whether the server closed a connection; nothing was sent by it."""
    line.setblocking(False)
    try:
        return line.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


@pytest.mark.attack("half-open connections")
def test_half_open_connections_make_room_for_requests(address, tried):
    lines = []
    try:
        for _ in range(300):
            line = connect(address)
            line.sendall(HALF)
            lines.append(line)
        assert asked(address) == 200
        until(lambda: sum(map(is_closed, lines)) >= 300 - connections.MOST)
        # The oldest went, not whoever came last.
        assert not is_closed(lines[-1])
        lines[-1].setblocking(True)
        lines[-1].settimeout(120)
        lines[-1].sendall(f"Authorization: Bearer {TOKEN}\r\n\r\n".encode())
        assert lines[-1].recv(12) == b"HTTP/1.1 200"
    finally:
        for line in lines:
            line.close()
    tried(300)


@pytest.mark.attack("half-open connections")
def test_a_request_that_does_not_come_is_not_waited_for(address, monkeypatch, tried):
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.3)
    with connect(address) as silent, connect(address) as half, connect(address) as second:
        half.sendall(HALF)
        second.sendall(HALF + f"Authorization: Bearer {TOKEN}\r\n\r\n".encode())
        assert second.recv(12) == b"HTTP/1.1 200"
        second.sendall(HALF)
        for line in (silent, half, second):
            left = b"x"
            while left:  # until it is closed
                try:
                    left = line.recv(65536)
                except ConnectionResetError:
                    break
    tried(3)


IDLE = b"GET /login HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
NO_BODY = b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n"
MUCH = 10 * IDLE.replace(b"login", b"static/app.css")


@pytest.fixture
def small_buffers(monkeypatch):
    """Let the system keep little of what a caller does not read."""
    accept = connections.Listener.accept

    def small(listener):
        taken, address = accept(listener)
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        return taken, address

    monkeypatch.setattr(connections.Listener, "accept", small)


def deaf(address):
    """Return a connection whose reader takes next to nothing."""
    at, line = urlsplit(address), socket.socket()
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    line.connect((at.hostname, at.port))
    line.setblocking(False)
    return line


@pytest.mark.parametrize("sent", [MUCH, NO_BODY, IDLE], ids=["never read", "no body", "idle"])
@pytest.mark.attack("connections that are kept busy")
def test_busy_connections_make_room_for_requests(small_buffers, address, tried, sent):
    lines = []
    with httpx.Client(base_url=address, headers=BEARER, timeout=120) as known:
        assert known.get("/api/status").status_code == 200
        stream = known.send(known.build_request("GET", "/api/events"), stream=True)
        try:
            for n in range(connections.MOST + 50):
                line = deaf(address)
                line.send(sent)
                lines.append(line)
                if n % 10 == 0:
                    assert asked(address) == 200
            # Who is signed in keeps their place.
            assert next(stream.iter_lines())
            assert known.get("/api/status").status_code == 200
        finally:
            stream.close()
            for line in lines:
                line.close()
    tried(len(lines))


@pytest.mark.attack("connections that are kept busy")
def test_a_reply_that_is_not_taken_is_not_waited_for(small_buffers, address, monkeypatch):
    closed, close = threading.Event(), connections.Peer.close
    monkeypatch.setattr(connections, "WRITE_SECONDS", 0.3)
    monkeypatch.setattr(connections.Peer, "close", lambda one: (close(one), closed.set()))
    with deaf(address) as line:
        line.send(MUCH)
        assert closed.wait(120)


def test_guesses_wear_off():
    now = [0.0]
    attempts = Attempts()
    attempts.clock = lambda: now[0]
    for _ in range(AT_ONCE + 1):
        attempts.check("here", "guesses")
        attempts.failed("here")
    with pytest.raises(HTTPException, match=f"Too many guesses.*{SECONDS:.0f} seconds"):
        attempts.check("here", "guesses")
    attempts.check("there", "guesses")
    now[0] = SECONDS
    attempts.check("here", "guesses")


def test_callers_that_guessed_as_little_take_turns():
    queue, order = HashQueue(Attempts()), []

    async def come(who):
        async with queue.turn(who):
            order.append(who)
            await asyncio.sleep(0)

    async def all_come():
        callers = [asyncio.create_task(come(who)) for who in [*"aaaaaaaaaa", *"bbcd"]]
        await asyncio.sleep(0)
        callers[3].cancel()  # who is gone loses a turn, and holds up nobody
        await asyncio.gather(*callers, return_exceptions=True)

    asyncio.run(all_come())
    assert "".join(order) == "aa" + "abcd" + "b" + "aaaaaa"


@pytest.mark.attack("guesses at a secret")
def test_who_guesses_must_wait_and_who_is_signed_in_need_not(client, served, tried):
    def guess(token):
        return client.get("/api/status", headers={"authorization": f"Bearer {token}"}).status_code

    served.auth.tokens.clock = lambda: 0.0
    replies = [guess("one that was good yesterday") for _ in range(AT_ONCE + 5)]
    assert replies == [401] * (AT_ONCE + 1) + [429] * 4
    refused = client.post("/login", content="token=perhaps")
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) > 0
    assert "again in" in refused.json()["error"]
    # A right token counts, whoever else was wrong at this address.
    assert client.get("/api/status").status_code == 200
    del client.headers["authorization"]
    client.cookies.set(served.auth.cookie, served.auth.session)
    assert client.get("/api/status").status_code == 200
    tried(AT_ONCE + 5)


@pytest.fixture
def certificate(tmp_path):
    need("trustme")
    import trustme

    authority = trustme.CA()
    made = authority.issue_cert("127.0.0.1")
    paths = [tmp_path / name for name in ("cert.pem", "key.pem", "authority.pem")]
    made.cert_chain_pems[0].write_to_path(str(paths[0]))
    made.private_key_pem.write_to_path(str(paths[1]))
    authority.cert_pem.write_to_path(str(paths[2]))
    return paths


@pytest.mark.attack("half-open TLS handshakes")
def test_handshakes_that_stop_half_way_make_room(served, certificate, monkeypatch, tried):
    cert, key, authority = certificate
    with running(served, tls=(cert, key)) as address:
        lines = [connect(address) for _ in range(300)]
        try:
            for line in lines[::2]:
                with suppress(OSError):  # closed already
                    line.sendall(b"\x16\x03\x01\x02")  # a hello that does not go on
            assert asked(address, ssl.create_default_context(cafile=authority)) == 200
            until(lambda: sum(map(is_closed, lines)) >= 300 - connections.MOST)
            assert not is_closed(lines[-1])
        finally:
            for line in lines:
                line.close()
        monkeypatch.setattr(connections, "HEADER_SECONDS", 0.3)
        with connect(address) as silent:
            assert silent.recv(1) == b""
    tried(301)


@pytest.mark.attack("secrets in the list of processes")
def test_the_page_over_tls_with_its_secrets_in_files(certificate, tmp_path):
    cert, key, authority = certificate
    table, seen = write_sample(tmp_path), tmp_path / "seen"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf "%s" "$*" > {seen}.part; mv {seen}.part {seen}\n')
    browser.chmod(0o700)
    secret = tmp_path / "token"
    secret.write_text("a secret of 22 letters\n")
    command = [sys.executable, "-m", "goalward", "label", str(table), "--text", "text"]
    command += ["--classes", ",".join(SAMPLE_CLASSES), "--port", "0", "--token-file", str(secret)]
    command += ["--tls-cert", str(cert), "--tls-key", str(key)]
    environment = {**os.environ, "BROWSER": f"{browser} %s", "HOME": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            link = process.stdout.readline().split()[-1]
            assert link.startswith("https://127.0.0.1:")
            trusted = ssl.create_default_context(cafile=authority)
            until(seen.exists)
            # No token in the browser's arguments: a file of our own leads there.
            shown = urlsplit(seen.read_text())
            assert shown.scheme == "file"
            assert stat.S_IMODE(os.stat(shown.path).st_mode) == 0o600
            with open(shown.path) as file:
                assert link in file.read()
            site = link.partition("/start")[0]
            bearer = {"authorization": "Bearer a secret of 22 letters"}
            request = urllib.request.Request(f"{site}/api/status", headers=bearer)
            with urllib.request.urlopen(request, timeout=120, context=trusted) as reply:
                assert reply.status == 200
            stay = urllib.request.build_opener(
                urllib.request.HTTPSHandler(context=trusted), _Stays()
            )
            with stay.open(link, timeout=120) as reply:
                assert "Secure" in reply.headers["set-cookie"]
        finally:
            process.terminate()
    assert not os.path.exists(shown.path)


class _Stays(urllib.request.HTTPRedirectHandler):
    def http_error_303(self, req, fp, code, msg, headers):
        return fp


def test_a_link_from_a_file_opens_the_page(served, address, chromium, tmp_path):
    from playwright.sync_api import expect

    from goalward.studio.server.serve import redirect_file

    path = redirect_file(f"{address}/start?token={served.auth.new_link()}")
    page = chromium.new_page()
    page.goto(path.as_uri())
    expect(page.locator("#row-text")).to_be_visible()
    assert "token" not in page.url


def test_certificates_that_cannot_be_used_are_refused(certificate, tmp_path):
    cert, _, authority = certificate
    with pytest.raises(BadParameter, match="cannot be used"):
        _check_tls((cert, tmp_path / "missing.pem"))
    with pytest.raises(BadParameter, match="cannot be used"):
        _check_tls((cert, authority))
