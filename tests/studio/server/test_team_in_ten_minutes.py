"""docs/team.md, as somebody would follow it: studies, people, the page under TLS, the first sign-in."""

import json
import os
import re
import shlex
import ssl
import subprocess
import sys
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from tests.conftest import need
from tests.test_docs import DOCS, blocks

need("fastapi")
PAGE = DOCS / "team.md"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    need("trustme")
    import trustme

    (tmp_path / "reviews.csv").write_text("text\n" + "a fine film\na dull play\n" * 20)
    (tmp_path / "mails.csv").write_text(
        "subject,body\n" + "hello,are you there\nnews,of today\n" * 20
    )
    authority = trustme.CA()
    made = authority.issue_cert("127.0.0.1")
    made.cert_chain_pems[0].write_to_path(str(tmp_path / "cert.pem"))
    made.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    monkeypatch.chdir(tmp_path)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    return tmp_path


@pytest.mark.heavy
def test_a_team_in_ten_minutes(folder):
    (making,) = blocks(PAGE, "bash")
    done = subprocess.run(["bash", "-euc", making], capture_output=True, text=True, check=True)
    links = re.findall(r"https://labels\.example\.org(/join\?invite=\S+)", done.stdout)
    assert len(links) == 3
    command = shlex.split(blocks(PAGE, "sh")[0].replace("\\\n", " "))
    # Not on the network, and on a port that is free; all else as it is written.
    command[command.index("--host") + 1] = "127.0.0.1"
    command[command.index("--port") + 1] = "0"
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            site = process.stdout.readline().split()[-1].rstrip("/")
            assert site.startswith("https://")
            check_page(site, links, ssl.create_default_context(cafile=folder / "authority.pem"))
        finally:
            process.terminate()
    for copied in ("backup", "list"):
        more = ["copy.db"] if copied == "backup" else []
        place = "team.db" if more else "copy.db"
        subprocess.run(["goalward", "team", copied, place, *more], check=True)
    lines = [json.loads(line) for line in (folder / "goalward.log").read_text().splitlines()]
    signed_in = [one for one in lines if one.get("by") == "ann"]
    assert signed_in
    assert "invite=" not in (folder / "goalward.log").read_text()


def check_page(site, links, trusted):
    def browser():
        parts = (
            urllib.request.HTTPSHandler(context=trusted),
            urllib.request.HTTPCookieProcessor(CookieJar()),
        )
        return urllib.request.build_opener(*parts)

    ann = browser()
    invite = parse_qs(urlsplit(links[0]).query)["invite"][0]
    words = "four words of mine"
    form = urlencode({"invite": invite, "passphrase": words, "again": words}).encode()
    listed = ann.open(f"{site}/join", form, timeout=120).read().decode()
    assert "reviews" in listed
    assert "mails" in listed
    studies = json.load(ann.open(f"{site}/api/studies", timeout=120))
    assert {one["name"] for one in studies} == {"reviews", "mails"}
    assert json.load(browser().open(f"{site}/healthz", timeout=120))["ok"]


def test_what_a_container_asks_itself_is_answered(address):
    """The container is not built here; what it runs is."""
    text = (DOCS.parent / "Containerfile").read_text()
    code = re.search(r'"-c", "(.*)"\]', text)[1].replace("http://127.0.0.1:8321", address)
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
    extras = re.search(r"/source\[(.*)\]", text)[1].split(",")
    project = (DOCS.parent / "pyproject.toml").read_text()
    assert all(f"\n{extra} = [" in project for extra in extras)
