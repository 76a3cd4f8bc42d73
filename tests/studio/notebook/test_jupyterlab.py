"""A real JupyterLab in a real browser: answers by keys, a kernel that is killed, nothing lost."""

import json
import re

import pytest

from tests.conftest import need
from tests.studio.notebook.conftest import (
    CHART,
    SAYS_ITS_PROCESS,
    WIDGET,
    check_chart,
    check_widget,
    opened,
    serving,
)

need("anywidget")
need("jupyterlab")


LABEL = f"import os, goalward as gw\n{SAYS_ITS_PROCESS}\n{WIDGET}"
LOOK = """import numpy as np, goalward as gw
X = np.random.default_rng(0).normal(size=(60, 2))
fitted = gw.Logistic().fit(X[:20], np.where(X[:20].sum(axis=1) > 0, "<script>hit = 1</script>", "bad"))
gw.strategies.Margin().suggest(fitted, X, 3, rows=[f"<img src=x onerror='hit = 1'> {i}" for i in range(60)])"""


def book(*sources):
    """Return a notebook of some cells, as its file has it."""
    empty = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    cells = [empty | {"id": f"c{i}", "source": source} for i, source in enumerate(sources)]
    return json.dumps({"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5})


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """A server with two notebooks, and its folder."""
    home = tmp_path_factory.mktemp("lab")
    (home / "book.ipynb").write_text(book(LABEL))
    (home / "look.ipynb").write_text(book(LOOK, CHART))
    options = [
        *("--no-browser", "--allow-root", "--ServerApp.token=t", f"--ServerApp.root_dir={home}"),
        *("--LabApp.news_url=None", "--ServerApp.port_retries=0"),
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        "--KernelRestarter.restart_limit=1000",  # five kernels killed in a row, and it gives up
    ]
    with serving(home, "/api?token=t", "jupyterlab", *options) as address:
        yield address, home


def run(page, before):
    """Run the cell, wait for its widget, and return the kernel's process."""
    if before is not None:  # "The kernel appears to have died. It will restart automatically."
        page.locator(".jp-Dialog .jp-Dialog-button").last.click()
    kernel = before
    while kernel == before:
        page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()
        page.evaluate("document.querySelectorAll('.goalward').forEach((one) => one.remove())")
        page.locator(".jp-CodeCell .cm-content").first.click()
        page.keyboard.press("Shift+Enter")
        page.locator(".goalward").first.wait_for()
        told = page.locator(".jp-OutputArea-output", has_text="kernel").first.inner_text()
        kernel = int(re.search(r"kernel (\d+)", told)[1])
    return kernel


def test_answers_by_keys_and_a_kernel_that_is_killed(chromium, lab):
    address, home = lab
    page = opened(chromium, f"{address}/lab/tree/book.ipynb?token=t&reset")
    page.locator(".jp-Notebook .jp-CodeCell").first.wait_for()
    cell = page.locator(".jp-CodeCell").first
    check_widget(page, home, run, lambda folder: cell.screenshot(path=folder / "notebook.png"))


def test_objects_and_charts_are_looked_at(chromium, lab):
    address, _ = lab
    page = opened(chromium, f"{address}/lab/tree/look.ipynb?token=t&reset")
    page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()
    page.locator(".jp-CodeCell .cm-content").first.click()
    for _ in range(2):
        page.keyboard.press("Shift+Enter")
    check_chart(page)
    shown = page.locator(".jp-OutputArea-output", has_text="rows to label")
    assert "<img src=x onerror='hit = 1'>" in shown.inner_text()
    assert "<script>hit = 1</script>" in shown.inner_text()
    assert page.evaluate("typeof hit") == "undefined"
    page.close()
