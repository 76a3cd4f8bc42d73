"""Without arguments: a start page where a table is dropped or chosen, and what may be brought."""

import io
import re
import runpy
import sqlite3
import threading
from collections import Counter
from contextlib import closing, contextmanager
from pathlib import Path

import polars as pl
import pytest

import goalward as gw
from tests.conftest import need, some_heavy
from tests.studio.server.conftest import PATIENCE, TOKEN, app_of, texts, truth, until

need("fastapi")
need("playwright")

import uvicorn  # noqa: E402
from playwright.sync_api import expect  # noqa: E402
from starlette.testclient import TestClient  # noqa: E402

from goalward.studio.server import Auth, ServedStudy, create_app  # noqa: E402
from goalward.studio.server import new_study as new_studies  # noqa: E402
from goalward.studio.server.new_study import NewStudy  # noqa: E402
from goalward.studio.server.serve import listening, uvicorn_config  # noqa: E402
from goalward.studio.store import database  # noqa: E402
from goalward.studio.study import study as opens  # noqa: E402
from goalward.studio.tables.table import write_sample  # noqa: E402

ROOT = Path(__file__).parents[3]
UPLOAD = {"content-type": "application/octet-stream"}


@pytest.fixture
def new(tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    auth = Auth(TOKEN)
    return NewStudy(auth, lambda study: ServedStudy(study, auth, by="ann"), home)


@pytest.fixture
def client(new):
    headers = {"authorization": f"Bearer {TOKEN}"}
    with TestClient(
        create_app({}, new.auth, new=new), "http://127.0.0.1:8321", headers=headers
    ) as client:
        yield client


@contextmanager
def on_start_page(new, chromium):
    """Serve the start page; gives the browser's page."""
    listener = listening("127.0.0.1", 0)
    app = create_app({}, new.auth, new=new)
    server = uvicorn.Server(uvicorn_config(app, listener))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    until(lambda: server.started or not thread.is_alive())
    context = chromium.new_context(viewport={"width": 390, "height": 800}, accept_downloads=True)
    context.set_default_timeout(PATIENCE)
    page, errors = context.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    try:
        page.goto(f"http://127.0.0.1:{listener.getsockname()[1]}/start?token={new.auth.new_link()}")
        yield page
    finally:
        context.close()
        if app.state.served is not None:
            app.state.served.live.close()
        server.should_exit = True
        thread.join(timeout=120)
        listener.close()
    assert not errors


def bring(client, name, content):
    return client.post("/api/start/upload", params={"name": name}, content=content, headers=UPLOAD)


def test_a_dropped_table_becomes_a_study_and_answers_in_it_count(new, chromium, tmp_path):
    said = texts(30)
    given = [truth(text) if i < 6 else "" for i, text in enumerate(said)]
    path = tmp_path / "Käufe.csv"
    frame = pl.DataFrame({"id": range(30), "text": said, "label": given})
    frame.write_csv(path, separator=";")
    with on_start_page(new, chromium) as page:
        expect(page.locator("h1").first).to_have_text("What do you want to label?")
        page.set_input_files("#file", path)
        expect(page.locator("#study-title")).to_have_text("Käufe.csv")
        uses = page.locator("#columns select").evaluate_all("all => all.map(one => one.value)")
        assert uses == ["shown", "text", "answers"]
        assert page.input_value("#classes-text") == "bad\ngood"
        wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.evaluate(wide) <= 0
        # One sentence says what the model makes of it, the first rows are there, and columns are folded.
        expect(page.locator("#study-rows")).to_have_text(
            "30 rows: the model reads “text” and takes as given the answers in “label”."
        )
        assert page.locator("#preview th").all_inner_texts() == ["text", "label", "id"]
        assert page.locator("#preview td").first.inner_text() == said[0]
        expect(page.locator("#columns")).to_be_hidden()
        # By keyboard, with a class more; too few are refused in words.
        page.fill("#classes-text", "good")
        page.press("#begin", "Enter")
        expect(page.locator("#problem")).to_contain_text("two or more, each once")
        page.fill("#classes-text", "good\nbad\nneither, really")
        page.press("#begin", "Enter")
        expect(page.locator("h1.title")).to_have_text("Käufe.csv")
        expect(page.locator("#count")).to_have_text("6")
        assert page.locator("#answers button span").all_inner_texts()[2] == "neither, really"
    with gw.Study.open(new.folder / "Käufe.labels.db") as study:
        assert dict(study.state.labels) == dict(enumerate(given[:6]))
        assert study.state.classes == ("good", "bad", "neither, really")
    # Bytes as they came: the same table again is the same file.
    assert (new.folder / "Käufe.csv").read_bytes() == path.read_bytes()


def test_a_partly_filled_column_of_any_name_is_offered_as_answers(new, chromium):
    said = texts(40)
    given = [truth(text) if i < 12 else "" for i, text in enumerate(said)]
    second = [["x", "y"][i % 2] if i < 36 else None for i in range(40)]
    stars = [i % 5 for i in range(40)]
    frame = pl.DataFrame({"text": said, "Urteil": given, "check": second, "stars": stars})
    frame.write_csv(new.folder / "t.csv")
    with on_start_page(new, chromium) as page:
        page.click("text=t.csv")
        expect(page.locator("#study-title")).to_have_text("t.csv")
        uses = page.locator("#columns select").evaluate_all("all => all.map(one => one.value)")
        assert uses == ["text", "answers", "category", "numeric"]
        assert page.input_value("#classes-text") == "bad\ngood"
        # Another column instead, whose values then are the classes.
        page.click("#columns-fold > summary")
        page.select_option("#use-1", "shown")
        page.select_option("#use-2", "answers")
        assert page.input_value("#classes-text") == "x\ny"
        page.press("#begin", "Enter")
        expect(page.locator("#count")).to_have_text("36")
    with gw.Study.open(new.folder / "t.labels.db") as study:
        assert dict(study.state.labels) == dict(enumerate(second[:36]))
        assert (study.state.pool["numeric"], study.state.pool["category"]) == (["stars"], [])


LISTS = {
    '"yes, gladly",no': ("yes, gladly", "no"),
    ' no , " yes, gladly"': ("no", "yes, gladly"),
    '5" nails, 6" nails': ('5" nails', '6" nails'),
    '"yes"\n"no, never"': ('"yes"', '"no, never"'),
}


@pytest.mark.parametrize("written", LISTS)
def test_answers_in_a_line_are_split_at_commas_but_not_in_quotes(new, chromium, written):
    pl.DataFrame({"text": texts(8)}).write_csv(new.folder / "t.csv")
    with on_start_page(new, chromium) as page:
        page.click("text=t.csv")
        page.fill("#classes-text", written)
        page.press("#begin", "Enter")
        expect(page.locator("h1.title")).to_have_text("t.csv")
    with gw.Study.open(new.folder / "t.labels.db") as study:
        assert study.state.classes == LISTS[written]


def test_sixty_four_columns_take_a_screen_and_nothing_chosen_is_said(new, chromium):
    frame = pl.DataFrame({f"pixel {i}": [i % 7, 1 + i, 3 * i, 5] for i in range(64)})
    frame.with_columns(name=pl.Series(["one", "two", "three", "four"])).write_csv(
        new.folder / "t.csv"
    )
    with on_start_page(new, chromium) as page:
        page.click("text=t.csv")
        expect(page.locator("#study-rows")).to_contain_text(re.compile(r"learns from \d\d columns"))
        expect(page.locator("#preview-more")).to_have_text("and 59 more columns")
        height = "document.documentElement.scrollHeight"
        assert page.evaluate(height) < 1200
        page.click("#columns-fold > summary")
        expect(page.locator("#columns")).to_have_class(re.compile("more"))
        assert page.evaluate(height) < 1600
        # Without anything to learn from, the sentence says what to do.
        for use in page.locator("#columns select").all():
            use.select_option("shown")
        expect(page.locator("#study-rows")).to_contain_text("say below which columns")


def test_the_sheet_of_a_workbook_is_chosen(new, chromium):
    from tests.studio.tables.test_files import ANSWERED, COVER, workbook

    more = [("text", "n"), *((f"letter of {i}", i % 3) for i in range(20))]
    (new.folder / "t.xlsx").write_bytes(workbook(COVER, Answers=ANSWERED, Letters=more))
    with on_start_page(new, chromium) as page:
        page.click("text=t.xlsx")
        expect(page.locator("#sheet")).to_have_value("Answers")
        page.select_option("#sheet", "Letters")
        expect(page.locator("#study-rows")).to_contain_text("20 rows")
        expect(page.locator("#sheet")).to_have_value("Letters")
        page.fill("#classes-text", "a\nb")
        page.press("#begin", "Enter")
        expect(page.locator("h1.title")).to_have_text("t.xlsx")
        links = page.locator("[data-predictions]").first.get_attribute("data-predictions")
        assert links.endswith("/api/predictions?format=xlsx")
    with gw.Study.open(new.folder / "t.labels.db") as study:
        assert (study.n_rows, study.state.pool["sheet"]) == (20, "Letters")


def test_a_begun_table_goes_on_and_the_sample_is_a_click_away(new, chromium):
    pl.DataFrame({"text": texts(20)}).write_csv(new.folder / "films.csv")
    table = gw.tables.Table(str(new.folder / "films.csv"), text="text")
    with gw.Study.create(
        new.folder / "films.labels.db", pool=table, classes=["good", "bad"]
    ) as study:
        study.tell(3, "good")
    with on_start_page(new, chromium) as page:
        expect(page.locator("#sample")).to_be_visible()
        page.click("text=films.csv")
        expect(page.locator("#count")).to_have_text("1")
        # One server, one study.
        page.goto(page.url + "new")
        expect(page.locator("h1.title")).to_have_text("films.csv")


def test_the_sample_opens(client, new):
    assert client.get("/", follow_redirects=False).headers["location"] == "/new"
    assert client.post("/api/ask", json={"by": "ann"}).status_code == 409
    assert client.post("/api/start/sample", json={}).json() == {"path": "/"}
    assert client.get("/api/status").json()["rows"] == 252
    again = client.post("/api/start/sample", json={})
    assert again.status_code == 409
    assert "Reload" in again.json()["error"]


WRONG = {
    "one class": (b"text\ngood film\nbad film\n", ["objective, subjective"], {"text": "text"}),
    "no classes": (b"text\ngood film\nbad film\n", [], {"text": "text"}),
    "the same twice": (b"text\ngood film\nbad film\n", ["a", "a"], {"text": "text"}),
    "nothing to learn": (b"id,when\n1,2020-01-01\n2,2020-01-02\n", ["a", "b"], {}),
    "no words": (b"text,x\n!,1\n?,2\n", ["a", "b"], {"text": "text"}),
    "no numbers": (b"text,x\ngood,yes\nbad,no\n", ["a", "b"], {"x": "numeric"}),
    "another column": (b"text\ngood film\nbad film\n", ["a", "b"], {"tekst": "text"}),
    "no UTF-8": (b"text\n\x81\x8d\x8f\n", ["a", "b"], {"text": "text"}),
    "a cell more": (b"text,x\ngood,1\nbad,2,3\n", ["a", "b"], {"text": "text"}),
    "open quotes": (b'text,x\n"good,1\nbad,2\n', ["a", "b"], {"text": "text"}),
}


@pytest.mark.parametrize("wrong", some_heavy(WRONG, [*WRONG][3:]))
def test_the_page_says_what_is_wrong_in_words_of_its_own(client, wrong):
    content, classes, uses = WRONG[wrong]
    chosen = bring(client, "t.csv", content).json()
    done = client.post("/api/start/look", json=chosen)
    if done.status_code == 200:
        done = client.post("/api/start/study", json={**chosen, "classes": classes, "uses": uses})
    assert done.status_code == 422, done.text
    said = done.json()["error"]
    # No option of the command line, no argument of Python.
    assert not re.search(r"--\w|\w=|\[", said), said


def test_a_study_that_another_program_holds_answers_within_seconds(client, new, monkeypatch):
    pl.DataFrame({"text": texts(20)}).write_csv(new.folder / "films.csv")
    place, chosen = new.folder / "films.labels.db", {"table": 0, "classes": [], "uses": {}}
    table = gw.tables.Table(new.folder / "films.csv", text="text")
    gw.Study.create(place, pool=table, classes=["good", "bad"]).close()
    new.tables()
    # The page gives up after 15.
    assert opens.WAIT <= 5
    monkeypatch.setattr(opens, "WAIT", 0.5)
    waited = []
    opened = lambda *args, timeout=30.0, **options: (
        waited.append(timeout) or real(*args, timeout=timeout, **options)
    )
    real = database.opened
    monkeypatch.setattr(database, "opened", opened)
    with closing(sqlite3.connect(place, isolation_level=None)) as held:
        held.execute("BEGIN EXCLUSIVE")
        assert client.post("/api/start/study", json=chosen).status_code == 503
        held.execute("COMMIT")
        assert client.post("/api/start/study", json=chosen).status_code == 200
        row = client.post("/api/ask", json={"by": "ann"}).json()["next"][0]["row"]
        held.execute("BEGIN EXCLUSIVE")
        body = {"by": "ann", "row": row, "label": "good"}
        assert client.post("/api/tell", json=body).status_code == 503
        held.execute("COMMIT")
        assert client.post("/api/tell", json=body).status_code == 200
    assert set(waited) == {0.5}


@pytest.mark.parametrize(
    "name",
    ["../../evil.csv", "..\\evil.csv", "/etc/evil.csv", ".hidden.csv", "a\0b.csv", "%2e%2e.csv"],
)
@pytest.mark.attack("uploads: foreign, endless, with odd names")
def test_uploads_stay_in_their_folder_whatever_their_name(client, new, name):
    done = bring(client, name, b"text\nsome words here\nand others\n")
    assert done.status_code == 200, done.text
    (found,) = new.folder.iterdir()
    assert found.suffix == ".csv"
    assert not found.name.startswith(".")
    assert len(list(new.folder.parent.iterdir())) == 1


@pytest.mark.attack("uploads: foreign, endless, with odd names")
def test_uploads_are_bounded_and_leave_nothing_behind(client, new, monkeypatch):
    monkeypatch.setattr(new, "_room", 1000)
    done = bring(client, "large.csv", b"text\n" + b"word " * 1000)
    assert done.status_code == 422
    assert "must be smaller than" in done.json()["error"]
    # What was refused takes no room from those after it.
    assert new._room == 1000
    for name in ("x.exe", "pictures/x.exe", "x.png"):
        assert bring(client, name, b"MZ").status_code == 422
    assert not list(new.folder.iterdir())
    # One that cannot be read is said when it is looked at.
    empty = bring(client, "y.csv", b"").json()
    assert client.post("/api/start/look", json=empty).status_code == 422
    assert new_studies.LARGEST == 2**30


def test_the_same_file_is_not_kept_twice_and_another_of_its_name_is_not_overwritten(client, new):
    first, second = b"text\none film\ntwo films\n", b"text\nthree plays\nfour plays\n"
    (new.folder / "t.csv").write_bytes(first)
    for content, name in ((first, "t.csv"), (second, "2-t.csv")):
        chosen = bring(client, "t.csv", content).json()
        assert client.post("/api/start/look", json=chosen).json()["name"] == name
    assert (new.folder / "t.csv").read_bytes() == first
    assert sorted(path.name for path in new.folder.iterdir()) == ["2-t.csv", "t.csv"]


@pytest.mark.attack("uploads: foreign, endless, with odd names")
def test_only_our_own_page_brings_files(client, new, study):
    table = b"text\none film\n"
    foreign = {**UPLOAD, "origin": "http://evil.example"}
    ask = {"params": {"name": "t.csv"}, "content": table}
    assert client.post("/api/start/upload", **ask, headers=foreign).status_code == 403
    assert (
        client.post("/api/start/upload", **ask, headers={"content-type": "text/plain"}).status_code
        == 415
    )
    anybody = {**UPLOAD, "authorization": ""}
    assert client.post("/api/start/upload", **ask, headers=anybody).status_code == 401
    assert not list(new.folder.iterdir())
    # A server with a study takes none.
    served = ServedStudy(study, Auth(TOKEN))
    with TestClient(app_of(served), "http://127.0.0.1:1") as other:
        headers = {**UPLOAD, "authorization": f"Bearer {TOKEN}"}
        assert other.post("/api/start/upload", **ask, headers=headers).status_code == 415


def test_subfolders_of_pictures_are_the_first_answers(client, new):
    need("PIL")
    from PIL import Image

    for i, place in enumerate(["owls/1.png", "owls/2.png", "wrens/3.png", "4.png", "5.png"]):
        Image.new("RGB", (8, 8), (40 * i, 20, 30)).save(picture := io.BytesIO(), "PNG")
        chosen = bring(client, f"birds/{place}", picture.getvalue()).json()
    found = client.post("/api/start/look", json=chosen).json()
    assert found["classes"] == ["owls", "wrens"]
    uses = {one["name"]: one["use"] for one in found["columns"]}
    assert uses == {"picture": "image", "folder": "answers"}
    body = {**chosen, "classes": found["classes"], "uses": uses}
    assert client.post("/api/start/study", json=body).status_code == 200
    assert client.get("/api/status").json()["labels"] == 3
    assert client.get("/new", follow_redirects=False).headers["location"] == "/"


def test_columns_and_tables_that_do_not_fit_are_said(client, new):
    pl.DataFrame({"a": ["x y z"] * 4, "b": ["p q r"] * 4}).write_csv(new.folder / "t.csv")
    client.get("/new")
    body = {"table": 0, "classes": ["a", "b"], "uses": {"a": "answers", "b": "answers"}}
    assert "At most one column" in client.post("/api/start/study", json=body).json()["error"]
    assert "no table 7" in client.post("/api/start/look", json={"table": 7}).json()["error"]
    wrong = body | {"uses": {"c": "text"}}
    assert "'c' is not in" in client.post("/api/start/study", json=wrong).json()["error"]
    assert [path.name for path in new.folder.iterdir()] == ["t.csv"]


@pytest.mark.attack("tables made to fill a memory")
def test_a_table_made_to_harm_is_refused_and_the_server_goes_on(client, new):
    from tests.studio.tables.test_files import LYING

    for name in ("far.xlsx", "bomb.csv.gz"):
        chosen = bring(client, name, LYING[name][0]()).json()
        for path, more in (("look", {}), ("study", {"classes": ["a", "b"], "uses": {}})):
            done = client.post(f"/api/start/{path}", json={**chosen, **more})
            assert done.status_code == 422
            assert "cells or bytes" in done.json()["error"]
    assert client.get("/new").status_code == 200


def test_the_pictures_of_the_page_answer_the_sample_right(tmp_path):
    about = runpy.run_path(str(ROOT / "scripts" / "page_pictures.py"))["label"]
    said = Counter(map(about, pl.read_csv(write_sample(tmp_path))["text"]))
    assert said == {"roads": 64, "waste": 64, "noise": 64, "parks": 60}
