"""A real JupyterLab in a real browser: answers by keys, a kernel that is killed, nothing lost."""

import json
import re

import pytest

from tests.conftest import need
from tests.notebook.conftest import SAYS_ITS_PROCESS, WIDGET, check_widget, opened, serving

need("anywidget")
need("jupyterlab")


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """A server with one notebook, and its folder."""
    home = tmp_path_factory.mktemp("lab")
    cell = {"cell_type": "code", "id": "a", "metadata": {}, "outputs": [], "execution_count": None}
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    book = {
        "cells": [cell | {"source": f"import os, goalward as gw\n{SAYS_ITS_PROCESS}\n{WIDGET}"}],
        "metadata": kernel,
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    (home / "book.ipynb").write_text(json.dumps(book))
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
