"""The page in a real browser, by keyboard."""

import csv
import io
import re
import threading

import pytest

import goalward as gw
from tests.conftest import need
from tests.studio.server.conftest import PATIENCE, TOKEN, running, truth, until

need("fastapi")
need("playwright")

from playwright.sync_api import expect  # noqa: E402

KEYS = {"good": "1", "bad": "2"}
SHOWN = "document.getElementById('row-number').textContent"


class Person:
    """Somebody at a page, with a name and a keyboard."""

    def __init__(self, browser, address, served, name=None, **options):
        self.context = browser.new_context(**options)
        self.context.set_default_timeout(PATIENCE)
        self.page = self.context.new_page()
        self.errors = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda m: m.type == "error" and self.errors.append(m.text))
        self.page.goto(f"{address}/start?token={served.auth.new_link()}")
        if name:
            self.page.click("#who-button")
            self.page.fill("#who-input", name)
            self.page.keyboard.press("Enter")
            self.page.wait_for_function(
                "name => document.getElementById('who-name').textContent === name", arg=name
            )
        self.ready()

    def ready(self):
        self.page.wait_for_function(f"() => {SHOWN} !== ''")

    @property
    def row(self):
        return int(self.page.inner_text("#row-number").split()[1])

    @property
    def text(self):
        return self.page.inner_text("#row-text")

    def press(self, key):
        """Press a key and wait until another row is shown."""
        before = self.page.inner_text("#row-number")
        self.page.keyboard.press(key)
        self.page.wait_for_function(f"old => {SHOWN} !== old && {SHOWN} !== ''", arg=before)

    def answer(self):
        row, label = self.row, truth(self.text)
        self.press(KEYS[label])
        return row, label

    def saved(self, labels):
        self.page.wait_for_function(
            "n => document.getElementById('count').textContent === String(n)", arg=labels
        )


@pytest.fixture
def sit(chromium, served, address):
    """Sit down at the page; contexts are closed and nobody may have seen an error."""
    people = []

    def down(name=None, **options):
        people.append(Person(chromium, address, served, name, **options))
        return people[-1]

    yield down
    for person in people:
        person.context.close()
        assert not person.errors


def test_thirty_rows_by_keyboard_with_undo_and_a_reload_midway(sit, study):
    ann = sit()
    assert "token" not in ann.page.url
    said = {}
    for step in range(30):
        row, label = ann.answer()
        said[row] = label
        if step == 10:
            # A mistake: undone, and answered again.
            ann.press("u")
            assert ann.row == row
            ann.answer()
        if step == 15:
            ann.saved(16)
            shown = ann.row
            ann.page.reload()
            ann.ready()
            assert ann.row == shown
    ann.saved(30)
    assert dict(study.state.labels) == said
    with ann.page.expect_download() as download:
        ann.page.click("#export")
    lines = csv.DictReader(io.StringIO(download.value.path().read_text()))
    assert {int(line["row"]): line["label"] for line in lines} == said


HELD = """() => {
    const { fetch } = window, once = (name) => new Promise((open) => { window[name] = open; });
    window.fetch = async (...request) => {
        if (request[0].endsWith('/api/tell') && !window.tell) await once('tell');
        const reply = await fetch(...request);
        if (request[0].endsWith('/api/ask') && !window.ask) await once('ask');
        return reply;
    };
}"""


def test_a_late_reply_does_not_bring_back_a_row_that_was_saved_meanwhile(sit, study):
    ann = sit()
    ann.page.evaluate(HELD)
    first, _ = ann.answer()
    second, _ = ann.answer()
    # The second was not sent yet: it is taken back, and the rows in hand are asked for, with the first.
    ann.page.keyboard.press("u")
    ann.page.wait_for_function("() => window.ask")
    ann.page.evaluate("() => window.tell()")
    ann.page.wait_for_function(f"row => {SHOWN}.split(' ')[1] === String(row)", arg=second)
    ann.page.evaluate("() => window.ask()")
    rows = [ann.answer()[0] for _ in range(3)]
    assert rows[0] == second
    ann.saved(4)
    assert set(study.state.labels) == {first, *rows}


def test_skip_note_and_undo_after_a_reload(sit, study):
    ann = sit()
    row = ann.row
    ann.page.keyboard.press("n")
    # Digits go into the note, not into the study.
    ann.page.keyboard.type("1 of 2: unclear")
    ann.page.keyboard.press("Tab")
    ann.page.keyboard.press("Tab")
    ann.page.keyboard.press("Enter")
    ann.page.wait_for_selector("#row-notes li")
    assert [n.text for n in study.state.notes[row]] == ["1 of 2: unclear"]
    ann.press("s")
    ann.page.wait_for_function("() => document.getElementById('saved').textContent === 'Skipped.'")
    assert row in study.state.skipped
    ann.page.reload()
    ann.ready()
    ann.press("u")
    assert ann.row == row
    assert not study.state.skipped


@pytest.mark.attack("people at once, in Chromium")
def test_two_people_at_once_never_get_the_same_row(sit, study, tried):
    ann, bo = sit("ann b."), sit("bo")
    seen = {"ann": set(), "bo": set()}
    for _ in range(10):
        for name, person in (("ann", ann), ("bo", bo)):
            row, _ = person.answer()
            seen[name].add(row)
    assert not seen["ann"] & seen["bo"]
    ann.saved(20)
    bo.saved(20)
    assert study.state.annotators == ("ann b.", "bo")
    tried(2)


POINTS = "document.querySelector('[data-chart=learning] .readout').textContent"


def test_charts_are_never_blank_and_say_their_values(sit, study):
    ann = sit(viewport={"width": 1360, "height": 1200})
    for _ in range(30):
        ann.answer()
    ann.page.wait_for_function(f"() => {POINTS}.includes('% right')")
    # From now on, whatever is drawn anew, no frame is without a chart.
    ann.page.evaluate("""() => {
        window.blank = 0;
        const look = () => {
            const canvas = document.querySelector('[data-chart=learning] canvas');
            const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
            if (!data.some(Boolean)) window.blank += 1;
            requestAnimationFrame(look);
        };
        look();
    }""")
    first = ann.page.evaluate(POINTS)
    for _ in range(20):
        ann.answer()
    ann.page.wait_for_function(f"old => {POINTS} !== old", arg=first)
    assert ann.page.evaluate("window.blank") == 0
    # A point under the pointer, and by arrow keys; the newest again when one leaves.
    until(lambda: not study.due())
    ann.saved(50)
    told = [r["bought"] for r in study.curve() if r["accuracy"] is not None]
    newest = told[-1]
    ann.page.wait_for_function(f"n => {POINTS}.startsWith(n)", arg=f"{newest} ")
    ann.page.hover("[data-chart=learning] .u-over", position={"x": 2, "y": 20})
    expect(ann.page.locator("[data-chart=learning] .readout")).to_contain_text(f"{told[0]} answers")
    ann.page.hover("#headline")
    ann.page.focus("[data-chart=learning] .plot")
    ann.page.keyboard.press("ArrowLeft")
    expect(ann.page.locator("[data-chart=learning] .readout")).to_contain_text(f"{newest} answers")
    ann.page.keyboard.press("ArrowLeft")
    ann.page.wait_for_function(f"n => !{POINTS}.startsWith(n)", arg=f"{newest} ")
    label = ann.page.get_attribute("[data-chart=learning] .plot", "aria-label")
    assert ann.page.evaluate(POINTS) in label
    # The others are among the details; they have room when these are opened.
    ann.page.click("#details > summary")
    for name in ("goal", "scores"):
        wide = f"document.querySelector('[data-chart={name}] canvas').clientWidth"
        ann.page.wait_for_function(f"() => {wide} > 200")


def test_how_good_it_is_stands_large_and_the_price_among_the_details(sit, study):
    for _ in range(8):
        for row in study.ask(10, by="ann"):
            study.tell(row, truth(study.show(row)["text"]), by="ann")
        study.refresh()
    ann = sit()
    # One sentence stands large; what it rests on is among the details, and closed.
    said = study.status()["headline"]
    assert "% right (" in said
    expect(ann.page.locator("#headline")).to_have_text(said)
    expect(ann.page.locator("#advice")).to_be_hidden()
    ann.page.click("#details > summary")
    expect(ann.page.locator("#gain")).not_to_have_text("–")
    ann.page.fill("#price", "1000")
    ann.page.keyboard.press("Tab")
    ann.page.wait_for_selector("#stop.ends")
    expect(ann.page.locator("#advice")).to_contain_text("You could stop now")
    expect(ann.page.locator("#account")).to_contain_text("At the last fit: 80 answers")
    expect(ann.page.locator("#rules summary")).to_contain_text("rules say stop")
    ann.page.click("#rules summary")
    expect(ann.page.locator("#rules-list li")).to_have_count(2)
    ann.page.click("#advice")
    ann.page.keyboard.press("w")
    # Three sentences: what the model makes of it, why it is asked, and which words decide.
    ann.page.wait_for_selector("#why-words[data-whole]")
    reasons = ann.page.inner_text("#why-words")
    likeliest = re.match(r"The model takes it for “(good|bad)” \(\d+ %\)", reasons)[1]
    assert re.search(rf"“\w+”.* for “{likeliest}”.*\.$", reasons), reasons
    assert re.search("so your answer teaches it something|the row was picked for|No model", reasons)
    assert not re.search("“(a|by)”", reasons)
    expect(ann.page.locator("#why-labels")).to_be_hidden()
    ann.page.click("#why-details summary")
    likely = ann.page.locator("#why-labels .effect")
    expect(likely).to_have_count(2)
    # Words that speak for one label speak against the other, by their signs too.
    good, bad = (set(likely.nth(k).locator("li").all_inner_texts()) for k in (0, 1))
    assert good
    assert good == {said.translate({ord("▲"): "▼", ord("▼"): "▲"}) for said in bad}
    expect(ann.page.locator("#why-changes .effect")).to_have_count(2)


def test_a_fit_that_fails_is_said_on_the_page_until_one_succeeds(sit, study, monkeypatch):
    fit, room = study.refresh, threading.Event()

    def refresh(**options):
        if not room.is_set():
            raise MemoryError("no room for the inverse")
        return fit(**options)

    monkeypatch.setattr(study, "refresh", refresh)
    ann = sit()
    for _ in range(8):
        ann.answer()
    trouble = ann.page.locator("#trouble")
    expect(trouble).to_contain_text("no room for the inverse")
    expect(trouble).to_contain_text("All answers are saved")
    room.set()
    ann.answer()
    expect(trouble).to_be_hidden()
    expect(ann.page.locator("#charts")).to_be_visible()
    ann.saved(9)


@pytest.mark.attack("server gone while people answer")
def test_answers_are_kept_and_sent_when_the_server_comes_back(sit, study):
    ann = sit()
    ann.page.route("**/api/tell", lambda route: route.abort())
    row, label = ann.row, truth(ann.text)
    ann.press(KEYS[label])
    expect(ann.page.locator("#saved.waiting")).to_contain_text("Not saved yet: 1")
    assert row not in study.state.labels
    ann.page.unroute("**/api/tell")
    ann.saved(1)
    assert study.state.labels[row] == label
    ann.page.wait_for_selector("#saved:not(.waiting)")
    # The same through a reload, which the browser asks about first.
    ann.page.route("**/api/tell", lambda route: route.fulfill(status=507, json={"error": "full"}))
    row, label = ann.row, truth(ann.text)
    ann.press(KEYS[label])
    ann.page.wait_for_selector("#saved.waiting")
    expect(ann.page.locator("#problem")).to_contain_text("full")
    ann.page.unroute("**/api/tell")
    ann.page.on("dialog", lambda dialog: dialog.accept())
    ann.page.reload()
    ann.ready()
    ann.saved(2)
    assert study.state.labels[row] == label
    ann.errors.clear()  # the browser reports the failed requests


def test_it_works_with_the_tab_key_alone_and_says_what_everything_is(sit, study):
    ann = sit()
    reached = []
    for _ in range(40):
        ann.page.keyboard.press("Tab")
        found = ann.page.evaluate(
            "(() => { const e = document.activeElement, s = getComputedStyle(e);"
            "return [e.id || e.textContent.trim(), s.outlineStyle !== 'none', e.tagName]; })()"
        )
        if found[2] == "BODY" or found[0] in reached:
            break
        assert found[1], f"{found[0]} shows no focus"
        reached.append(found[0])
    for place in ("help-button", "who-button", "undo", "skip", "note", "why-button", "export"):
        assert place in reached
    assert "1good" in reached
    tree = ann.page.locator("body").aria_snapshot()
    for name in (
        'button "good"',
        'button "bad"',
        'button "Undo"',
        'button "Skip"',
        'group "Answers"',
        'navigation "Pages"',
        'complementary "How it goes"',
        'list "Labels per class"',
        'link "CSV"',
        'heading "labels.db" [level=1]',
    ):
        assert name in tree
    assert ann.page.get_attribute("#row", "aria-live") == "polite"
    ann.page.keyboard.press("?")
    expect(ann.page.locator("#help")).to_be_visible()
    ann.page.uncheck("#keys-on")
    ann.page.keyboard.press("Escape")
    expect(ann.page.locator("#help")).to_be_hidden()
    row = ann.row
    ann.page.keyboard.press("1")
    assert ann.row == row
    assert not study.state.labels
    ann.page.focus("#answers button")
    ann.page.keyboard.press("Enter")
    ann.saved(1)
    assert study.state.labels == {row: "good"}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_all_of_it_without_scrolling_sideways(sit, scheme):
    ann = sit(viewport={"width": 360, "height": 740}, color_scheme=scheme, has_touch=True)
    for path in ("/", "/review", "/docs"):
        ann.page.goto(re.sub(r"(//[^/]+).*", rf"\1{path}", ann.page.url))
        wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert ann.page.evaluate(wide) <= 0
    paper = ann.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(246, 247, 249)") == (scheme == "light")


def test_reviewing_corrects_and_takes_back(sit, study):
    ann = sit()
    said = [ann.answer() for _ in range(4)]
    ann.saved(4)
    ann.page.click("nav a[href='/review']")
    ann.page.wait_for_selector("main[data-ready]")
    row, label = said[0]
    other = "bad" if label == "good" else "good"
    ann.page.select_option(f"[data-row='{row}'] select", label=other)
    ann.page.wait_for_selector(f"[data-row='{row}'].changed")
    assert study.state.labels[row] == other
    last = said[-1][0]
    ann.page.click(f"[data-row='{last}'] button")
    ann.page.wait_for_selector(f"[data-row='{last}'].gone")
    assert last not in study.state.labels
    ann.page.select_option("select[name=label]", label=other)
    with ann.page.expect_navigation():
        ann.page.click(".filters button")
    found = ann.page.locator(".line").evaluate_all("all => all.map(e => Number(e.dataset.row))")
    assert set(found) == {r for r, known in study.state.labels.items() if known == other}


def test_many_rows_that_the_model_is_sure_of_are_accepted_at_once(sit, study, monkeypatch):
    from goalward.studio.study import ranking

    monkeypatch.setattr(ranking, "SURE", 0.5)
    for row in study.ask(40, by="bo"):
        study.tell(row, truth(study.show(row)["text"]), by="bo")
    study.refresh()
    known = dict(study.state.labels)
    ann = sit()
    ann.page.click("#sure")
    ann.page.wait_for_selector("main[data-ready]")
    lines = ann.page.locator(".line")
    rows = lines.evaluate_all("all => all.map(one => Number(one.dataset.row))")
    assert len(rows) >= 20
    assert not known.keys() & set(rows)
    assert not any(study.state.settings.is_dev(rows)), "rows that measure are not accepted"
    # One is wrong, of another the answer is given: neither is accepted.
    lines.nth(0).get_by_role("checkbox").uncheck()
    lines.nth(1).locator("select").select_option(label="bad")
    expect(lines.nth(1).get_by_role("checkbox")).to_be_disabled()
    left = len(rows) - 2
    ann.page.get_by_role("button", name=f"Accept {left} rows").click()
    expect(ann.page.locator("#saved")).to_have_text(f"{left} rows were accepted.")
    given = {row: label for row, label in study.state.labels.items() if row not in known}
    assert sorted(given) == sorted(rows[1:])
    assert given[rows[1]] == "bad"
    assert all(study.state.standings[row]["ann"].label == given[row] for row in rows[1:])
    # Each can be taken back, and the next ones follow.
    expect(lines.nth(2).get_by_role("button", name="Take back")).to_be_visible()
    ann.page.click("#accept-next")
    ann.page.wait_for_selector("main[data-ready]")
    again = lines.evaluate_all("all => all.map(one => Number(one.dataset.row))")
    assert not given.keys() & set(again)


def test_only_ones_own_answers_can_be_taken_back(sit, study):
    study.tell(3, "good", by="ann")
    study.tell(4, "good", by="bo")
    ann = sit()
    ann.page.click("nav a[href='/review']")
    ann.page.wait_for_selector("main[data-ready]")
    mine, theirs = (ann.page.locator(f"[data-row='{row}']") for row in (3, 4))
    expect(mine.get_by_role("button")).to_be_visible()
    expect(theirs.get_by_role("button")).to_be_hidden()
    # An answer of one's own beside another's can be taken back again; the other's stays.
    theirs.locator("select").select_option(label="bad")
    theirs.get_by_role("button").click()
    expect(ann.page.locator("#saved")).to_have_text("Your answer to Row 4 was taken back.")
    expect(theirs.get_by_role("button")).to_be_hidden()
    assert {by: said.label for by, said in study.state.standings[4].items()} == {"bo": "good"}
    # Taken back elsewhere meanwhile: it is said, not done twice.
    study.withdraw(3, by="ann")
    mine.get_by_role("button").click()
    expect(ann.page.locator("#saved")).to_contain_text("ann has no answer to row 3")
    assert not mine.evaluate("line => line.classList.contains('gone')")
    # Another name has other answers.
    ann.page.click("#who-button")
    ann.page.fill("#who-input", "bo")
    ann.page.keyboard.press("Enter")
    expect(theirs.get_by_role("button")).to_be_visible()
    expect(mine.get_by_role("button")).to_be_hidden()
    ann.errors.clear()  # the browser reports the refused request


def test_nothing_is_loaded_from_elsewhere(sit, address):
    ann = sit()
    asked = []
    ann.page.on("request", lambda request: asked.append(request.url))
    for path in ("/", "/review", "/docs"):
        ann.page.goto(address + path)
    assert asked
    assert all(url.startswith(f"{address}/") for url in asked)


PAYLOADS = [
    "<script>window.xss = 1</script>",
    "<img src=x onerror=window.xss=1>",
    "<svg/onload=window.xss=1>",
    '"><script>window.xss=1</script>',
    "'><img src=x onerror=window.xss=1>",
    "javascript:window.xss=1",
    "<a href='javascript:window.xss=1' autofocus onfocus=window.xss=1>x</a>",
    "</textarea></dialog><script>window.xss=1</script>",
    "{{constructor.constructor('window.xss=1')()}}",
    "<iframe srcdoc='<script>parent.xss=1</script>'>",
    "\u202e<script>window.xss=1</script>\u2066",
    "&lt;script&gt;window.xss=1&lt;/script&gt;",
]


@pytest.mark.attack("scripts in texts, names, classes and notes, in Chromium")
def test_hostile_texts_names_and_classes_do_nothing(chromium, tmp_path, tried):
    from goalward.studio.server.auth import Auth
    from goalward.studio.server.served_study import ServedStudy

    pool = [f"{text} number {i}" for i, text in enumerate(PAYLOADS * 2)]
    with gw.Study.create(tmp_path / "x.db", pool=pool, classes=PAYLOADS[:4], dev=0.3) as study:
        served = ServedStudy(study, Auth(TOKEN), by=PAYLOADS[4])
        for row in range(20):
            study.tell(row, PAYLOADS[row % 4], by=PAYLOADS[row % 5])
            study.note(row, PAYLOADS[row % len(PAYLOADS)], by=PAYLOADS[0])
        with running(served) as address:
            eve = Person(chromium, address, served)
            for _ in range(3):
                text = eve.page.text_content("#row-text")
                assert text == pool[eve.row]
                eve.page.keyboard.press("w")
                eve.page.wait_for_selector("#why-words[data-whole]")
                eve.press("1")
            # The browser would ask before it leaves answers unsaved.
            eve.saved(23)
            eve.page.goto(f"{address}/review")
            eve.page.wait_for_selector("main[data-ready]")
            assert eve.page.locator(".line").count() >= 20
            assert eve.page.evaluate("window.xss") is None
            # And if something got in, the policy would stop it.
            eve.page.evaluate(
                "(() => { const s = document.createElement('script'); s.textContent = 'window.xss = 9';"
                "document.body.append(s); })()"
            )
            assert eve.page.evaluate("window.xss") is None
            eve.context.close()
    tried(len(pool))


def test_two_tabs_of_one_person_tell_each_other(sit, study):
    ann = sit()
    other = ann.context.new_page()
    other.on("pageerror", lambda error: ann.errors.append(str(error)))
    other.goto(ann.page.url)
    for page in (ann.page, other):
        expect(page.locator("#tabs")).to_be_visible()
    shown = ann.page.inner_text("#row-number")
    expect(other.locator("#row-number")).to_have_text(shown)
    # What is answered in one is gone from the other, where the next row is asked.
    ann.page.keyboard.press("1")
    expect(other.locator("#row-number")).not_to_have_text(shown)
    until(lambda: ann.page.inner_text("#row-number") == other.inner_text("#row-number") != shown)
    # Undone in the other, it is back there, and nobody's row changes under their eyes.
    ann.saved(1)
    other.keyboard.press("u")
    expect(other.locator("#row-number")).to_have_text(shown)
    ann.page.reload()
    expect(ann.page.locator("#row-number")).to_have_text(shown)
    # An answer that one cannot send stays its own, and is not asked again in the other meanwhile.
    ann.page.route("**/api/tell", lambda route: route.abort())
    ann.page.keyboard.press("1")
    expect(ann.page.locator("#saved.waiting")).to_contain_text("Not saved yet: 1")
    expect(other.locator("#row-number")).not_to_have_text(shown)
    other.reload()
    expect(other.locator("#row-number")).to_have_text(re.compile("Row"))
    expect(other.locator("#row-number")).not_to_have_text(shown)
    assert not study.state.labels
    # A tab that is closed leaves it to the next one.
    ann.page.close()
    expect(other.locator("#tabs")).to_be_hidden()
    third = ann.context.new_page()
    third.goto(other.url)
    expect(third.locator("#count")).to_have_text("1")
    assert len(study.state.labels) == 1
    ann.errors.clear()  # the browser reports the failed requests
