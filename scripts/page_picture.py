"""Draw docs/figures/label-page.png: `python scripts/page_picture.py [PNG]`. Needs Chromium.

The sample's messages are answered by what they are about, 90 of them, and the page is looked at.
"""

import os
import re
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

import uvicorn
from playwright.sync_api import sync_playwright

import goalward as gw
from goalward.samples import CLASSES, write_sample
from goalward.server import create_app
from goalward.server.guard import Keys
from goalward.server.serve import listening
from goalward.server.served_study import ServedStudy

TOKEN = "only for this picture"
ABOUT = (
    ("noise", r"loud|drums|barking|alarm|engine|unload|building work|music|noise|fireworks"),
    ("waste", r"\bbins?\b|bottles|glass|rubbish|collect|recycl|mattress|litter|compost"),
    (
        "roads",
        r"kerb|traffic|hole in the road|street light|paving|zebra|ice on|cars|sign|drain|bus lane",
    ),
    ("parks", r""),
)


def label(text: str) -> str:
    """Return what a message is about, by its words."""
    return next(name for name, words in ABOUT if re.search(words, text.lower()))


def answered(folder: Path) -> gw.Study:
    """Return a study of the sample with 90 answers."""
    table = gw.tables.Table(str(write_sample(folder)), "text")
    study = gw.Study.create(
        folder / "messages.labels.db", pool=table, classes=list(CLASSES), dev=0.2
    )
    while len(study.state.labels) < 90:
        for row in study.ask(10, by="ann"):
            study.tell(row, label(study.show(row)["text"]), by="ann")
    study.refresh()
    return study


def main(path: Path) -> None:
    """Serve the study, look at its page, and write the picture."""
    with tempfile.TemporaryDirectory() as folder, answered(Path(folder)) as study:
        listener = listening("127.0.0.1", 0)
        port = listener.getsockname()[1]
        served = ServedStudy(study, Keys(TOKEN, port=port), by="ann")
        server = uvicorn.Server(uvicorn.Config(create_app(served), log_level="critical"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            look(f"http://127.0.0.1:{port}", served.keys.link(), path)
        finally:
            served.live.close()
            server.should_exit = True
            thread.join(timeout=30)
            listener.close()


def look(address: str, link: str, path: Path) -> None:
    """Write what the page looks like after an answer."""
    options = ["--no-first-run", "--disable-background-networking"]
    if os.geteuid() == 0:
        options.append("--no-sandbox")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=options)
        page = browser.new_page(viewport={"width": 1360, "height": 990})
        page.goto(f"{address}/start?token={link}")
        page.wait_for_selector("text=Worth going on?")
        time.sleep(4)  # charts come in after the row
        page.screenshot(path=str(path))
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/figures/label-page.png"))
