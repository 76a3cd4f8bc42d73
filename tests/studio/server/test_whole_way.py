"""The whole way in a real browser: a file, the start page, 40 answers, a table with predictions.

The person answers what is true; the assertion is how many of all rows are predicted right.
"""

import io

import numpy as np
import polars as pl
import pytest
from sklearn.datasets import load_digits, load_wine

from tests.conftest import need
from tests.studio.server.conftest import PATIENCE

need("fastapi")
need("playwright")

from playwright.sync_api import expect  # noqa: E402

from tests.studio.server.test_new_study import new, on_start_page  # noqa: E402, F401
from tests.studio.tables.test_files import workbook  # noqa: E402

SHOWN = "document.getElementById('row-number').textContent"
MATTERS = {
    "Lieferung": ["Das Paket kam zu spät", "Die Sendung fehlt", "Der Bote war da, das Paket nicht"],
    "Zahlung": [
        "Die Rechnung stimmt nicht",
        "Ich möchte das Geld zurück",
        "Der Betrag ist zu groß",
    ],
    "Gerät": ["Das Gerät geht nicht an", "Die Tür des Geräts schließt nicht", "Es läuft Öl heraus"],
}
ENDS = ["seit Montag", "und niemand hört zu", "schon wieder", "bitte prüfen", "in Köln", "vor Ort"]


def letters(n=150):
    """Return texts to a shop and what they are about."""
    rng = np.random.default_rng(0)
    said, about = [], []
    for i in range(n):
        matter = list(MATTERS)[i % 3]
        ends = rng.choice(ENDS, 2, replace=False)
        said.append(f"{rng.choice(MATTERS[matter])} {ends[0]}, {ends[1]} (Nr. {i})")
        about.append(matter)
    return said, about


def semicolons(folder):
    said, about = letters()
    lines = ["Nummer;Text;Ort", *(f'{i};"{text}";Köln' for i, text in enumerate(said))]
    path = folder / "Briefe.csv"
    path.write_bytes("\r\n".join(lines).encode("latin-1"))
    return path, about, lambda page: said.index(page.inner_text("#row-text"))


def spreadsheet(folder):
    said, about = letters()
    path = folder / "letters.xlsx"
    rows = [["id", "letter"], *([f"L{i}", text] for i, text in enumerate(said))]
    path.write_bytes(workbook(rows))
    return path, about, lambda page: int(page.inner_text("#row-number").removeprefix("id L"))


def numbers(folder):
    data = load_wine(as_frame=True)
    names = ["first", "second", "third"]
    about = [names[k] for k in data.target]
    frame = pl.DataFrame(
        {"id": np.arange(1, len(about) + 1), **{c: data.data[c].tolist() for c in data.data}}
    )
    # One cell is missing, and the ids, in the order of the classes, must not tell the answer.
    frame = frame.with_columns(
        pl.when(pl.col("id") == 7).then(None).otherwise(pl.col("hue")).alias("hue")
    )
    path = folder / "wines.csv"
    frame.write_csv(path)
    return path, about, lambda page: int(page.inner_text("#row-number").split()[1]) - 1


def answer(page, key):
    """Press a key and wait for another row."""
    before = page.inner_text("#row-number")
    page.keyboard.press(key)
    page.wait_for_function(f"old => {SHOWN} !== old && {SHOWN} !== ''", arg=before)


def walked(page, about, row_of, answers=40):
    """Write the classes, answer what is true, and return the table that is downloaded."""
    classes = sorted(set(about))
    page.fill("#classes-text", "\n".join(classes))
    page.click("#begin")
    page.wait_for_function(f"() => document.getElementById('row-number') && {SHOWN} !== ''")
    for _ in range(answers):
        answer(page, str(1 + classes.index(about[row_of(page)])))
    expect(page.locator("#count")).to_have_text(str(answers))
    page.click("#finish")
    with page.expect_download(timeout=PATIENCE) as download:
        page.click("#end [data-predictions]")
    name, content = download.value.suggested_filename, download.value.path().read_bytes()
    if name.endswith(".xlsx"):
        return name, pl.read_excel(io.BytesIO(content))
    return name, pl.read_csv(content, separator=";" if name.startswith("Briefe") else ",")


@pytest.mark.parametrize(
    ("made", "least"),
    [
        (semicolons, 0.97),
        pytest.param(spreadsheet, 0.97, marks=pytest.mark.heavy),
        pytest.param(numbers, 0.93, marks=pytest.mark.heavy),
    ],
    ids=["semicolons in Latin-1", "xlsx", "numbers with an id and a gap"],
)
def test_from_a_file_to_a_table_with_predictions(made, least, new, chromium, tmp_path):  # noqa: F811
    path, about, row_of = made(tmp_path)
    with on_start_page(new, chromium) as page:
        page.set_input_files("#file", path)
        expect(page.locator("#study-title")).to_have_text(path.name)
        name, found = walked(page, about, row_of)
    assert name == f"{path.stem}-predictions{path.suffix}"
    assert found.height == len(about)
    assert found["answered"].sum() == 40
    right = np.mean(found["label"].to_numpy() == np.array(about))
    assert right >= least


@pytest.mark.heavy
def test_from_a_folder_of_pictures_to_predictions(new, chromium, tmp_path):  # noqa: F811
    need("PIL")
    from PIL import Image

    data = load_digits(n_class=3)
    about = [("zero", "one", "two")[k] for k in data.target[:150]]
    folder = tmp_path / "digits"
    folder.mkdir()
    for i, pixels in enumerate(data.images[: len(about)]):
        grey = (pixels * 15).astype(np.uint8)
        Image.fromarray(grey).resize((32, 32)).save(folder / f"{i:03}.png")
    with on_start_page(new, chromium) as page:
        page.set_input_files("#pictures", folder)
        expect(page.locator("#study-title")).to_have_text("digits")

        def row_of(page):
            page.wait_for_function("() => document.getElementById('row-image').naturalWidth > 0")
            return int(page.inner_text("#row-number").removeprefix("Row "))

        name, found = walked(page, about, row_of)
    assert name == "digits-predictions.csv"
    assert found["picture"].to_list() == [f"{i:03}.png" for i in range(len(about))]
    right = np.mean(found["label"].to_numpy() == np.array(about))
    assert right >= 0.95
