"""The interface: what a program sees."""

import io
import json
import struct
import zlib

import polars as pl
import pytest

import goalward as gw
from goalward.errors import BadParameter, Locked, NotWritten
from tests.conftest import need
from tests.studio.server.conftest import TOKEN, app_of, texts, truth, until, written

need("fastapi")

HOSTILE = [
    "<script>window.xss = 1</script>",
    "<img src=x onerror='window.xss=1'>",
    "\u202egnp.exe\u202c right to left",
    "=1+1",
    "@SUM(A1)",
    "tab\there\nand line",
    "x" * 1_000_000,
    "emoji 👩‍👩‍👧 and \u0000 zero",
    "{{ 7*7 }} {% raw %}",
    "';alert(1)//\"",
]


def told(client, n, by="ann"):
    rows = client.post("/api/ask", json={"by": by, "n": 3}).json()["next"]
    for _ in range(n):
        answer = {"by": by, "row": rows[0]["row"], "label": truth(rows[0]["text"])}
        done = client.post("/api/tell", json=answer)
        assert done.status_code == 200, done.text
        rows = done.json()["next"]
    return rows


def waited(client, check):
    seen = []

    def holds():
        seen.append(client.get("/api/status").json())
        return check(seen[-1])

    until(holds)
    return seen[-1]


def test_ask_tell_undo_skip_note(client, study):
    rows = client.post("/api/ask", json={"by": "ann", "n": 3}).json()["next"]
    assert len(rows) == 3
    first = rows[0]["row"]
    done = client.post("/api/tell", json={"by": "ann", "row": first, "label": "good"}).json()
    assert study.state.labels[first] == "good"
    assert [r["row"] for r in done["next"]][:2] == [r["row"] for r in rows[1:]]
    again = client.post("/api/tell", json={"by": "ann", "row": first, "label": "good"}).json()
    assert again["seq"] == done["seq"]
    undone = client.post("/api/undo", json={"by": "ann"}).json()
    assert undone["row"] == first == undone["next"][0]["row"]
    assert first not in study.state.labels
    client.post("/api/skip", json={"by": "ann", "row": first})
    assert first in study.state.skipped
    noted = client.post("/api/note", json={"by": "ann", "row": first, "text": "odd"}).json()
    assert noted["notes"] == [{"by": "ann", "text": "odd"}]
    client.post("/api/withdraw", json={"by": "ann", "row": first})
    assert first not in study.state.skipped
    assert client.post("/api/undo", json={"by": "nobody"}).json()["row"] is None


def test_notes_are_short_and_a_reply_has_the_newest(client, study):
    long = {"by": "ann", "row": 0, "text": "x" * 2001}
    refused = client.post("/api/note", json=long)
    assert refused.status_code == 422
    assert "at most 2000" in refused.json()["error"]
    with pytest.raises(BadParameter, match="at most 2000"):
        study.note(0, "x" * 2001)
    for n in range(45):
        study.note(0, f"note {n}", by="ann")
    for page, numbers in enumerate((range(25, 45), range(5, 25), range(5), ())):
        found = client.get(f"/api/rows/0?notes={page}").json()
        assert [one["text"] for one in found["notes"]] == [f"note {n}" for n in numbers]
        assert found["n_notes"] == 45
    study.tell(0, "good")
    assert len(client.get("/api/answers").json()["rows"][0]["notes"]) == 20
    assert "25 earlier notes" in client.get("/review").text


def test_only_ones_own_answer_can_be_taken_back(client, study):
    study.tell(7, "good", by="ann")
    study.skip(8, by="ann")
    before = written(study)
    for row in (7, 8):
        done = client.post("/api/withdraw", json={"by": "bo", "row": row})
        assert done.status_code == 409
        assert done.json()["error"].startswith(f"bo has no answer to row {row} to take back.")
    assert client.post("/api/withdraw", json={"by": "bo", "row": 9}).status_code == 409
    assert written(study) == before
    assert study.state.labels == {7: "good"}
    # One's own, once; and a question that is in hand.
    assert client.post("/api/withdraw", json={"by": "ann", "row": 7}).status_code == 200
    assert client.post("/api/withdraw", json={"by": "ann", "row": 7}).status_code == 409
    held = client.post("/api/ask", json={"by": "bo", "n": 1}).json()["next"][0]["row"]
    assert client.post("/api/withdraw", json={"by": "bo", "row": held}).status_code == 200
    # Two said the same: each can take back only what is theirs.
    for by in ("ann", "bo"):
        study.tell(10, "bad", by=by)
    assert client.post("/api/withdraw", json={"by": "bo", "row": 10}).status_code == 200
    assert list(study.state.standings[10]) == ["ann"]


@pytest.mark.parametrize(
    "body",
    [
        {"by": "ann", "row": 0, "label": "ugly"},
        {"by": "ann", "row": 10**9, "label": "good"},
        {"by": "ann", "row": -1, "label": "good"},
        {"by": "ann", "row": "0x", "label": "good"},
        {"by": "", "row": 0, "label": "good"},
        {"by": "a" * 201, "row": 0, "label": "good"},
        {"by": "ann", "row": 0, "label": None},
        {"by": "ann", "row": 0, "label": "good", "path": "/etc/passwd"},
        {"row": 0, "label": "good"},
        [],
    ],
)
def test_what_does_not_fit_is_refused_with_a_reason(client, study, body):
    done = client.post("/api/tell", json=body)
    assert done.status_code == 422
    assert done.json()["error"]
    assert not study.state.labels


@pytest.mark.parametrize(
    "text", ['{"by": "\\ud800", "row": 0, "label": "good"}', '{"by": NaN}', "{"]
)
def test_what_json_can_hardly_say_is_refused_too(client, text):
    json_type = {"content-type": "application/json"}
    assert client.post("/api/tell", content=text, headers=json_type).status_code in (400, 422)


def test_the_model_is_fitted_in_the_background_and_charts_follow(client, study):
    told(client, 60)
    found = waited(client, lambda s: s["ranking"] and s["ranking"]["metric"] == "dev")
    assert found["labels"] == 60
    assert not found["trouble"]
    settled = waited(client, lambda s: not s["fitting"] and s["ranking"]["behind"] < 10)
    assert len(client.get("/api/curve").json()) == settled["rounds"]
    scores = client.get("/api/utilities").json()
    assert scores["quantiles"] == sorted(scores["quantiles"])
    assert len(scores["next"]) == study.state.settings.refit
    row = client.post("/api/ask", json={"by": "ann"}).json()["next"][0]["row"]
    why = client.get(f"/api/why/{row}").json()
    assert [one["label"] for one in why["labels"]] == ["good", "bad"]
    assert sum(one["probability"] for one in why["labels"]) == pytest.approx(1.0)
    assert any(one["helps"] for one in why["labels"])
    assert why["labels"][0]["helps"][0]["preview"]
    study.describe("bad", colour="#1b9e77")
    labels = client.get(f"/api/why/{row}").json()["labels"]
    assert [one["colour"] for one in labels] == ["", "#1b9e77"], (
        "of the class, as its button has it"
    )
    advice = client.get("/api/stop?price=1000").json()
    assert advice["stop"] is False
    assert advice["reason"].startswith("Go on: 40 rows are left, too few to measure")
    said = client.get("/api/stop?price=1e-12").json()
    assert said["stop"] is False
    assert said["account"]["answers"] == 60
    assert {one["verdict"] for one in said["criteria"]} <= {"stop", "go on", "not known"}
    assert all(one["name"] and one["says"] for one in said["criteria"])
    for price in ("0", "-1", "nan", "inf", "x"):
        assert client.get(f"/api/stop?price={price}").status_code == 422


def test_likely_mistakes_come_first_in_their_list(client, study):
    assert client.get("/api/answers?only=doubted").json()["total"] == 0
    assert "No model yet" in client.get("/scores").text
    for row in range(60):
        right = truth(study.show(row)["text"])
        wrong = {"good": "bad", "bad": "good"}[right]
        study.tell(row, wrong if row in (7, 20) else right, by="bo")
    study.refresh()
    found = client.get("/api/answers?only=doubted").json()["rows"]
    assert {line["row"] for line in found[:2]} == {7, 20}
    for line in found:
        assert line["doubted"]["says"] != line["label"]
    doubt = [line["doubted"]["doubt"] for line in found]
    assert doubt == sorted(doubt, reverse=True)
    page = client.get("/review?only=doubted").text
    assert page.index('data-row="7"') > 0
    assert "The model would say" in page
    study.tell(7, truth(study.show(7)["text"]), by="bo")
    again = client.get("/api/answers?only=doubted").json()["rows"]
    assert 7 not in {line["row"] for line in again}, "corrected, it is no mistake any more"


def test_scores_and_agreement_are_said_with_their_ranges(client, study):
    told(client, 60)
    for row in list(study.state.labels)[:9]:
        study.tell(row, study.state.labels[row], by="bo")
    scores = client.get("/api/scores").json()
    assert [one["label"] for one in scores["classes"]] == ["good", "bad"]
    assert sum(map(sum, scores["confusion"])) == scores["on"]
    for one in scores["classes"]:
        assert one["recall"]["low"] <= one["recall"]["value"] <= one["recall"]["high"]
    (pair,) = client.get("/api/agreement").json()
    assert (pair["one"], pair["other"], pair["rows"]) == ("ann", "bo", 9)
    page = client.get("/scores").text
    assert "Class by class" in page
    assert pair["says"].replace("'", "&#39;") in page


def test_what_draws_the_charts_comes_along_with_its_licence(client):
    assert "uPlot (v1." in client.get("/static/uPlot.js").text[:60]
    assert ".uplot" in client.get("/static/uPlot.css").text
    assert client.get("/static/uPlot.LICENSE.txt").text.startswith("The MIT License")


def test_before_there_is_a_model_the_page_says_so(client):
    assert client.get("/api/why/0").status_code == 422
    assert client.get("/api/stop?price=1").json()["high"] is None
    assert client.get("/api/utilities").json() == {"quantiles": [], "next": []}
    assert client.post("/api/refresh").status_code == 202


def test_two_annotators_never_hold_the_same_row(client):
    held = {by: set() for by in "abc"}
    for _ in range(12):
        for by in held:
            rows = client.post("/api/ask", json={"by": by}).json()["next"]
            held[by] |= {row["row"] for row in rows}
            first = rows[0]
            client.post("/api/tell", json={"by": by, "row": first["row"], "label": "good"})
    assert not held["a"] & held["b"]
    assert not held["a"] & held["c"]
    assert not held["b"] & held["c"]


def test_answers_are_listed_filtered_and_corrected(client, study):
    told(client, 8)
    row = next(iter(study.state.labels))
    other = "bad" if study.state.labels[row] == "good" else "good"
    client.post("/api/tell", json={"by": "bo", "row": row, "label": other})
    client.post("/api/note", json={"by": "bo", "row": row, "text": "look again"})
    assert client.get("/api/answers").json()["total"] == 8
    for only in ("disagreeing", "noted"):
        assert [r["row"] for r in client.get(f"/api/answers?only={only}").json()["rows"]] == [row]
    assert client.get("/api/answers?by=bo").json()["total"] == 1
    assert client.get("/api/answers?by=' OR 1=1 --").json()["total"] == 0
    good = client.get("/api/answers?label=good").json()
    assert {line["label"] for line in good["rows"]} == {"good"}
    page = client.get("/review?only=noted")
    assert "look again" in page.text
    assert "author" in page.text
    found = study.show(row)["text"]
    assert client.get("/api/answers", params={"search": found.upper()}).json()["total"] == 1
    assert client.get("/review?at=3&label=nothing").status_code == 200


def test_exports_are_what_was_said(client, study):
    told(client, 6)
    for format, read in (
        ("csv", pl.read_csv),
        ("jsonl", pl.read_ndjson),
        ("parquet", pl.read_parquet),
        ("tsv", lambda b: pl.read_csv(b, separator="\t")),
    ):
        done = client.get(f"/api/export?format={format}")
        assert "attachment" in done.headers["content-disposition"]
        frame = read(io.BytesIO(done.content))
        assert dict(frame.select("row", "label").iter_rows()) == dict(study.state.labels)
    assert client.get("/api/export?every=true").text.count("\n") == 7


@pytest.mark.attack("full disk, locked study")
def test_a_full_disk_and_a_locked_study_say_so(client, served, monkeypatch, tried):
    def fails(error):
        def tell(*args, **options):
            raise error

        return tell

    body = {"by": "ann", "row": 0, "label": "good"}
    for error, status in ((NotWritten("no room"), 507), (Locked("busy"), 503)):
        monkeypatch.setattr(served.study, "tell_and_ask", fails(error))
        done = client.post("/api/tell", json=body)
        assert (done.status_code, done.json()["error"]) == (status, str(error))
    tried(2)


@pytest.mark.attack("study deleted or replaced while in use")
def test_answers_to_a_study_whose_file_is_gone_or_another_are_not_called_saved(
    client, study, tmp_path
):
    place, aside = tmp_path / "labels.db", tmp_path / "aside.db"
    row = client.post("/api/ask", json={"by": "ann"}).json()["next"][0]["row"]
    answer = {"row": row, "label": "good", "by": "ann"}
    place.rename(aside)
    for _ in range(3):
        told = client.post("/api/tell", json=answer)
        assert (told.status_code, "is gone" in told.json()["error"]) == (507, True)
    assert not place.exists()
    gw.Study.create(place, pool=texts(), classes=["good", "bad"]).close()
    told = client.post("/api/tell", json=answer)
    assert (told.status_code, "another study" in told.json()["error"]) == (507, True)
    aside.replace(place)
    assert client.post("/api/tell", json=answer).status_code == 200
    with gw.Study.open(place) as again:
        assert again.state.labels[row] == "good"


def test_news_are_pushed_and_a_returning_listener_gets_what_it_missed(served, address):
    import httpx2 as httpx

    def first(last=None):
        headers = {"authorization": f"Bearer {TOKEN}"} | ({"last-event-id": last} if last else {})
        with httpx.stream("GET", f"{address}/api/events", headers=headers, timeout=120) as stream:
            event = {}
            for line in stream.iter_lines():
                name, _, value = line.partition(": ")
                event[name] = value
                if name == "data":
                    return event
        return None

    seen = first()
    assert json.loads(seen["data"])["labels"] == 0
    # A change by somebody else, not through the page.
    served.study.tell(5, "good", by="elsewhere")
    news = first(seen["id"])
    assert json.loads(news["data"])["labels"] == 1
    assert news["id"] != seen["id"]


def hostile_table(folder):
    table = pl.DataFrame({"text": [*HOSTILE, *["plain words"] * 10], "=cell": ["<b>"] * 20})
    path = folder / "rows.jsonl"
    table.write_ndjson(path)
    return path


@pytest.fixture
def hostile(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "goalward.studio.tables.cache.user_cache_path", lambda name: tmp_path / "cache"
    )
    pool = gw.tables.Table(str(hostile_table(tmp_path)), text="text")
    classes = ["<script>window.xss=2</script>", "\"'><img src=x onerror=window.xss=3>"]
    with gw.Study.create(tmp_path / "h.db", pool=pool, classes=classes) as study:
        yield study


@pytest.fixture
def hostile_client(hostile):
    from starlette.testclient import TestClient

    from goalward.studio.server.auth import Auth
    from goalward.studio.server.served_study import ServedStudy

    headers = {"authorization": f"Bearer {TOKEN}"}
    served = ServedStudy(hostile, Auth(TOKEN), by="</script><script>window.xss=4</script>")
    with TestClient(app_of(served), "http://localhost", headers=headers) as client:
        yield client


@pytest.mark.attack("formulas in tables and exports")
def test_hostile_texts_are_shown_as_text_and_exported_harmlessly(hostile_client, hostile):
    client = hostile_client
    for row, text in enumerate(HOSTILE):
        found = client.get(f"/api/rows/{row}").json()
        assert found["text"] == text[:20_000]
        assert found["length"] == len(text)
        assert client.get(f"/api/rows/{row}?whole=true").json()["text"] == text
        client.post(
            "/api/tell", json={"by": "<b>x</b>", "row": row, "label": hostile.state.classes[0]}
        )
    for page in ("/", "/review", "/docs"):
        html = client.get(page).text
        assert "<script>window" not in html
        assert "<img src=x" not in html
        assert "onerror='window" not in html
    exported = client.get("/api/export").text
    assert "\n'=1+1" in exported or ",'=1+1" in exported
    assert client.get("/api/export?raw=true").text.count("'=1+1") == 0


def png():
    def chunk(kind, data):
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def unreadable(path):
    raise PermissionError(13, "Permission denied")


@pytest.mark.attack("pictures from elsewhere, or none")
def test_pictures_come_only_from_the_tables_folder_and_only_as_pictures(tmp_path, monkeypatch):
    from starlette.testclient import TestClient

    from goalward.studio.server.auth import Auth
    from goalward.studio.server.served_study import ServedStudy

    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "secret.png").write_bytes(png())
    (home / "a.png").write_bytes(png())
    (home / "script.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'><script/></svg>")
    (home / "fake.png").write_text("<html><script>1</script>")
    (home / "link.png").symlink_to(tmp_path / "secret.png")
    paths = ["a.png", "../secret.png", str(tmp_path / "secret.png"), "link.png", "script.svg"]
    paths += ["fake.png", "absent.png", "", ".", "a.png\0", str(home / "a.png")]
    table = pl.DataFrame({"image": paths, "x": range(len(paths)), "y": [0.5] * len(paths)})
    table.write_ndjson(home / "t.jsonl")
    pool = gw.tables.Table(str(home / "t.jsonl"), image="image", numeric=("x", "y"))
    with gw.Study.create(tmp_path / "i.db", pool=pool, classes=["a", "b"]) as study:
        headers = {"authorization": f"Bearer {TOKEN}"}
        app = app_of(ServedStudy(study, Auth(TOKEN)))
        with TestClient(app, "http://localhost", headers=headers) as client:
            codes = [client.get(f"/api/images/{row}").status_code for row in range(len(paths))]
            assert codes == [200, 404, 404, 404, 404, 404, 404, 404, 404, 404, 200]
            assert client.get("/api/images/0").headers["content-type"] == "image/png"
            with monkeypatch.context() as patched:
                patched.setattr("pathlib.Path.read_bytes", unreadable)
                done = client.get("/api/images/0")
                assert done.status_code == 404
                assert "Permission denied" in done.json()["error"]
            rows = client.post("/api/ask", json={"by": "ann", "n": 11}).json()["next"]
            assert {r["image"] for r in rows if r["row"] == 0} == {"/api/images/0"}
        app = app_of(ServedStudy(study, Auth(TOKEN), images=tmp_path))
        with TestClient(app, "http://localhost", headers=headers) as client:
            assert client.get("/api/images/2").status_code == 200


def test_the_documentation_is_our_own(client):
    page = client.get("/docs").text
    for path in client.get("/openapi.json").json()["paths"]:
        assert path in page
    assert "http://" not in page.replace("http://127.0.0.1:8321/api/ask", "")
    assert "https://" not in page


def test_machines_can_watch_it(client):
    del client.headers["authorization"]
    assert client.get("/healthz").json() == {"ok": True, "study": True}


def test_the_surest_open_rows_are_listed_by_what_the_model_says(client, study, monkeypatch):
    from goalward.studio.study import ranking

    monkeypatch.setattr(ranking, "SURE", 0.5)
    sure = lambda **more: client.get("/api/answers", params={"only": "sure", **more}).json()
    assert sure()["total"] == 0, "there is no model yet"
    for row in study.ask(40, by="bo"):
        study.tell(row, truth(study.show(row)["text"]), by="bo")
    study.refresh()
    found = sure()
    chances = [line["sure"]["chance"] for line in found["rows"]]
    assert chances == sorted(chances, reverse=True)
    assert min(chances) > 0.5
    rows = [line["row"] for line in found["rows"]]
    assert not study.state.labels.keys() & set(rows)
    assert not any(study.state.settings.is_dev(rows)), "rows that measure are not among them"
    good, bad = (sure(label=label)["total"] for label in ("good", "bad"))
    assert good + bad == found["total"] >= len(rows) > 0
    assert sure(search="by author 1")["total"] < found["total"]
