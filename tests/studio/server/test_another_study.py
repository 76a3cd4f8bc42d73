"""Another study at the same path and port: nothing of the one before gets into it."""

import pytest

import goalward as gw
from tests.conftest import need
from tests.studio.server.conftest import PATIENCE, TOKEN, running, texts, written

need("fastapi")

from goalward.studio.server.auth import Auth  # noqa: E402
from goalward.studio.server.served_study import ServedStudy  # noqa: E402

WRITES = [
    ("ask", {"by": "ann"}),
    ("tell", {"by": "ann", "row": 0, "label": "good"}),
    ("skip", {"by": "ann", "row": 0}),
    ("undo", {"by": "ann"}),
    ("withdraw", {"by": "ann", "row": 0}),
    ("note", {"by": "ann", "row": 0, "text": "odd"}),
    ("refresh", None),
    ("invite", None),
]
STORED = "() => Object.entries(localStorage).filter(([key]) => key.endsWith(':outbox'))"


def make(path):
    return gw.Study.create(path, pool=texts(), classes=["good", "bad"])


@pytest.mark.parametrize(("path", "body"), WRITES)
@pytest.mark.attack("pages of another study")
def test_a_request_that_names_another_study_changes_nothing(client, served, study, path, body):
    before = written(study)
    for other in ("0" * 64, "", "x", b"\xed\xa0\x80"):
        headers = {"x-goalward-study": other}
        done = client.post(f"/api/{path}", json=body, headers=headers)
        assert done.status_code == 409
        assert "another study" in done.json()["error"]
        assert done.headers["x-goalward-study"] == served.id
    assert client.get("/api/status", headers=headers).status_code == 409
    assert written(study) == before


def test_the_right_name_and_none_are_welcome(client, served):
    for headers in ({}, {"x-goalward-study": served.id}):
        for row in (1, 2):
            body = {"by": "ann", "row": row, "label": "good"}
            assert client.post("/api/tell", json=body, headers=headers).status_code == 200
    assert client.get("/api/status").json()["study"] == served.id


def test_a_study_goes_by_itself_and_not_by_its_path(tmp_path):
    with make(tmp_path / "a.db") as one, make(tmp_path / "b.db") as other:
        known = ServedStudy(one, Auth(TOKEN)).id
        assert ServedStudy(other, Auth(TOKEN)).id != known
        one.tell(0, "good")
    (tmp_path / "a.db").rename(tmp_path / "c.db")
    with gw.Study.open(tmp_path / "c.db") as moved, make(tmp_path / "a.db") as fresh:
        assert ServedStudy(moved, Auth(TOKEN)).id == known
        assert ServedStudy(fresh, Auth(TOKEN)).id != known


@pytest.mark.heavy
@pytest.mark.attack("pages of another study")
def test_an_old_page_writes_nothing_into_a_new_study_and_loses_nothing(chromium, tmp_path):
    from playwright.sync_api import expect

    path, kept = tmp_path / "labels.db", tmp_path / "kept.db"
    # The token is the same for all three servers, so that only the study tells them apart.
    context = chromium.new_context(extra_http_headers={"authorization": f"Bearer {TOKEN}"})
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    with make(path) as study, running(ServedStudy(study, Auth(TOKEN), by="ann")) as address:
        port = int(address.rpartition(":")[2])
        page.goto(address)
        expect(page.locator("#row-number")).not_to_be_empty()
    page.keyboard.press("1")
    page.keyboard.press("2")
    expect(page.locator("#saved")).to_contain_text("Not saved yet: 2")
    path.rename(kept)

    with make(path) as fresh, running(ServedStudy(fresh, Auth(TOKEN), by="ann"), port):
        expect(page.locator("#problem")).to_contain_text("another study")
        expect(page.locator("#problem")).to_contain_text("Reload")
        expect(page.locator("#saved")).to_contain_text("Not sent: 2")
        expect(page.locator("#answers button").first).to_be_disabled()
        page.keyboard.press("1")
        assert len(page.evaluate(STORED)) == 1
        page.reload()
        expect(page.locator("#row-number")).not_to_be_empty()
        expect(page.locator("#saved")).to_be_empty()
        page.keyboard.press("2")
        expect(page.locator("#count")).to_have_text("1")
        # Only what was said to the new study, by somebody who saw it.
        assert list(fresh.state.labels.values()) == ["bad"]

    path.unlink()
    kept.rename(path)
    with gw.Study.open(path) as again, running(ServedStudy(again, Auth(TOKEN), by="ann"), port):
        expect(page.locator("#problem")).to_contain_text("another study")
        page.reload()
        expect(page.locator("#count")).to_have_text("2")
        assert sorted(again.state.labels.values()) == ["bad", "good"]
    context.close()


def test_a_page_without_unsent_answers_is_told_too(chromium, tmp_path):
    from playwright.sync_api import expect

    context = chromium.new_context(extra_http_headers={"authorization": f"Bearer {TOKEN}"})
    context.set_default_timeout(PATIENCE)
    label, review = context.new_page(), context.new_page()
    with make(tmp_path / "a.db") as study, running(ServedStudy(study, Auth(TOKEN))) as address:
        study.tell(5, "good", by="me")
        port = int(address.rpartition(":")[2])
        review.goto(f"{address}/review")
        review.wait_for_selector("main[data-ready]")
        label.goto(address)
        expect(label.locator("#row-number")).not_to_be_empty()
    with make(tmp_path / "b.db") as fresh, running(ServedStudy(fresh, Auth(TOKEN)), port):
        expect(label.locator("#problem")).to_contain_text("another study")
        review.select_option(".line select", label="bad")
        expect(review.locator("#saved")).to_contain_text("another study")
        assert not fresh.state.standings
        assert fresh.state.seq == 1
    context.close()
