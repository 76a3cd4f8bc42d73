"""Draw every state of the page: `python scripts/page_pictures.py [FOLDER]`. Needs Chromium.

The sample's messages are answered by what they are about, 90 of them, ten by two people; then every
page is looked at, light and dark, at a desk and on a phone.
"""

import os
import re
import shutil
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import uvicorn
from PIL import Image
from playwright.sync_api import sync_playwright

import goalward as gw
from goalward.studio.server import create_app
from goalward.studio.server.auth import Auth
from goalward.studio.server.new_study import NewStudy
from goalward.studio.server.serve import listening, uvicorn_config
from goalward.studio.server.served_study import ServedStudy
from goalward.studio.tables.table import SAMPLE_CLASSES, write_sample

ABOUT = {
    "noise": "loud|drums|barks|building work|lorries unload|music|fireworks|bells|hums|motorcycles"
    "|sweeper",
    "waste": r"\bbins?\b|bottles|glass|rubbish|collection|mattress|litter|batteries|plastic",
    "roads": "kerb|traffic|the road|street light|paving|zebra|ice on|road sign|speed bump",
    "parks": "swing|flower|branch|trees|dogs run|pond|benches|grass|gates|fountain",
}
"""In this order: a recycling lorry that is loud is noise, litter in a park waste."""
DESK, PHONE = {"width": 1360, "height": 990}, {"width": 390, "height": 844}
DRAWN = "() => document.querySelector('[data-chart=learning] .readout')?.textContent"


def label(text: str) -> str:
    """Return what a message is about, by its words."""
    return next(name for name, words in ABOUT.items() if re.search(words, text.lower()))


def answered(folder: Path) -> gw.Study:
    """Return a study of the sample with 90 answers, three of them wrong."""
    table = gw.tables.Table(str(write_sample(folder)), "text")
    study = gw.Study.create(
        folder / "messages.labels.db", pool=table, classes=list(SAMPLE_CLASSES), dev=0.2
    )
    while len(study.state.labels) < 90:
        for row in study.ask(10, by="ann"):
            study.tell(row, label(study.show(row)["text"]), by="ann")
        study.refresh()
    first = list(study.state.labels)[:20]
    for row in first:
        study.tell(row, label(study.show(row)["text"]), by="bo")
    for row in first[3:6]:
        study.tell(row, "parks" if study.state.labels[row] != "parks" else "roads", by="ann")
    study.refresh()
    return study


@contextmanager
def serving(make):
    """Serve the application that is made with its secrets, while its pages are looked at."""
    listener = listening("127.0.0.1", 0)
    port = listener.getsockname()[1]
    auth = Auth("only for these pictures", port=port)
    server = uvicorn.Server(uvicorn_config(app := make(auth), listener))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port}", auth
    finally:
        if app.state.served is not None:
            app.state.served.live.close()
        server.should_exit = True
        thread.join(timeout=30)
        listener.close()


def drawn(page) -> None:
    """Wait until the row and its charts are there."""
    page.wait_for_function("() => document.getElementById('row-number').textContent")
    page.wait_for_function(DRAWN)


def why(page) -> None:
    """Open the reasons of a row."""
    drawn(page)
    page.keyboard.press("w")
    page.wait_for_selector("#why-words[data-whole]")


def keys(page) -> None:
    """Open the list of keys."""
    drawn(page)
    page.keyboard.press("?")


def details(page) -> None:
    """Open what the sentence rests on."""
    drawn(page)
    page.click("#details > summary")


def end(page) -> None:
    """Finish for now."""
    drawn(page)
    page.click("#finish")


def columns(page) -> None:
    """Choose the table that is there."""
    page.click("[data-table]")
    page.wait_for_selector("#study:not([hidden])")


def listed(page) -> None:
    """Wait for the list of answers."""
    page.wait_for_selector("main[data-ready]")


def there(page) -> None:
    """Wait for nothing: the page is there."""


STATES = {
    "label": ("/", drawn),
    "details": ("/", details),
    "why": ("/", why),
    "keys": ("/", keys),
    "end": ("/", end),
    "review": ("/review", listed),
    "mistakes": ("/review?only=doubted", listed),
    "scores": ("/scores", there),
    "api": ("/docs", there),
}
"""Where each state of the page of a study is, and how one comes there."""
BEGINNINGS = {"start": ("/", there), "columns": ("/", columns)}
"""The same where there is no study yet."""
LOOKS = (("", "light", DESK), ("-dark", "dark", DESK), ("-phone", "light", PHONE))


def take(browser, folder: Path, address: str, auth: Auth, states: dict) -> None:
    """Write a picture of every state in every look."""
    for ending, look, size in LOOKS:
        page = browser.new_page(viewport=size, color_scheme=look)
        page.on("pageerror", lambda error: print("page error:", error))
        page.goto(f"{address}/login")
        if not ending:
            keep(page, folder / "sign-in.png")
        page.goto(f"{address}/start?token={auth.new_link()}")
        for name, (path, reach) in states.items():
            page.goto(f"{address}{path}")
            reach(page)
            keep(page, folder / f"{name}{ending}.png")
        page.close()


def keep(page, path: Path) -> None:
    """Write what is seen, with as many colours as such a page needs."""
    page.evaluate("document.fonts.ready")
    picture = Image.open(BytesIO(page.screenshot(animations="disabled"))).convert("RGB")
    picture.quantize(96, dither=Image.Dither.NONE).save(path, optimize=True)


def main(folder: Path) -> None:
    """Write all pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    options = ["--no-first-run", "--disable-background-networking"]
    if os.geteuid() == 0:
        options.append("--no-sandbox")
    with (
        tempfile.TemporaryDirectory() as scratch,
        tempfile.TemporaryDirectory() as empty,
        answered(Path(scratch)) as study,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=options)
        with serving(lambda auth: create_app({"": ServedStudy(study, auth, by="ann")}, auth)) as (
            place,
            auth,
        ):
            take(browser, folder, place, auth, STATES)
        (home := Path(empty) / "tables").mkdir()
        write_sample(home)
        with serving(
            lambda auth: create_app(
                {}, auth, new=NewStudy(auth, lambda study: ServedStudy(study, auth), home)
            )
        ) as (place, auth):
            take(browser, folder, place, auth, BEGINNINGS)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/figures/page"))
