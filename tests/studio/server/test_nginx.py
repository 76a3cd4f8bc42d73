"""The recipe of docs/how-to/proxy.md, with a real nginx: a team labels through it."""

import http.client
import os
import re
import shlex
import shutil
import signal
import socket
import ssl
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import goalward as gw
from goalward.studio.team import Team
from tests.conftest import REQUIRED, need
from tests.studio.server.conftest import PATIENCE, TOKEN, texts, until

RECIPE = Path(__file__).parents[3] / "docs/how-to/proxy.md"
NAME, WORDS = "labels.localhost", "four words of mine"
HTTP = """daemon off; pid nginx.pid; {user}
events {{}}
http {{ access_log off; {temporary} {server} }}"""
KEPT = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


def block(kind):
    """The first block of the recipe that is in a language."""
    return re.search(rf"```{kind}\n(.*?)```", RECIPE.read_text("utf-8"), re.DOTALL)[1]


def replaced(text, pairs):
    for before, after in pairs.items():
        assert before in text
        text = text.replace(before, str(after))
    return text


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two studies and their team: Ann owns, Bo and Dee annotate the reviews, Cleo reviews all."""
    made = tmp_path_factory.mktemp("house")
    for name in ("reviews", "mails"):
        place = made / f"{name}.labels.db"
        gw.Study.create(place, pool=texts(60), classes=["good", "bad"], seed=1).close()
    return made


@pytest.fixture(scope="module")
def team(folder):
    found = Team.create(folder / "team.db")
    yield found
    found.close()


@pytest.fixture(scope="module")
def page(folder, team):
    """The command of the recipe; yields where it listens."""
    changed = {"8321": 0, "labels.example.org": NAME}
    command = shlex.split(replaced(block("sh").replace("\\\n", ""), changed))
    assert command.pop(0) == "goalward"
    here = {
        **os.environ,
        "GOALWARD_TOKEN": TOKEN,
        "PYTHONPATH": str(Path(gw.__file__).parents[1]),
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "goalward", *command],
        **{"stdout": subprocess.PIPE, "text": True, "cwd": folder, "env": here},
    )
    lines = iter(process.stdout.readline, "")
    ports = (re.search(r"http://127\.0\.0\.1:(\d+)/labels", line) for line in lines)
    port = int(next(filter(None, ports))[1])
    yield port
    process.send_signal(signal.SIGINT)
    process.stdout.close()
    assert process.wait(timeout=120) == 0


@pytest.fixture(scope="module")
def nginx(page, tmp_path_factory):
    """The configuration of the recipe; yields its port and what trusts its certificate."""
    need("trustme")
    found = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if found is None:
        reason = "nginx is not installed (apt-get install nginx)"
        pytest.fail(reason) if REQUIRED else pytest.skip(reason)
    import trustme

    made = tmp_path_factory.mktemp("nginx")
    authority = trustme.CA()
    certificate = authority.issue_cert(NAME)
    certificate.private_key_and_cert_chain_pem.write_to_path(made / "both.pem")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = replaced(
        block("nginx"),
        {
            "/etc/ssl/labels.example.org.pem": made / "both.pem",
            "/etc/ssl/labels.example.org.key": made / "both.pem",
            "labels.example.org": NAME,
            "listen 443": f"listen 127.0.0.1:{port}",
            "http://127.0.0.1:8321": f"http://127.0.0.1:{page}",
        },
    )
    user = "user root;" if os.geteuid() == 0 else ""
    temporary = " ".join(f"{name}_temp_path {made}/{name};" for name in KEPT)
    (made / "nginx.conf").write_text(HTTP.format(user=user, temporary=temporary, server=server))
    process = subprocess.Popen([found, "-p", made, "-e", made / "log", "-c", made / "nginx.conf"])

    def listens():
        assert process.poll() is None, (made / "log").read_text()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    until(listens)
    trusts = ssl.create_default_context()
    authority.configure_trust(trusts)
    yield SimpleNamespace(port=port, trusts=trusts, address=f"https://{NAME}:{port}/labels")
    process.terminate()
    assert process.wait(timeout=120) == 0


def asked(path, source, nginx=None, port=0, **headers):
    """The status and reply of a request from an address of the loopback, direct or by the proxy."""
    to = {"timeout": 120, "source_address": (source, 0)}
    if nginx is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, **to)
    else:
        raw = socket.create_connection(("127.0.0.1", nginx.port), **to)
        connection = http.client.HTTPConnection(NAME, nginx.port)
        connection.sock = nginx.trusts.wrap_socket(raw, server_hostname=NAME)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request("GET", path, headers={"Host": f"{NAME}:{port}", **named})
    reply = connection.getresponse()
    said = reply.status, reply.read().decode()
    connection.close()
    return said


def test_a_forged_address_counts_neither_direct_nor_through_the_proxy(page, nginx):
    ways = {"127.0.0.9": {"port": page}, "127.0.0.8": {"nginx": nginx, "port": nginx.port}}
    for source, way in ways.items():
        # Another address in every request, and another wrong token.
        for guess in range(12):
            forged = {"X_Forwarded_For": f"203.0.113.{guess}", "X_Forwarded_User": "Ann"}
            wrong = {"Authorization": f"Bearer {guess}", **forged}
            status, said = asked("/labels/api/studies", source, **way, **wrong)
        assert status == 429
        assert source in said
        assert "203.0.113" not in said
    # Nobody else is kept waiting, and the token opens as before.
    right = {"Authorization": f"Bearer {TOKEN}"}
    for source, way in ways.items():
        other = source.replace("127.0.0.", "127.0.1.")
        assert asked("/labels/api/studies", other, **way, **right)[0] == 200


def test_the_proxy_passes_what_belongs_to_the_page_and_the_page_what_is_its_name(page, nginx):
    through = {"nginx": nginx, "port": nginx.port}
    assert asked("/labels/healthz", "127.0.0.1", **through)[0] == 200
    assert asked("/healthz", "127.0.0.1", **through)[0] == 404
    assert asked("/labels", "127.0.0.1", **through)[0] in (301, 308)
    evil = {"Host": "evil.example", "X_Forwarded_Host": f"{NAME}:{nginx.port}"}
    assert asked("/labels/login", "127.0.0.1", **through, **evil)[0] == 400
    assert asked("/labels/login", "127.0.0.9", port=page, **evil)[0] == 400


def joined(chromium, nginx, team, name, role, study):
    """Somebody in a browser of their own, who took up an invitation; their page."""
    link = f"{nginx.address}/join?invite={team.invite(name, role, study=study)}"
    tab = chromium.new_context(ignore_https_errors=True).new_page()
    tab.errors = []
    tab.on("pageerror", lambda error: tab.errors.append(str(error)))
    tab.goto(link)
    tab.get_by_label("Passphrase", exact=True).fill(WORDS)
    tab.get_by_label("The same again").fill(WORDS)
    tab.get_by_role("button", name="Join").click()
    tab.wait_for_url(f"{nginx.address}/", timeout=PATIENCE)
    return tab


def called(tab, path, body=None):
    """The status and reply of a request that somebody's page makes."""
    script = """async ([path, body]) => {
      const json = { "Content-Type": "application/json" };
      const sent = body ? { method: "POST", headers: json, body: JSON.stringify(body) } : {};
      const reply = await fetch(`/labels${path}`, sent);
      return [reply.status, await reply.json().catch(() => null)];
    }"""
    return tab.evaluate(script, [path, body])


@pytest.mark.heavy
def test_two_annotators_and_a_reviewer_work_through_nginx_each_as_their_role(
    chromium, nginx, team, folder
):
    from playwright.sync_api import expect

    with gw.Study.open(folder / "reviews.labels.db") as study:
        known = study.identity
    bo, dee = (joined(chromium, nginx, team, name, "annotator", known) for name in ("Bo", "Dee"))
    cleo = joined(chromium, nginx, team, "Cleo", "reviewer", "")
    (cookie,) = bo.context.cookies()
    assert (cookie["secure"], cookie["path"], cookie["sameSite"]) == (True, "/labels", "Strict")
    # The list has what is theirs.
    expect(bo.get_by_role("listitem")).to_have_count(1)
    expect(cleo.get_by_role("listitem")).to_have_count(2)
    for tab in (bo, dee, cleo):
        tab.get_by_role("link", name="reviews").click()
        expect(tab.locator("#row-number")).to_have_text(re.compile("Row"))
    # Two people have two rows; what one answers, the others' pages are told at once.
    assert bo.inner_text("#row-number") != dee.inner_text("#row-number")
    bo.keyboard.press("1")
    for tab in (bo, dee, cleo):
        expect(tab.locator("#count")).to_have_text("1")
    dee.keyboard.press("2")
    expect(cleo.locator("#count")).to_have_text("2")
    with gw.Study.open(folder / "reviews.labels.db") as study:
        said = [by for answers in study.state.standings.values() for by in answers]
        assert sorted(said) == ["Bo", "Dee"]
    for path, annotator, reviewer in (
        ("/s/reviews/api/answers", 200, 200),
        ("/s/reviews/api/export?format=csv", 403, 200),
        ("/s/reviews/scores", 403, 200),
        ("/s/mails/api/status", 403, 200),
    ):
        assert called(bo, path)[0] == annotator
        assert called(cleo, path)[0] == reviewer
    assert len(called(bo, "/s/reviews/api/answers")[1]["rows"]) == 1
    assert len(called(cleo, "/s/reviews/api/answers")[1]["rows"]) == 2
    for_another = {"by": "Dee", "row": 50, "label": "good"}
    assert called(bo, "/s/reviews/api/tell", for_another)[0] == 403
    assert called(bo, "/s/mails/api/tell", {**for_another, "by": "Bo"})[0] == 403
    assert called(cleo, "/api/team/invite", {"name": "Eve", "role": "owner"})[0] == 403
    # The reviewer corrects what an annotator said.
    cleo.get_by_role("link", name="Review", exact=True).click()
    expect(cleo.locator(".line")).to_have_count(2)
    cleo.wait_for_selector("main[data-ready]", timeout=PATIENCE)
    line = cleo.locator(".line", has_text="Dee: bad")
    line.get_by_role("combobox").select_option("good")
    expect(cleo.locator("#saved")).to_contain_text("is now good")
    with gw.Study.open(folder / "reviews.labels.db") as study:
        assert sorted(study.state.labels.values()) == ["good", "good"]
    assert not [*bo.errors, *dee.errors, *cleo.errors]
    for tab in (bo, dee, cleo):
        tab.context.close()
