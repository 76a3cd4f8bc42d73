"""The notebook of the examples, as a reader runs it: from top to bottom, in an empty folder."""

import os
from pathlib import Path

import polars as pl

import goalward as gw
from goalward.studio.tables.table import SAMPLE_CLASSES
from tests.conftest import need

need("anywidget")
need("ipykernel")
need("nbclient")

import nbformat  # noqa: E402
from nbclient import NotebookClient  # noqa: E402

BOOK = Path(__file__).parents[3] / "docs/examples/frame_to_predictions.ipynb"


def test_the_notebook_goes_from_a_frame_to_predictions(tmp_path, monkeypatch, request):
    source = str(Path(gw.__file__).parents[1])
    monkeypatch.setenv("PYTHONPATH", source)
    monkeypatch.setenv("PYTHONWARNINGS", "error::UserWarning")
    book = nbformat.read(BOOK, as_version=4)
    assert all(not cell.get("outputs") for cell in book.cells), "commit it without outputs"
    NotebookClient(book, timeout=None, resources={"metadata": {"path": tmp_path}}).execute()
    results = [out.get("data", {}) for cell in book.cells for out in cell.get("outputs", ())]
    shown = [data["text/html"] for data in results if "text/html" in data]
    for words in ("rows have a label", "the most doubtful first", "5 rows to label"):
        assert any(words in html for html in shown), words
    (chart,) = (data["image/png"] for data in results if "image/png" in data)
    assert any("application/vnd.jupyter.widget-view+json" in data for data in results)
    assert results[-1]["text/plain"].startswith("array(['waste', 'noise']")
    labelled = pl.read_csv(tmp_path / "town" / "labelled.csv")
    assert labelled.height == 252
    assert set(labelled["label"]) <= set(SAMPLE_CLASSES)
    if folder := os.environ.get("GOALWARD_PICTURES"):  # for the page beside the notebook
        page = request.getfixturevalue("chromium").new_page(viewport={"width": 760, "height": 100})
        look = (
            "<style>body{font-family:sans-serif;margin:16px}td,th{padding:2px 12px 2px 0}</style>"
        )
        drawn = f'<img src="data:image/png;base64,{chart}">'
        page.set_content(look + "<br>".join([shown[1], drawn, shown[3]]))
        page.screenshot(path=Path(folder) / "examples/frame_to_predictions.png", full_page=True)
