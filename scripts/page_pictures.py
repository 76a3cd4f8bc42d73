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
from pathlib import Path

import uvicorn
from playwright.sync_api import sync_playwright

import goalward as gw
from goalward.samples import CLASSES, write_sample
from goalward.server import create_app
from goalward.server.guard import Keys
from goalward.server.serve import listening
from goalward.server.served_study import ServedStudy

ABOUT = (
    ("noise", r"loud|drums|barking|alarm|engine|unload|building work|music|noise|fireworks"),
    ("waste", r"\bbins?\b|bottles|glass|rubbish|collect|recycl|mattress|litter|compost"),
    (
        "roads",
        r"kerb|traffic|hole in the road|street light|paving|zebra|ice on|cars|sign|drain|bus lane",
    ),
    ("parks", r""),
)
DESK, PHONE = {"width": 1360, "height": 990}, {"width": 390, "height": 844}
DRAWN = "() => document.querySelector('[data-chart=learning] .readout')?.textContent"


def label(text: str) -> str:
    """Return what a message is about, by its words."""
    return next(name for name, words in ABOUT if re.search(words, text.lower()))


def answered(folder: Path) -> gw.Study:
    """Return a study of the sample with 90 answers, three of them wrong."""
    table = gw.tables.Table(str(write_sample(folder)), "text")
    study = gw.Study.create(
        folder / "messages.labels.db", pool=table, classes=list(CLASSES), dev=0.2
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
def served(study: gw.Study):
    """Serve a study while its pages are looked at."""
    listener = listening("127.0.0.1", 0)
    port = listener.getsockname()[1]
    shown = ServedStudy(study, Keys("only for these pictures", port=port), by="ann")
    server = uvicorn.Server(uvicorn.Config(create_app(shown), log_level="critical"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port}", shown.keys
    finally:
        shown.live.close()
        server.should_exit = True
        thread.join(timeout=30)
        listener.close()


def drawn(page) -> None:
    """Wait until the row and its charts are there."""
    page.wait_for_selector("#row[data-row]")
    page.wait_for_function(DRAWN)


def why(page) -> None:
    """Open the reasons of a row."""
    drawn(page)
    page.keyboard.press("w")
    page.wait_for_selector("#why-legend:not([hidden])")


def keys(page) -> None:
    """Open the list of keys."""
    drawn(page)
    page.keyboard.press("?")


STATES = {
    "label": ("/", drawn),
    "why": ("/", why),
    "keys": ("/", keys),
    "review": ("/review", lambda page: page.wait_for_selector("main[data-ready]")),
    "mistakes": (
        "/review?only=doubted",
        lambda page: page.wait_for_selector("main[data-ready]"),
    ),
    "scores": ("/scores", lambda page: None),
    "api": ("/docs", lambda page: None),
}
"""Where each state of the page is, and how one comes there."""


def main(folder: Path) -> None:
    """Write a picture of every state."""
    folder.mkdir(parents=True, exist_ok=True)
    options = ["--no-first-run", "--disable-background-networking"]
    if os.geteuid() == 0:
        options.append("--no-sandbox")
    with (
        tempfile.TemporaryDirectory() as scratch,
        answered(Path(scratch)) as study,
        served(study) as (address, tokens),
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=options)
        for ending, look, size in (
            ("", "light", DESK),
            ("-dark", "dark", DESK),
            ("-phone", "light", PHONE),
        ):
            page = browser.new_page(viewport=size, color_scheme=look)
            page.on("pageerror", lambda error: print("page error:", error))
            page.goto(f"{address}/login")
            if not ending:
                page.screenshot(path=folder / "sign-in.png")
            page.goto(f"{address}/start?token={tokens.link()}")
            for name, (path, reach) in STATES.items():
                page.goto(f"{address}{path}")
                reach(page)
                page.screenshot(path=folder / f"{name}{ending}.png", full_page=size is PHONE)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/figures/page"))
