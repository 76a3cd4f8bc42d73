"""The answers on the page: keys, many classes, names of rows, and the end."""

import re

import polars as pl
import pytest

import goalward as gw
from tests.conftest import need
from tests.studio.server.conftest import TOKEN, running, texts, truth, until

need("fastapi")
need("playwright")

from playwright.sync_api import expect  # noqa: E402

from goalward.studio.server.auth import Auth  # noqa: E402
from goalward.studio.server.served_study import ServedStudy  # noqa: E402
from tests.studio.server.test_page import Person  # noqa: E402


@pytest.fixture
def at_a_page(chromium, tmp_path):
    """Sit down before a study that is made for it; gives the person and the study."""
    opened = []

    def sit(pool, classes, *, made=None, **options):
        place = tmp_path / f"{len(opened)}.db"
        study = gw.Study.create(place, pool=pool, classes=classes, **(made or {}))
        served = ServedStudy(study, Auth(TOKEN), by="ann", **options)
        server = running(served)
        person = Person(chromium, server.__enter__(), served)
        opened.append((person, server, study))
        return person, study

    yield sit
    for person, server, study in opened:
        person.context.close()
        server.__exit__(None, None, None)
        study.close()
        assert not person.errors


def test_a_class_of_one_character_is_its_own_key_and_actions_give_way(at_a_page):
    ann, study = at_a_page(texts(40), ["y", "n", "unsure"])
    shown = ann.page.locator("#answers button kbd").all_inner_texts()
    assert shown == ["y", "n", "1"]
    # Note has another letter of its name, also on its button.
    expect(ann.page.locator("#note kbd")).to_have_text("o")
    said = {}
    for key, label in (("n", "n"), ("Y", "y"), ("1", "unsure")):
        row = ann.row
        ann.press(key)
        said[row] = label
    ann.saved(3)
    assert dict(study.state.labels) == said
    ann.page.keyboard.press("o")
    expect(ann.page.locator("#note-dialog")).to_be_visible()


def test_numbers_from_zero_are_their_own_keys(at_a_page):
    ann, study = at_a_page(texts(40), [0, 1, 2])
    assert ann.page.locator("#answers button kbd").all_inner_texts() == ["0", "1", "2"]
    row = ann.row
    ann.press("0")
    ann.saved(1)
    assert study.state.labels[row] == 0


def test_of_forty_classes_the_likely_and_recent_stand_first_and_all_are_found_by_typing(at_a_page):
    names = [f"kind {i}, sort {i % 7}" for i in range(40)]
    ann, study = at_a_page(texts(40), names, made={"dev": 0})
    first, others = (ann.page.locator(f"{box} button") for box in ("#answers", "#others"))
    assert first.locator("span").all_inner_texts() == names[:9]
    assert first.locator("kbd").all_inner_texts() == [*"123456789"]
    assert others.locator("span").all_inner_texts() == names[9:]
    said = {ann.row: names[1]}
    ann.press("2")
    said[ann.row] = names[20]
    ann.page.get_by_role("button", name=names[20]).click()
    row = ann.page.locator("#row-number")
    expect(row).not_to_have_text(f"Row {list(said)[-1]}")
    said[ann.row] = names[39]
    ann.page.keyboard.press("/")
    ann.page.keyboard.type("KIND 39")
    expect(ann.page.locator("#choices button:visible")).to_have_count(1)
    ann.press("Enter")
    ann.saved(3)
    assert dict(study.state.labels) == said
    expect(ann.page.locator("#choices button:visible")).to_have_count(40)
    # Those used lately came near, in the order of the classes; classes without an answer have no bar.
    assert {names[20], names[39]} < set(first.locator("span").all_inner_texts())
    assert first.locator("span").all_inner_texts() == sorted(
        first.locator("span").all_inner_texts(), key=names.index
    )
    expect(ann.page.locator("#classes .track")).to_have_count(3)
    expect(ann.page.locator("#none-yet")).to_have_text("37 of 40 have no answer yet.")
    # Once there is a model, what it takes for likely is among them, its favourite at no place of its own.
    until(lambda: study.state.ranking is not None and "predicted" in study.state.view)
    ann.page.reload()
    ann.ready()
    expect(row).to_have_text(re.compile("Row"))
    likely = study.state.view["predicted"][str(ann.row)][2]
    assert {names[k] for k in likely} <= set(first.locator("span").all_inner_texts())
    expect(ann.page.locator(".guess")).to_have_count(0)
    ann.page.keyboard.press("?")
    expect(ann.page.locator("#help-classes tr")).to_have_count(1)


def test_every_class_has_a_colour_on_its_button_and_its_bar(at_a_page):
    ann, study = at_a_page(texts(40), ["good", "bad", "neither"])
    ann.press("1")
    ann.saved(1)
    tints = "all => all.map(one => getComputedStyle(one).borderInlineStartColor)"
    colours = ann.page.locator("#answers button").evaluate_all(tints)
    assert len(set(colours)) == 3
    bars = ann.page.locator("#classes .track i")
    fills = bars.evaluate_all("all => all.map(one => getComputedStyle(one).backgroundColor)")
    assert fills == colours[:1], "a class without an answer has no bar"
    expect(ann.page.locator("#classes li")).to_have_count(3)
    study.describe("bad", colour="#1b9e77")
    ann.page.reload()
    ann.ready()
    assert ann.page.locator("#answers button").evaluate_all(tints)[1] == "rgb(27, 158, 119)"


def test_the_end_says_what_was_reached_and_not_to_go_on(at_a_page):
    ann, study = at_a_page(texts(14), ["good", "bad"])
    for _ in range(13):
        ann.answer()
    # Nothing comes after the last one.
    ann.page.keyboard.press({"good": "1", "bad": "2"}[truth(ann.text)])
    expect(ann.page.locator("#end-title")).to_have_text("Every row is answered")
    expect(ann.page.locator("#end-reached")).to_have_text("14 of 14 rows have a label.")
    assert len(study.state.labels) == 14
    expect(ann.page.locator("#stop")).to_be_hidden()
    assert "go on" not in ann.page.inner_text("body").lower()
    with ann.page.expect_download() as download:
        ann.page.click("#end [data-predictions]")
    assert download.value.suggested_filename == "0-predictions.csv"
    found = pl.read_csv(download.value.path())
    assert found["label"].to_list() == [truth(text) for text in texts(14)]
    assert found["answered"].all()
    # The last answer can still be undone, and the row is there again.
    ann.page.click("#undo")
    expect(ann.page.locator("#row-text")).to_be_visible()
    expect(ann.page.locator("#end")).to_be_hidden()
    ann.page.click("#finish")
    expect(ann.page.locator("#end-title")).to_have_text("So far")
    # A row that nobody sees is neither answered nor skipped.
    before = study.state
    for key in ("1", "s", "n"):
        ann.page.keyboard.press(key)
    expect(ann.page.locator("#note-dialog")).to_be_hidden()
    expect(ann.page.locator("#skip")).to_be_disabled()
    after = study.state
    assert (after.moves, after.notes) == (before.moves, before.notes)
    ann.page.click("#go-on")
    expect(ann.page.locator("#row")).to_be_visible()


def test_rows_go_by_the_ids_of_their_table_and_downloads_by_its_name(at_a_page, tmp_path):
    path = tmp_path / "Kundenbriefe März.csv"
    said = texts(30)
    pl.DataFrame({"id": [f"K-{i + 100}" for i in range(30)], "text": said}).write_csv(path)
    ann, _ = at_a_page(gw.tables.Table(str(path), text="text"), ["good", "bad"])
    assert ann.page.inner_text("h1") == path.name
    name, text = ann.page.inner_text("#row-number"), ann.text
    row = said.index(text)
    assert name == f"id K-{row + 100}"
    assert ann.page.locator("#row-columns").is_hidden()
    ann.press("1")
    ann.saved(1)
    with ann.page.expect_download() as download:
        ann.page.click("#export")
    assert download.value.suggested_filename == "Kundenbriefe März-labels.csv"
    ann.page.click("nav a[href='/review']")
    ann.page.wait_for_selector("main[data-ready]")
    line = ann.page.locator(f"[data-row='{row}'] .small")
    expect(line).to_contain_text(name)
    # The time is that of the reader's clock.
    shown = ann.page.inner_text("time")
    local = ann.page.evaluate(
        "new Date(document.querySelector('time').dateTime)"
        ".toLocaleString([], {dateStyle: 'medium', timeStyle: 'short'})"
    )
    assert shown == local
    assert "UTC" not in line.inner_text()


def test_every_row_is_predicted_once_two_classes_have_answers(at_a_page):
    ann, _ = at_a_page(texts(60), ["good", "bad"])
    link = ann.page.locator("#predictions")
    expect(link).to_have_attribute("aria-disabled", "")
    for _ in range(20):
        ann.answer()
    ann.saved(20)
    with ann.page.expect_download() as download:
        link.click()
    found = pl.read_csv(download.value.path())
    right = (found["label"] == pl.Series([truth(text) for text in texts(60)])).mean()
    assert found["answered"].sum() == 20
    # 1.0 here: every word that decides is among the answers.
    assert right > 0.9


def test_classes_are_renamed_added_and_described_while_labelling(at_a_page):
    ann, study = at_a_page(texts(40), ["good", "bad"])
    first = ann.row
    ann.press("1")
    ann.saved(1)
    ann.page.click("#classes-button")
    ann.page.get_by_label("Name of good").fill("great")
    ann.page.get_by_label("Colour of good").fill("#1b9e77")
    ann.page.click("#classes-add")
    ann.page.get_by_label("Name of the new class").fill("so, so")
    ann.page.get_by_label("What belongs to it, of the new class").fill("Neither <b>nor</b>")
    ann.page.fill("#guide-edit", "In doubt, skip.")
    ann.page.keyboard.press("Tab")
    ann.page.click("#classes-dialog button.primary")
    expect(ann.page.locator("#classes-dialog")).to_be_hidden()
    expect(ann.page.locator("#guide-text")).to_have_text("In doubt, skip.")
    expect(ann.page.locator("#answers button span")).to_have_count(3)
    assert ann.page.get_attribute("#answers button:last-child", "title") == "Neither <b>nor</b>"
    row = ann.row
    ann.press("3")
    ann.saved(2)
    assert study.state.classes == ("great", "bad", "so, so")
    assert dict(study.state.labels) == {first: "great", row: "so, so"}
    border = "getComputedStyle(document.querySelector('#answers button')).borderInlineStartColor"
    assert ann.page.evaluate(border) == "rgb(27, 158, 119)"
    # Two classes cannot have one name, and the dialog says so.
    ann.page.click("#classes-button")
    ann.page.get_by_label("Name of bad").fill("great")
    ann.page.click("#classes-dialog button.primary")
    expect(ann.page.locator("#classes-problem")).to_contain_text("'great' already")
    ann.page.click("#classes-cancel")
    ann.errors.clear()  # the browser reports the refused request


def test_a_guess_is_shown_only_where_it_is_wanted_and_enter_takes_it(at_a_page):
    shy, _ = at_a_page(texts(40), ["good", "bad"])
    ann, study = at_a_page(texts(40), ["good", "bad"], guess=True)
    for person in (shy, ann):
        person.page.keyboard.press("Enter")  # there is none yet
        for _ in range(12):
            person.answer()
        person.saved(12)
    expect(shy.page.locator(".guess")).to_have_count(0)
    until(lambda: study.state.ranking is not None)
    ann.page.reload()
    ann.ready()
    guess = ann.page.locator("#answers button.guess")
    expect(guess).to_have_count(1)
    expect(guess.locator(".guessed")).to_contain_text("%")
    row, label = ann.row, guess.locator("span").first.inner_text()
    ann.press("Enter")
    ann.saved(13)
    assert study.state.labels[row] == label
    # Enter on a button is that button.
    before = ann.page.inner_text("#row-number")
    ann.page.focus("#why-button")
    ann.page.keyboard.press("Enter")
    expect(ann.page.locator("#why")).to_be_visible()
    assert ann.page.inner_text("#row-number") == before


@pytest.mark.parametrize("in_a_table", [True, False])
def test_rows_are_found_by_their_words_and_answered_there(at_a_page, tmp_path, in_a_table):
    said = [*texts(70), "a Witty essay, <i>found</i> late"]
    pool = said
    if in_a_table:
        pl.DataFrame({"text": said, "n": range(71)}).write_csv(tmp_path / "t.csv")
        pool = gw.tables.Table(str(tmp_path / "t.csv"), text="text")
    ann, study = at_a_page(pool, ["good", "bad"])
    study.tell(0, "bad", by="bo")
    ann.page.click("text=Search all rows")
    expect(ann.page.locator(".line")).to_have_count(50)
    expect(ann.page.locator(".head .soft")).to_contain_text("70 rows")
    ann.page.fill("input[name=search]", "witty ESSAY")
    with ann.page.expect_navigation():
        ann.page.keyboard.press("Enter")
    ann.page.wait_for_selector("main[data-ready]")
    expect(ann.page.locator(".line")).to_have_count(1)
    expect(ann.page.locator(".preview")).to_have_text(said[-1])
    ann.page.select_option(".line select", label="good")
    ann.page.wait_for_selector(".line.changed")
    assert study.state.labels[70] == "good"
    assert study.state.standings[70]["ann"].label == "good"


NUMBERS = {
    "20231118.0": "20231118.0",
    "1234567.89": "1234567.89",
    "12345.678901": "12345.6789…",
    "-12345.678901": "-12345.6789…",
    "0.1234567": "0.1234…",
    "-0.9999999": "-0.9999…",
    "0.0000123456789": "0.00001234…",
    "2.00019876": "2.0001987…",
    "0.25": "0.25",
    "-1.0625": "-1.0625",
    "0.00001": "0.00001",
    "0.000000": "0.000000",
    "1.23456789e-07": "1.23456789e-07",
    "12345678": "12345678",
}
"""As a table has them, and as the page shows them: whole, or without the last decimals."""


def test_long_numbers_are_cut_and_never_rounded(at_a_page, tmp_path):
    frame = pl.DataFrame({"text": texts(2)} | {number: [number] * 2 for number in NUMBERS})
    frame.write_parquet(tmp_path / "t.parquet")  # where a column of texts stays one
    ann, _ = at_a_page(gw.tables.Table(tmp_path / "t.parquet", text="text"), ["good", "bad"])
    cells = ann.page.locator("#row-facts dd")
    assert cells.all_inner_texts() == list(NUMBERS.values())
    cut = [number for number, shown in NUMBERS.items() if shown != number]
    assert ann.page.locator("#row-facts dd[title]").count() == len(cut)


def test_many_numbers_stand_in_a_grid_and_what_is_left_out_is_said(at_a_page, tmp_path):
    shown = {f"n{i}": [i + 1.23456789, 2.0, float(i)] for i in range(110)}
    frame = pl.DataFrame({"remark": ["as long as a line " * 40, "a b", "c d"], **shown})
    frame.write_csv(tmp_path / "t.csv")
    table = gw.tables.Table(str(tmp_path / "t.csv"), numeric=tuple(shown), alone=True)
    ann, _ = at_a_page(table, ["good", "bad"])
    while ann.row != 0:
        ann.press("1")
    cells = ann.page.locator("#row-facts dd")
    expect(cells).to_have_count(99)
    first = cells.first
    expect(first).to_have_text("1.2345…")
    expect(first).to_have_attribute("title", "1.23456789")
    expect(ann.page.locator("#row-columns dt")).to_have_text("remark")
    # The box goes on below its edge, until one has scrolled there.
    row = ann.page.locator("#row")
    expect(row).to_have_class(re.compile("more"))
    button = ann.page.get_by_role("button", name="Show all of it: 11 more columns, 1 long cell")
    button.click()
    expect(cells).to_have_count(110)
    expect(button).to_be_hidden()
    row.evaluate("box => { box.scrollTop = box.scrollHeight; }")
    expect(row).not_to_have_class(re.compile("more"))


def test_a_long_row_scrolls_by_keyboard(at_a_page):
    long = [f"{text} " + "and so it goes on and on. " * 400 for text in texts(10)]
    ann, _ = at_a_page(long, ["good", "bad"])
    ann.page.focus("#row")
    ann.page.keyboard.press("PageDown")
    ann.page.wait_for_function("() => document.getElementById('row').scrollTop > 0")


@pytest.mark.parametrize("address", [None, "http://desk.example.org:8321"])
def test_a_link_for_somebody_else_is_copied_and_says_what_it_needs(at_a_page, address):
    ann, _ = at_a_page(texts(10), ["good", "bad"], address=address)
    ann.context.grant_permissions(["clipboard-read", "clipboard-write"])
    ann.page.click("#who-button")
    ann.page.click("#who-invite")
    said = address or "on this computer only"
    expect(ann.page.locator("#who-reach")).to_contain_text(said)
    ann.page.click("#who-copy")
    expect(ann.page.locator("#who-copy")).to_have_text("Copied")
    link = ann.page.evaluate("navigator.clipboard.readText()")
    home = re.escape(address or "http://127.0.0.1:")
    assert re.fullmatch(rf"{home}\d*/start\?token=\S{{40,}}&who=ask", link)


def test_guesses_that_came_with_the_rows_are_shown_unless_hidden(at_a_page):
    said = ["good", "bad"] * 20
    ann, study = at_a_page(texts(40), ["good", "bad"], made={"guesses": said, "dev": 0})
    guess = ann.page.locator("#answers button.guess")
    expect(guess.locator(".guessed")).to_contain_text("50 %")
    row = ann.row
    assert guess.locator("span").first.inner_text() == said[row]
    ann.press("Enter")
    ann.saved(1)
    assert study.state.labels[row] == said[row]
    shy, _ = at_a_page(texts(40), ["good", "bad"], guess=False, made={"guesses": said, "dev": 0})
    expect(shy.page.locator(".guess")).to_have_count(0)
