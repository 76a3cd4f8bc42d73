"""The page below a path: every address begins there, and nothing is left at the server's root."""

import re

import pytest

from tests.conftest import need

need("fastapi")

from starlette.testclient import TestClient  # noqa: E402

from goalward.studio.server.accounts import STATIC  # noqa: E402
from tests.studio.server.conftest import TOKEN, app_of  # noqa: E402

PREFIX = "/labels"
BEARER = {"authorization": f"Bearer {TOKEN}"}
NAMED = re.compile(r"""(?:href|src|action|data-predictions|url)=["']?([^"'>\s]+)""")


@pytest.fixture
def below(served):
    app = app_of(served)
    with TestClient(app, "http://127.0.0.1:8321", root_path=PREFIX) as client:
        yield client


def test_every_address_of_every_page_is_below_the_root(below, served):
    served.study.tell(0, "good", by="ann")
    for path in ("/", "/review", "/scores", "/docs", "/login"):
        page = below.get(PREFIX + path, headers=BEARER)
        assert page.status_code == 200
        assert f'data-root="{PREFIX}"' in page.text
        named = NAMED.findall(page.text)
        assert len(named) > 3
        for address in named:
            assert address.startswith((f"{PREFIX}/", "#", "?")), address
            if address.startswith(PREFIX) and "predictions" not in address:
                assert below.get(address, headers=BEARER).status_code in (200, 409)


def test_scripts_name_no_address_but_through_one_function():
    for name, content in STATIC.items():
        if name.endswith(".js") and name not in ("uPlot.js", "net.js"):
            script = content.decode()
            called = re.findall(r"""(\w+)\([`"']/api/""", script)
            assert set(called) <= {"call", "below", "send", "add", "go"}, name
            assert not re.findall(r"""(?:fetch|EventSource)\([`"']""", script), name


def test_redirects_and_the_cookie_stay_below_the_root(below, served):
    stranger = {"accept": "text/html"}
    refused = below.get(f"{PREFIX}/review", headers=stranger, follow_redirects=False)
    assert refused.headers["location"] == f"{PREFIX}/login"
    link = f"{PREFIX}/start?token={served.auth.new_link()}"
    opened = below.get(link, follow_redirects=False)
    assert opened.headers["location"] == f"{PREFIX}/"
    assert f"Path={PREFIX};" in opened.headers["set-cookie"]
    invited = below.post(f"{PREFIX}/api/invite", json={}, headers=BEARER).json()
    assert invited["path"].startswith(f"{PREFIX}/start?token=")
    told = {"by": "ann", "row": 1, "label": "bad"}
    assert below.post(f"{PREFIX}/api/tell", json=told).status_code == 200  # by the cookie


def test_the_documentation_names_the_whole_address(below):
    page = below.get(f"{PREFIX}/docs", headers=BEARER).text
    assert f"http://127.0.0.1:8321{PREFIX}/api/ask" in page
