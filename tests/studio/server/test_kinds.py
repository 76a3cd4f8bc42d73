"""Several labels and numbers on the page, and over HTTP."""

import pytest

import goalward as gw
from tests.conftest import need
from tests.studio.server.conftest import TOKEN, app_of, running, texts, until
from tests.studio.server.test_page import Person

need("fastapi")
need("playwright")

from playwright.sync_api import expect  # noqa: E402

NAMES = ["film", "good", "bad"]


def served_of(tmp_path, classes, learner):
    from goalward.studio.server.auth import Auth
    from goalward.studio.server.served_study import ServedStudy

    study = gw.Study.create(
        tmp_path / "kinds.db", pool=texts(), classes=classes, learner=learner, dev=0
    )
    return ServedStudy(study, Auth(TOKEN, port=1), by="ann")


@pytest.fixture
def labels(tmp_path):
    served = served_of(tmp_path, NAMES, gw.MultiLabel())
    with served.study:
        yield served


@pytest.fixture
def numbers(tmp_path):
    served = served_of(tmp_path, ["stars"], gw.Ridge())
    with served.study:
        yield served


def test_several_keys_switch_labels_and_enter_sends(labels, chromium):
    study = labels.study
    with running(labels) as address:
        ann = Person(chromium, address, labels)
        page, first = ann.page, ann.row
        page.keyboard.press("1")
        page.keyboard.press("3")
        expect(page.get_by_role("checkbox", name="film")).to_be_checked()
        expect(page.get_by_role("button", name="Save: film, bad")).to_be_visible()
        page.keyboard.press("3")
        page.get_by_role("checkbox", name="good").focus()
        page.keyboard.press("Space")
        ann.press("Enter")
        until(lambda: first in study.state.labels)
        assert study.state.labels[first] == (True, True, False)
        expect(page.get_by_role("checkbox", name="film")).not_to_be_checked()
        second = ann.row
        ann.press("Enter")
        until(lambda: second in study.state.labels)
        assert study.state.labels[second] == (False, False, False)
        ann.press("u")
        assert ann.row == second
        until(lambda: second not in study.state.labels)
        for _ in range(8):
            if "film" in ann.text:
                page.keyboard.press("1")
            ann.press("Enter")
        expect(page.locator("#headline")).to_contain_text("macro-F1")
        expect(page.locator("figcaption").first).to_contain_text(
            "macro-F1 over rows without an answer"
        )
        page.locator("#details > summary").click()
        expect(page.locator("#stop")).to_contain_text("of macro-F1 by the next answers, at most")
        expect(page.locator("#advice")).to_contain_text("Go on: 30 answers, and 5 yes")
        page.goto(f"{address}/review")
        page.wait_for_selector("main[data-ready]")
        line = page.locator(f".line[data-row='{first}']")
        expect(line).to_contain_text("ann: film, good")
        line.get_by_role("checkbox", name="film").uncheck()
        until(lambda: study.state.labels[first] == (False, True, False))
        expect(page.locator("#saved")).to_contain_text("is now good")
        assert not ann.errors


def test_a_number_is_typed_and_enter_sends_it(numbers, chromium):
    study = numbers.study
    with running(numbers) as address:
        ann = Person(chromium, address, numbers)
        page, first = ann.page, ann.row
        field = page.get_by_role("spinbutton", name="stars")
        expect(field).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator("#problem")).to_contain_text("The answer must be a number")
        page.keyboard.type("-2.5e1")
        ann.press("Enter")
        until(lambda: study.state.labels.get(first) == -25.0)
        expect(field).to_be_focused()
        expect(field).to_have_value("")
        ann.press("u")
        assert ann.row == first
        until(lambda: not study.state.labels)
        for number in range(6):
            page.keyboard.type(str(number))
            ann.press("Enter")
        expect(page.locator("#headline")).to_contain_text("R² about")
        page.locator("#details > summary").click()
        expect(page.locator("#advice")).to_contain_text("Go on: 30 answers come first")
        page.goto(f"{address}/review")
        page.wait_for_selector("main[data-ready]")
        line = page.locator(f".line[data-row='{first}']")
        line.get_by_role("spinbutton").fill("7.25")
        page.keyboard.press("Enter")
        until(lambda: study.state.labels[first] == 7.25)
        line.get_by_role("button", name="Take back").click()
        until(lambda: first not in study.state.labels)
        assert not ann.errors


def test_several_labels_over_http(labels):
    from starlette.testclient import TestClient

    headers = {"authorization": f"Bearer {TOKEN}"}
    with TestClient(app_of(labels), "http://127.0.0.1:8321", headers=headers) as client:
        for row, label in ((0, ["good"]), (1, {"bad": True, "film": None}), (2, [])):
            told = client.post("/api/tell", json={"by": "ann", "row": row, "label": label})
            assert told.status_code == 200, told.text
        assert labels.study.state.labels[1] == (None, None, True)
        for label in ("good", 3, ["dull"], {"good": "yes"}, {"good": None}, None):
            told = client.post("/api/tell", json={"by": "ann", "row": 3, "label": label})
            assert told.status_code in (400, 422), label
        found = client.get("/api/answers", params={"label": "good"}).json()
        assert [line["row"] for line in found["rows"]] == [0]
        assert found["rows"][0]["answers"][0]["says"] == "good"
        assert client.get("/api/answers", params={"only": "doubted"}).status_code == 200
        labels.study.refresh(force=True)
        scores = client.get("/api/scores").json()
        assert [one["answers"] for one in scores["labels"]] == [0, 1, 1]
        assert client.get("/api/stop", params={"price": 0.001}).json()["stop"] is False


def test_scores_and_likely_mistakes_of_labels(labels, chromium):
    study = labels.study
    for row in range(40):
        held = (row % 2 == 0, row % 3 == 0, row % 3 > 0)
        study.tell(row, {name for name, holds in zip(NAMES, held, strict=True) if holds}, by="ann")
    study.refresh()
    with running(labels) as address:
        page = Person(chromium, address, labels).page
        page.get_by_role("button", name="Why?").click()
        expect(page.locator("#why-words")).to_contain_text("The model expects")
        page.click("#why-details summary")
        expect(page.locator("#why-labels .effect")).to_have_count(3)
        expect(page.locator("#why-labels .pushes li").first).to_be_visible()
        page.goto(f"{address}/scores")
        table = page.get_by_role("region", name="Label by label")
        expect(table.get_by_role("row")).to_have_count(4)
        expect(table.get_by_role("rowheader", name="film")).to_be_visible()
        page.get_by_role("link", name="Likely mistakes").click()
        doubted = study.doubts()
        line = page.locator(".line").first
        expect(line).to_have_attribute("data-row", str(doubted.rows[0]))
        expect(line).to_contain_text("The model would say")
        expect(line).to_contain_text("it gives one of these answers")


def test_scores_and_likely_mistakes_of_numbers(numbers, chromium):
    study = numbers.study
    for row in range(40):
        study.tell(row, 100.0 if row == 11 else float(row % 3), by="ann")
    study.refresh()
    with running(numbers) as address:
        page = Person(chromium, address, numbers).page
        page.get_by_role("button", name="Why?").click()
        expect(page.locator("#why-words")).to_contain_text("“stars” to be about")
        expect(page.locator("#why-words")).to_contain_text("give or take")
        page.goto(f"{address}/scores")
        first = page.get_by_role("region", name="The largest errors").get_by_role("row").nth(1)
        expect(first).to_contain_text("Row 11")
        expect(first).to_contain_text("100")
        expect(page.get_by_role("region", name="How far off?")).to_contain_text("mean distance")
        page.get_by_role("link", name="Likely mistakes").click()
        line = page.locator(".line").first
        expect(line).to_have_attribute("data-row", "11")
        expect(line).to_contain_text("of 100 answers are as far off")
