"""A real JupyterLab in a real browser: answers by keys, a kernel that is killed, nothing lost."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

import goalward as gw
from tests.conftest import need
from tests.server.conftest import PATIENCE, chromium, until  # noqa: F401

need("anywidget")
need("jupyterlab")

KILLS = int(os.environ.get("GOALWARD_NOTEBOOK_KILLS", "2"))
CELL = """import os, goalward as gw
print("kernel", os.getpid())
gw.annotate([f"text number {i}" for i in range(400)], classes=["good", "bad", "ugly"])"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """A server with one notebook, and its folder."""
    home = tmp_path_factory.mktemp("lab")
    cell = {"cell_type": "code", "id": "a", "metadata": {}, "outputs": [], "execution_count": None}
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    book = {
        "cells": [cell | {"source": CELL}],
        "metadata": kernel,
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    (home / "book.ipynb").write_text(json.dumps(book))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    source = str(Path(gw.__file__).parents[1])
    settings = {
        "HOME": str(home / ".home"),
        "JUPYTER_RUNTIME_DIR": str(home / ".runtime"),
        "PYTHONPATH": source,
    }
    options = [
        *("--no-browser", "--allow-root", f"--port={port}", "--ServerApp.token=t"),
        *(f"--ServerApp.root_dir={home}", "--LabApp.news_url=None"),
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        "--KernelRestarter.restart_limit=1000",  # five kernels killed in a row, and it gives up
    ]
    (home / ".home").mkdir()
    server = subprocess.Popen(
        [sys.executable, "-m", "jupyterlab", *options],
        env=os.environ | settings,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    address = f"http://127.0.0.1:{port}"

    def answers():
        try:
            with urllib.request.urlopen(f"{address}/api?token=t", timeout=5):
                return True
        except OSError:
            assert server.poll() is None, "JupyterLab ended"
            return False

    until(answers)
    yield address, home
    server.send_signal(signal.SIGTERM)
    try:
        server.wait(20)
    except subprocess.TimeoutExpired:
        server.kill()


def run_cell(page):
    """Run the cell, wait for its widget, and return the kernel's process."""
    page.get_by_text("Python 3 (ipykernel) | Idle").wait_for(timeout=PATIENCE)
    page.evaluate("document.querySelectorAll('.goalward').forEach((one) => one.remove())")
    page.locator(".jp-CodeCell .cm-content").first.click()
    page.keyboard.press("Shift+Enter")
    page.locator(".goalward").first.wait_for(timeout=PATIENCE)
    page.locator(".goalward").first.focus()
    told = page.locator(".jp-OutputArea-output", has_text="kernel").first.inner_text()
    return int(re.search(r"kernel (\d+)", told)[1])


def answer(page, key):
    row = page.locator(".goalward-row:not([data-row=none])").first
    before = row.get_attribute("data-row", timeout=PATIENCE)
    page.locator(".goalward").first.focus()
    page.keyboard.press(key)
    page.wait_for_function(
        "before => document.querySelector('.goalward-row').dataset.row !== before",
        arg=before,
        timeout=PATIENCE,
    )
    return int(before)


def labels_of(home):
    with gw.Study.open(home / "annotations" / "study.db") as study:
        return study.state.labels


def test_answers_by_keys_and_a_kernel_that_is_killed(chromium, lab):  # noqa: F811
    address, home = lab
    page = chromium.new_page(viewport={"width": 1200, "height": 800})
    page.set_default_timeout(PATIENCE)
    page.goto(f"{address}/lab/tree/book.ipynb?token=t&reset", timeout=PATIENCE)
    page.locator(".jp-Notebook .jp-CodeCell").first.wait_for(timeout=PATIENCE)

    def close():
        """Close "The kernel appears to have died"."""
        page.locator(".jp-Dialog .jp-Dialog-button").last.click()

    page.add_locator_handler(page.locator(".jp-Dialog"), close)
    kernel, told = run_cell(page), {}
    for turn in range(60):
        # Digits make headings of a cell in JupyterLab, unless the widget has them.
        told[answer(page, "123"[turn % 3])] = ["good", "bad", "ugly"][turn % 3]
    until(lambda: labels_of(home) == told)
    if folder := os.environ.get("GOALWARD_PICTURES"):  # for docs/how-to/notebook.md
        page.locator(".jp-CodeCell").first.screenshot(path=Path(folder) / "notebook.png")
    last = list(told)[-1]
    page.keyboard.press("u")
    page.locator(f".goalward-row[data-row='{last}']").first.wait_for(timeout=PATIENCE)
    assert last not in labels_of(home)
    told.pop(last)
    page.keyboard.press("Alt+2")
    told[last] = "bad"
    until(lambda: labels_of(home) == told)

    for _ in range(KILLS):
        told[answer(page, "1")] = "good"
        os.kill(kernel, signal.SIGKILL)
        told[answer(page, "2")] = "bad"  # nobody hears this one, but for the browser
        page.locator(".goalward-problem", has_text="Not stored yet").first.wait_for(
            timeout=PATIENCE
        )
        before = kernel
        while kernel == before:
            kernel = run_cell(page)
        until(lambda: labels_of(home) == told)
    page.close()
