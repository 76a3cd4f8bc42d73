"""The kernel's side of the widget: what was told back is on disk, and nothing else is told back."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import goalward as gw
from goalward.errors import BadParameter
from tests.conftest import need

need("anywidget")

from goalward.studio.notebook.widget import (  # noqa: E402
    as_html,
    keys_of,
)

TEXTS = [f"a text, number {i}" for i in range(30)]


@pytest.fixture
def study(tmp_path):
    with gw.Study.create(tmp_path / "s.db", pool=TEXTS, classes=["good", "bad"]) as made:
        yield made


def said_to(widget, *messages):
    """Return what the widget answers, a message at a time."""
    heard = []
    widget.send = lambda content, buffers=None: heard.append(content)
    for n, message in enumerate(messages):
        widget._heard(widget, message | {"n": n}, [])
    return heard


def test_an_answer_is_on_disk_before_it_is_told_back(study):
    widget = study.widget(by="ann")
    first = widget.queue[0]["row"]
    (reply,) = said_to(widget, {"kind": "tell", "row": first, "label": 1})
    assert reply["done"] == 0
    assert reply["problem"] is None
    assert first not in [one["row"] for one in reply["queue"]]
    assert len(reply["queue"]) == 5
    with gw.Study.open(study.url) as again:
        assert again.state.labels == {first: "bad"}
        assert again.state.said(first).keys() == {"ann"}


def test_the_same_message_twice_is_one_answer(study):
    widget = study.widget()
    message = {"kind": "tell", "row": widget.queue[0]["row"], "label": 0}
    said_to(widget, message, message)
    assert study.state.n_answers == 1


def test_undo_and_skip(study):
    widget = study.widget()
    a, b = (one["row"] for one in widget.queue[:2])
    replies = said_to(
        widget,
        {"kind": "tell", "row": a, "label": 0},
        {"kind": "undo"},
        {"kind": "skip", "row": a},
    )
    assert replies[1]["queue"][0]["row"] == a
    assert replies[2]["queue"][0]["row"] == b
    assert study.state.labels == {}
    assert list(study.state.skipped) == [a]


@pytest.mark.parametrize(
    "message", [{"kind": "tell", "row": 99, "label": 0}, {"kind": "tell", "row": 0, "label": 7}, {}]
)
def test_nonsense_is_answered_and_changes_nothing(study, message):
    (reply,) = said_to(study.widget(), message)
    assert reply["problem"]
    assert study.state.n_answers == 0
    assert len(reply["queue"]) == 5


def test_page_and_widget_work_on_one_study(study):
    widget = study.widget()
    first, second = (one["row"] for one in widget.queue[:2])
    with gw.Study.open(study.url) as page:
        page.tell(first, "good", by="page")
        page.add_class("ugly")
    (reply,) = said_to(widget, {"kind": "tell", "row": second, "label": 2})
    assert study.state.labels == {first: "good", second: "ugly"}
    assert [one["label"] for one in reply["classes"]] == ["good", "bad", "ugly"]


def test_rows_are_ranked_behind_the_answers(study):
    widget = study.widget()
    widget._refitter.close()
    widget._refitter.start()
    for label in (0, 1, 0, 1, 0, 1):
        said_to(widget, {"kind": "tell", "row": widget.queue[0]["row"], "label": label})
        widget.queue = widget._shown(study.ask(3, resume=True, refresh=False))
    widget._refitter.nudge(now=True)
    widget._refitter.close()  # ends after the fit
    assert study.state.ranking is not None or study.refresh() is not None


def test_annotate_makes_a_study_and_goes_on_with_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = pl.DataFrame({"said": TEXTS, "n": range(30)})
    widget = gw.annotate(frame, text="said", classes=["good", "bad"])
    said_to(widget, {"kind": "tell", "row": widget.queue[0]["row"], "label": 0})
    assert (tmp_path / "annotations" / "study.db").exists()
    again = gw.annotate(frame, text="said", classes=["good", "bad"])
    assert again.summary["labels"] == 1
    with pytest.raises(BadParameter, match="of 30 rows, got 5 rows"):
        gw.annotate(TEXTS[:5], classes=["good", "bad"])
    with pytest.raises(BadParameter, match="must name the column"):
        gw.annotate(frame, classes=["good", "bad"], study="b.db")
    with pytest.raises(BadParameter, match=r"must be a column .* got 'sad'"):
        gw.annotate(frame, text="sad", classes=["good", "bad"], study="b.db")


def test_annotate_takes_the_path_of_a_table_the_first_and_the_second_time(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = {"classes": ["good", "bad"], "study": "films.db"}
    pl.DataFrame({"text": TEXTS}).write_csv("films.csv")
    widget = gw.annotate("films.csv", **given)
    assert widget.summary["rows"] == 30
    said_to(widget, {"kind": "tell", "row": widget.queue[0]["row"], "label": 0})
    with Path("films.csv").open("a") as file:
        file.write("a text that was appended\n")
    again = gw.annotate(Path("films.csv"), **given)
    assert (again.summary["labels"], again.summary["rows"]) == (1, 31)


def test_annotate_goes_on_with_the_study_at_an_address(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = {"classes": ["good", "bad"], "study": "sqlite:///kept/films.db"}
    widget = gw.annotate(TEXTS, **given)
    said_to(widget, {"kind": "tell", "row": widget.queue[0]["row"], "label": 0})
    assert gw.annotate(TEXTS, **given).summary["labels"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_an_array_needs_a_function_that_draws_it(tmp_path):
    pictures = np.random.default_rng(0).random((20, 64))
    widget = gw.annotate(
        pictures,
        classes=[0, 1],
        study=tmp_path / "p.db",
        render=lambda shown: f"<b>{pictures[shown['row']].sum():.1f}</b>",
    )
    row = widget.queue[0]
    assert row["html"] == f"<b>{pictures[row['row']].sum():.1f}</b>"


class Drawn:
    def __init__(self, **ways):
        self.__dict__.update({name: lambda made=made: made for name, made in ways.items()})


def test_anything_a_notebook_can_draw():
    need("matplotlib")
    from matplotlib.figure import Figure

    assert as_html({}, lambda _: Drawn(_repr_html_="<i>x</i>")) == "<i>x</i>"
    assert "data:image/png;base64,YWI=" in as_html({}, lambda _: Drawn(_repr_png_=b"ab"))
    assert as_html({}, lambda _: Figure()).startswith('<img alt="" src="data:image/png')
    assert as_html({}, lambda _: {"a": "<"}) == "<pre>{&#x27;a&#x27;: &#x27;&lt;&#x27;}</pre>"


def test_texts_and_columns_cannot_run_code():
    shown = as_html({"text": "<script>x</script>", "columns": {"<b>": "<img onerror=y>"}})
    assert "<script" not in shown
    assert "<img" not in shown
    assert "<b>" not in shown


@pytest.mark.attack("pictures from elsewhere, or none")
def test_pictures_come_from_the_tables_folder_and_no_other(tmp_path, monkeypatch, tried):
    png = b"\x89PNG\r\n\x1a\n"
    home, out = tmp_path / "home", tmp_path / "out"
    for folder in (home, out):
        folder.mkdir()
        (folder / "a.png").write_bytes(png)
    (home / "b.png").write_bytes(b"no picture")
    (home / "link.png").symlink_to(out / "a.png")
    refused = {str(out / "a.png"): "outside", "../out/a.png": "outside", "link.png": "outside"}
    refused |= {"none.png": "not there", "b.png": "must be a PNG"}
    names = ["a.png", *refused]
    pl.DataFrame({"image": names, "x": range(len(names))}).write_csv(home / "t.csv")
    # Paths start at the table, not where the notebook was started.
    monkeypatch.chdir(out)
    table = gw.tables.Table(home / "t.csv", image="image", numeric=("x",), embeddings="columns")
    with gw.Study.create(tmp_path / "s.db", pool=table, classes=["c", "d"]) as study:
        shown = {row["row"]: row["html"] for row in study.widget()._shown(range(len(names)))}
    assert "data:image/png;base64,iVBORw0KGgo=" in shown[0]
    for row, why in enumerate(refused.values(), 1):
        assert "data:" not in shown[row]
        assert why in shown[row]
    tried(len(refused))


def test_every_class_has_a_key_of_its_own():
    assert keys_of(["y", "n"]) == ["y", "n"]
    assert keys_of(["good", "bad"]) == ["1", "2"]
    assert keys_of(["1", "other"]) == ["1", "2"]
    many = keys_of([f"class {i}" for i in range(30)])
    assert len(set(many)) == 30
    assert not {"u", "s"} & set(many)
    assert len({key for key in keys_of(["A", "a", "b"]) if key}) == 3


KINDS = {
    "labels": (["late", "dear", "fine"], gw.MultiLabel(), [0, 2], (True, False, True)),
    "numbers": (["price"], gw.Ridge(), -2.5, -2.5),
}


@pytest.mark.parametrize("kind", KINDS)
def test_several_labels_and_numbers_are_taken(tmp_path, kind):
    classes, learner, sent, kept = KINDS[kind]
    place = tmp_path / "kinds.db"
    with gw.Study.create(place, pool=TEXTS, classes=classes, learner=learner) as study:
        widget = study.widget()
        assert widget.kind == kind
        first, second = (one["row"] for one in widget.queue[:2])
        replies = said_to(
            widget,
            {"kind": "tell", "row": first, "label": sent},
            {"kind": "tell", "row": second, "label": "much"},
        )
        assert replies[0]["problem"] is None
        assert replies[1]["problem"]
        assert study.state.labels == {first: kept}


@pytest.mark.parametrize("kind", KINDS)
def test_keys_in_the_browser_switch_labels_or_write_a_number(chromium, kind):
    page = chromium.new_page()
    names = [{"label": name, "key": str(i)} for i, name in enumerate(KINDS[kind][0], 1)]
    shown = [{"row": row, "html": f"<p>row {row}</p>"} for row in (4, 7)]
    given = {"identity": kind, "by": "ann", "kind": kind, "classes": names, "queue": shown}
    given |= {"summary": {"labels": 0, "rows": 2, "headline": ""}}
    page.set_content("<div id=here></div>")
    page.evaluate(
        """([code, given]) => {
            const url = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
            window.sent = [];
            const model = { get: (name) => given[name], send: (one) => window.sent.push(one), on() {}, off() {} };
            return import(url).then((made) => made.default.render({ model, el: document.querySelector("#here") }));
        }""",
        [
            (Path(gw.__file__).parent / "studio" / "notebook" / "widget.js").read_text("utf-8"),
            given,
        ],
    )
    if kind == "labels":
        page.locator(".goalward").focus()
        for key in ("3", "1", "2", "2"):
            page.keyboard.press(key)
        assert page.locator("[aria-pressed=true]").count() == 2
        page.keyboard.press("Enter")
        assert page.locator("[aria-pressed=true]").count() == 0
    else:
        page.locator(".goalward").focus()
        page.keyboard.press("Enter")
        assert "The answer must be a number" in page.locator("[role=alert]").inner_text()
        page.get_by_role("spinbutton", name="price").focus()
        page.keyboard.type("-3.75")
        page.keyboard.press("Backspace")
        page.keyboard.press("Backspace")
        page.keyboard.type("5")
        page.keyboard.press("Enter")
    page.keyboard.press("s")
    told, skipped = page.evaluate("window.sent")
    assert (told["row"], skipped["row"]) == (4, 7)
    assert told["label"] == ([0, 2] if kind == "labels" else -3.5)
    assert skipped["kind"] == "skip"
    page.close()
