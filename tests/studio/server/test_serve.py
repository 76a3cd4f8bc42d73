"""Starting and ending the page, and the work behind it."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest
from typer.testing import CliRunner

import goalward as gw
from goalward.cli import app as cli
from goalward.errors import BadParameter
from goalward.studio.tables.table import SAMPLE_CLASSES, write_sample
from tests.conftest import need
from tests.studio.server.conftest import TOKEN, app_of

need("fastapi")

from starlette.testclient import TestClient  # noqa: E402

from goalward.studio.server import Auth  # noqa: E402
from goalward.studio.server.serve import is_loopback, listening  # noqa: E402
from goalward.studio.server.served_study import ServedStudy  # noqa: E402


@pytest.fixture
def command(tmp_path):
    table = write_sample(tmp_path)
    return [sys.executable, "-m", "goalward", "label", table, "--text", "text", "--no-browser"]


def printed_link(process):
    lines = iter(process.stdout.readline, "")
    found = (re.search(r"http://127\.0\.0\.1:\d+/start\?token=\S+", line) for line in lines)
    return next(filter(None, found))[0]


def test_the_command_serves_prints_a_link_that_works_once_and_ends_cleanly(command):
    options = ["--classes", ",".join(SAMPLE_CLASSES), "--port", "0"]
    process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True)
    try:
        link = printed_link(process)
        jar = urllib.request.HTTPCookieProcessor(CookieJar())
        with urllib.request.build_opener(jar).open(link, timeout=120) as page:
            assert "token" not in page.url
            assert b"Row to label" in page.read()
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(link, timeout=120)
    finally:
        process.send_signal(signal.SIGINT)
        process.stdout.close()
        assert process.wait(timeout=120) == 0


@pytest.mark.parametrize("named", [True, False])
def test_without_classes_the_page_asks_what_to_label(named, tmp_path):
    table = write_sample(tmp_path)
    command = [sys.executable, "-m", "goalward", "label", "--no-browser", "--port", "0"]
    if named:
        command.append(str(table))
    here = {**os.environ, "PYTHONPATH": str(Path(gw.__file__).parents[1])}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=here)
    try:
        link = printed_link(process)
        jar = urllib.request.HTTPCookieProcessor(CookieJar())
        with urllib.request.build_opener(jar).open(link, timeout=120) as page:
            assert page.url.endswith("/new")
            shown = page.read().decode()
        assert "What do you want to label?" in shown
        assert "messages.csv" in shown
        assert f'data-named="{0 if named else ""}"' in shown
    finally:
        process.send_signal(signal.SIGINT)
        process.stdout.close()
        assert process.wait(timeout=120) == 0


def test_other_machines_are_let_in_only_with_a_token(command):
    run = [*command, "--classes", "a,b", "--host", "0.0.0.0"]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "--token" in done.stderr
    assert [is_loopback(h) for h in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "desk")] == [
        *[True] * 3,
        *[False] * 2,
    ]


def test_a_port_in_use_is_said_and_a_free_one_found():
    with listening("127.0.0.1", 0) as first:
        with pytest.raises(BadParameter, match="port"):
            listening("127.0.0.1", first.getsockname()[1])
        with listening("127.0.0.1", None) as second:
            assert second.getsockname()[1]
            # asyncio turns Nagle's delay off only where the protocol has its name.
            assert second.proto == socket.IPPROTO_TCP


def test_the_sample_is_whole(tmp_path):
    found = gw.tables.Table(str(write_sample(tmp_path)), text="text").settled()
    assert found.embeddings == "tfidf"
    texts = (tmp_path / "messages.csv").read_text().splitlines()
    assert len(texts) == len(set(texts)) == 253


def test_a_ranking_is_due_sooner_while_there_are_few_labels(tmp_path, rng):
    X = rng.normal(size=(60, 3)).astype(np.float32)
    with gw.Study.create(tmp_path / "d.db", pool=X, classes=[0, 1], refit=5) as study:
        assert not study.due()
        study.tell_many([(0, 0), (1, 1)])
        assert study.due()
        study.refresh()
        assert not study.due()
        study.tell(2, 0)
        assert study.due()
        study.tell_many([(row, row % 2) for row in range(3, 40)])
        study.refresh()
        study.tell_many([(40 + i, 1) for i in range(4)])
        assert not study.due()
        study.tell(50, 1)
        assert study.due()


def test_why_is_told_of_rows_in_single_precision(tmp_path, rng):
    """Solved in single precision, a residual of 1e-8 is out of reach."""
    X = rng.normal(size=(200, 64)).astype(np.float32)
    with gw.Study.create(tmp_path / "w.db", pool=X, classes=[0, 1, 2], dev=0.3) as study:
        study.tell_many([(row, row % 3) for row in range(150)])
        for row in range(150, 160):
            assert any(study.why(row).helps.values())


ODD = [
    "a#b?c%41",
    "quote \"x\" 'y'",
    "line\nbreak",
    "<b>é 中 \u202e\u2066",
    os.fsdecode(b"\xff bytes"),
]


@pytest.mark.parametrize("name", ODD)
def test_a_table_and_a_study_go_by_any_name_a_file_can_have(tmp_path, monkeypatch, name):
    """From the command to the page, its pictures and its downloads."""
    monkeypatch.setattr(
        "goalward.studio.tables.cache.user_cache_path", lambda name: tmp_path / "cache"
    )
    table, picture = tmp_path / f"{name}.csv", tmp_path / "p#1?%41.png"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n and so on")
    rows = "".join(f"{picture.name},{i},{i % 3}\n" for i in range(12))
    table.write_text("image,x,y\n" + rows)
    seen = {}

    def visit(studies, **options):
        app = app_of(ServedStudy(studies[""], Auth(TOKEN), images=options["images"]))
        headers = {"authorization": f"Bearer {TOKEN}"}
        with TestClient(app, "http://localhost", headers=headers) as client:
            for path in ("/", "/review", "/docs", "/api/images/0", "/api/rows/0", "/api/status"):
                seen[path] = client.get(path)
            client.post("/api/tell", json={"by": "ann", "row": 0, "label": "yes"})
            seen["export"] = client.get("/api/export?format=jsonl")
            other = {"x-goalward-study": "another"}
            seen["other"] = client.get("/api/curve", headers=other)

    monkeypatch.setattr("goalward.studio.server.serve", visit)
    label = ["label", str(table), "--image", "image", "--numeric", "x,y", "--classes", "yes,no"]
    for _ in "12":
        done = CliRunner().invoke(cli, label, catch_exceptions=False)
        assert done.exit_code == 0, done.output
        codes = {path: answer.status_code for path, answer in seen.items()}
        assert codes.pop("other") == 409
        assert set(codes.values()) == {200}, codes
    assert (tmp_path / f"{name}.labels.db").exists()
    sent = seen["export"].headers["content-disposition"]
    shown = name.encode("utf-8", "backslashreplace").decode()
    assert unquote(sent) == f"attachment; filename*=utf-8''{shown}-labels.jsonl"
    assert json.loads(seen["export"].text)["label"] == "yes"
    assert "<b>" not in seen["/"].text
