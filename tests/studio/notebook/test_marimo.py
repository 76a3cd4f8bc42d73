"""A real marimo in a real browser: the same widget, the same keys, the same kills."""

import re
from textwrap import indent

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
need("marimo")

BOOK = f"""import marimo

app = marimo.App()


@app.cell
def _():
    import os
    import marimo as mo
    import goalward as gw
    return gw, mo, os


@app.cell
def _(gw, mo, os):
    {SAYS_ITS_PROCESS}
    mo.ui.anywidget({WIDGET})
    return


@app.cell
def _(gw):
{indent(CHART, "    ")}
    return
"""


def run(page, before):
    """Wait for the widget of a kernel that runs the notebook, and return its process."""
    if before is not None:
        page.reload()  # as a person does: the page of a dead kernel starts another
    # What the dead kernel printed may still be there: marimo keeps outputs beside the notebook.
    said = page.get_by_text(re.compile(rf"kernel (?!{before}\b)\d+")).last
    kernel = int(said.inner_text().split()[1])
    page.locator(".goalward").first.wait_for()
    return kernel


def test_answers_by_keys_and_a_kernel_that_is_killed(chromium, tmp_path):
    (tmp_path / "book.py").write_text(BOOK)
    (tmp_path / ".home").mkdir()
    (tmp_path / ".home" / ".marimo.toml").write_text("[runtime]\nauto_instantiate = true\n")
    options = ("edit", "book.py", "--headless", "--no-token", "--skip-update-check")
    with serving(tmp_path, "/health", "marimo", "-y", *options) as address:
        page = opened(chromium, address)
        check_chart(page)
        cell = page.locator(".marimo-cell").nth(1)
        check_widget(
            page, tmp_path, run, lambda folder: cell.screenshot(path=folder / "marimo.png")
        )
