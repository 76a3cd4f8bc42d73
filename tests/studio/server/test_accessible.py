"""Every page under axe-core, light and dark, at a desk and on a phone."""

import polars as pl
import pytest

from tests.conftest import need, some_heavy
from tests.studio.server.conftest import TOKEN, truth
from tests.studio.server.test_new_study import on_start_page
from tests.studio.server.test_page import Person

need("fastapi")
need("playwright")
need("axe_playwright_python")

LOOKS = some_heavy([("light", 1360), ("dark", 390)], [("dark", 390)])

WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def _why(page):
    page.keyboard.press("w")
    page.wait_for_selector("#why-words[data-whole]")
    page.click("#why-details summary")


def _details(page):
    page.click("#details > summary")
    if page.is_visible("#rules summary"):
        page.click("#rules summary")


def _drawn(page):
    page.wait_for_function("() => document.getElementById('row-number').textContent")
    page.wait_for_function(
        "() => document.querySelector('[data-chart=learning] .readout').textContent"
    )


def _sure(page):
    page.wait_for_selector("main[data-ready]")
    page.locator(".accept input").first.uncheck()


def _nothing(page):
    pass


STATES = {
    "/": (_drawn, _details, _why),
    "/?one": (_drawn, lambda page: page.keyboard.press("?")),
    "/?two": (_drawn, lambda page: page.keyboard.press("n")),
    "/?three": (_drawn, lambda page: page.click("#who-button")),
    "/?four": (_drawn, lambda page: page.click("#finish")),
    "/review": (_nothing,),
    "/review?only=doubted": (_nothing,),
    "/review?only=sure": (_sure,),
    "/review?search=nothing+like+it": (_nothing,),
    "/scores": (_nothing,),
    "/docs": (_nothing,),
    "/login": (_nothing,),
}


def _report(folder):
    """A report of a few claims, as `goalward reproduce` writes it."""
    from goalward.lab.paper.findings import Claim, Findings
    from goalward.lab.paper.report import write_report
    from goalward.lab.plots import figure, save

    save(figure(8, 5), folder / "figures" / "synth2")
    table = pl.DataFrame({f"a column of numbers {k}": [0.123456789] * 3 for k in range(12)})
    kinds = ("reproduced", "partly", "not reproduced", "not tested")
    said = [
        Claim("", "Says " * 20, "a rule", "0.84 [0.49, 0.96]; " * 5, k, "synth2", {}) for k in kinds
    ]
    tables = {"datasets": table, "penalties": table}
    return write_report(folder, Findings(), ["synth2"], tables, said, 1.0)


def test_nor_does_the_start_page(chromium, tmp_path):
    from axe_playwright_python.sync_playwright import Axe

    from goalward.studio.server import Auth
    from goalward.studio.server.new_study import NewStudy

    new = NewStudy(Auth(TOKEN), lambda study: None, tmp_path)
    pl.DataFrame({"id": [1, 2], "text": ["a b", "c d"]}).write_csv(new.folder / "t.csv")
    with on_start_page(new, chromium) as page:
        page.wait_for_selector("[data-table]")
        found = Axe().run(page).response["violations"]
        page.click("[data-table]")
        page.wait_for_selector("#study:not([hidden])")
        found += Axe().run(page).response["violations"]
        page.emulate_media(color_scheme="dark")
        found += Axe().run(page).response["violations"]
    assert not [(one["id"], one["nodes"][0]["html"]) for one in found]


@pytest.mark.parametrize(("look", "width"), LOOKS)
def test_the_report_keeps_nobody_out_either(chromium, tmp_path, look, width):
    from axe_playwright_python.sync_playwright import Axe

    page = chromium.new_page(viewport={"width": width, "height": 844}, color_scheme=look)
    page.goto(_report(tmp_path).as_uri())
    page.click("text=Table: penalties")
    found = [(v["id"], v["nodes"][0]["html"]) for v in Axe().run(page).response["violations"]]
    assert not found
    assert page.evaluate(WIDE) == 0
    assert page.inner_text(".outcome").startswith("1 of 3 claims reproduced")
    page.click(".claims a >> nth=0")
    assert page.url.endswith("#synth2")
    page.close()


@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.parametrize(("look", "width"), LOOKS)
def test_no_page_keeps_anybody_out_or_scrolls_sideways(
    chromium, served, address, look, width, half, monkeypatch
):
    from axe_playwright_python.sync_playwright import Axe

    from goalward.studio.study import ranking

    monkeypatch.setattr(ranking, "SURE", 0.5)
    study = served.study
    for row in range(50):
        right = truth(study.show(row)["text"])
        study.tell(row, {"good": "bad", "bad": "good"}[right] if row % 11 == 5 else right, by="ann")
        if row % 3 == 0:
            study.tell(row, right, by="bo")
    study.refresh()
    size = {"width": width, "height": 844}
    ann = Person(chromium, address, served, viewport=size, color_scheme=look)
    found = []
    for path, steps in list(STATES.items())[half::2]:
        ann.page.goto(f"{address}{path}")
        for step in steps:
            step(ann.page)
        said = Axe().run(ann.page).response
        assert len(said["passes"]) > 15
        for one in said["violations"]:
            found += [(path, one["id"], node["html"][:200]) for node in one["nodes"]]
        if width == 390 and ann.page.evaluate(WIDE) > 0:
            found.append((path, "scrolls sideways"))
    ann.context.close()
    assert not found
    assert not ann.errors
