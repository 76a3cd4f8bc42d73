"""What is written down: enough to find out what happened, no secret, and never without end."""

import json
import logging
import stat

import pytest

from goalward.errors import BadParameter
from tests.conftest import need
from tests.studio.server.conftest import TOKEN, running

need("fastapi")

import urllib.error  # noqa: E402
import urllib.request  # noqa: E402

from goalward.studio.server.monitoring import (  # noqa: E402
    ALIKE,
    ERRORS_ALIKE,
    LONGEST,
    RateLimit,
    logging_to,
)


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_requests_are_written_with_who_and_how_long_and_no_token(served, tmp_path):
    path = tmp_path / "server.log"
    with logging_to(path), running(served) as address:
        bearer = {"authorization": f"Bearer {TOKEN}"}
        request = urllib.request.Request(f"{address}/api/status", headers=bearer)
        urllib.request.urlopen(request, timeout=120).read()
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(f"{address}/start?token={served.auth.new_link()}x", timeout=120)
    good, bad = (one for one in lines(path) if one["event"] == "request")
    assert (good["path"], good["status"], good["level"]) == ("/api/status", 200, "info")
    assert good["ms"] > 0
    assert good["address"] == "127.0.0.1"
    assert (bad["path"], bad["status"], bad["level"]) == ("/start", 401, "warning")
    text = path.read_text()
    assert "token=" not in text
    assert TOKEN not in text


def test_a_rotated_file_is_begun_anew(tmp_path):
    path, log = tmp_path / "server.log", logging.getLogger("goalward.studio.server")
    with logging_to(path):
        log.info("first")
        path.rename(tmp_path / "server.log.1")
        log.info("second")
    assert [stat.S_IMODE(one.stat().st_mode) for one in tmp_path.iterdir()] == [0o600] * 2
    assert [one["event"] for one in lines(path)] == ["second"]


@pytest.mark.attack("logs that fill a disk")
def test_lines_are_bounded_in_number_and_length(tmp_path, tried):
    path, log = tmp_path / "server.log", logging.getLogger("asyncio")
    with logging_to(path):
        for i in range(5000):
            log.error("socket.accept() out of system resource %s %d", "x" * 2 * LONGEST, i)
        try:
            raise ValueError("y" * 2 * LONGEST)
        except ValueError:
            log.exception("A fit failed.")
    written = lines(path)
    assert len(written) == ERRORS_ALIKE + 1
    assert max(map(len, path.read_text().splitlines())) < 3 * LONGEST
    assert written[-1]["trace"].endswith("y")
    tried(5001)


def test_of_good_lines_there_may_be_more_and_every_minute_anew():
    now = [0.0]
    bounded, record = RateLimit(), logging.makeLogRecord({"levelno": logging.INFO})
    bounded.clock = lambda: now[0]
    assert sum(bounded.filter(record) for _ in range(2 * ALIKE)) == ALIKE
    assert "left out" in record.msg
    now[0] = 60.0
    assert bounded.filter(record)


def test_without_a_file_errors_are_for_people(capsys, monkeypatch):
    with logging_to(None):
        logging.getLogger("goalward.access").warning("a request")
        logging.getLogger("goalward.studio.study").error("A fit failed.")
    assert capsys.readouterr().err == "A fit failed.\n"


def test_a_place_that_cannot_be_written_is_said(tmp_path):
    with pytest.raises(BadParameter, match="cannot be written"), logging_to(tmp_path):
        pass
