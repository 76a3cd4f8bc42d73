"""A real notebook in a real browser: how it is started differs, what its widget must do does not."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import goalward as gw
from tests.studio.server.conftest import PATIENCE, chromium, until

__all__ = ["chromium"]

KILLS = int(os.environ.get("GOALWARD_NOTEBOOK_KILLS", "1"))
PACE = float(os.environ.get("GOALWARD_NOTEBOOK_PACE", "0"))
"""Seconds between answers: 0 is faster than any person, and outruns a kernel on a busy machine."""
ANSWERS = 60
CLASSES = ["good", "bad", "ugly"]
WIDGET = f'gw.annotate([f"text number {{i}}" for i in range(400)], classes={CLASSES})'
SAYS_ITS_PROCESS = 'print("kernel", os.getpid())'
CHART = """fig = gw.plots.figure(6, 3)
_ = fig.subplots().plot([10, 20, 30], [0.5, 0.75, 0.8], label="margin")
fig"""
WATCH = """row => {
  let pressed = 0;
  const times = (window.goalwardTimes = []);
  addEventListener("keydown", (event) => { pressed = event.timeStamp; }, true);
  new MutationObserver(() => {
    const since = pressed;
    if (row.dataset.row === "none") return;
    requestAnimationFrame(() => setTimeout(() => times.push(performance.now() - since)));
  }).observe(row, { attributeFilter: ["data-row"] });
}"""
"""Times from a key to the frame that has the next row, in milliseconds."""


@contextmanager
def serving(home, alive, *command):
    """Run a server of notebooks in a folder, and yield its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (home / ".home").mkdir(exist_ok=True)
    settings = {
        "HOME": str(home / ".home"),
        "JUPYTER_RUNTIME_DIR": str(home / ".runtime"),
        "PYTHONPATH": str(Path(gw.__file__).parents[1]),
    }
    server = subprocess.Popen(
        [sys.executable, "-m", *command, f"--port={port}"],
        env=os.environ | settings,
        cwd=home,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    address = f"http://127.0.0.1:{port}"

    def answers():
        try:
            with urllib.request.urlopen(address + alive, timeout=5):
                return True
        except OSError:
            assert server.poll() is None, f"{command[0]} ended"
            return False

    try:
        until(answers)
        yield address
    finally:
        os.killpg(server.pid, signal.SIGKILL)  # with its kernels
        server.wait()


def opened(chromium, address):
    page = chromium.new_page(viewport={"width": 1200, "height": 800})
    page.set_default_timeout(PATIENCE)
    page.goto(address, timeout=PATIENCE)
    return page


def answer(page, key):
    row = page.locator(".goalward-row:not([data-row=none])").first
    before = row.get_attribute("data-row")
    page.locator(".goalward").first.focus()
    page.keyboard.press(key)
    page.locator(f".goalward-row:not([data-row='{before}'])").first.wait_for()
    return int(before)


def labels_of(home):
    with gw.Study.open(home / "annotations" / "study.db") as study:
        return study.state.labels


def check_chart(page):
    """Look at `CHART`: it is drawn, at least as wide as it was asked to be."""
    drawn = page.locator("img[src^='data:image/png']").first
    drawn.wait_for()
    assert drawn.evaluate("image => image.naturalWidth") >= 6 * 96


def check_widget(page, home, run, picture):
    """Answer by keys, take back, and kill the kernel while answers come; nothing may be lost.

    `run(page, before)` runs the notebook until its widget is there, and returns the process of its
    kernel, another one than `before`. `picture(folder)` draws the widget for the docs.
    """
    kernel, told = run(page, None), {}
    page.locator(".goalward-row").first.evaluate(WATCH)
    for turn in range(ANSWERS):
        # Digits make headings of a cell in JupyterLab, unless the widget has them.
        told[answer(page, "123"[turn % 3])] = CLASSES[turn % 3]
        time.sleep(PACE)
    until(lambda: labels_of(home) == told)
    until(lambda: page.evaluate("goalwardTimes.length") >= ANSWERS)
    times = page.evaluate("goalwardTimes")
    print(f"95 % of {len(times)} answers: next row within {np.quantile(times, 0.95):.0f} ms")
    if folder := os.environ.get("GOALWARD_PICTURES"):  # for docs/how-to/notebook.md
        picture(Path(folder))
    last = list(told)[-1]
    page.keyboard.press("u")
    page.locator(f".goalward-row[data-row='{last}']").first.wait_for()
    assert last not in labels_of(home)
    told.pop(last)
    page.keyboard.press("Alt+2")
    told[last] = "bad"
    until(lambda: labels_of(home) == told)

    for turn in range(KILLS):
        told[answer(page, "1")] = "good"
        os.kill(kernel, signal.SIGKILL)
        told[answer(page, "2")] = "bad"  # nobody hears this one, but for the browser
        if turn == 0:
            page.locator(".goalward-problem", has_text="Not stored yet").first.wait_for()
        kernel = run(page, kernel)
        until(lambda: labels_of(home) == told)
    page.close()
