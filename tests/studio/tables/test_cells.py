"""Columns of every type go out in every format, and come back where the format can hold them."""

import base64
import csv
import json
import re
from datetime import date, time, timedelta
from decimal import Decimal

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import goalward as gw
from goalward.cli.console import in_json, row_text
from goalward.studio.tables import Table, read_table, write_table
from goalward.studio.tables.cells import as_text, escaped, unescaped

SIGNS = "=+-@＝＋－＠\t\r\n\0"
INNER = {"when": pl.Duration("us"), "what": pl.Binary, "how": pl.List(pl.Decimal(10, 2))}


def odd_frame():
    deep = [{"when": timedelta(1), "what": b"\xff", "how": [Decimal("1.50"), None]}, None, None]
    return pl.DataFrame(
        [
            pl.Series("text", ["a fine film", "=dull film", "another film"]),
            pl.Series("list", [["=a", "b"], [], None]),
            pl.Series("lists", [[[1], None], [[]], None]),
            pl.Series("array", [[0.5, float("nan")], [1, 2], None], dtype=pl.Array(pl.Float64, 2)),
            pl.Series("deep", deep, dtype=pl.Struct(INNER)),
            pl.Series("deeper", [deep, [], None], dtype=pl.List(pl.Struct(INNER))),
            pl.Series("binary", [b"\x00\xff=", b"", None]),
            pl.Series("lasts", [timedelta(days=2, microseconds=7), -timedelta(seconds=3), None]),
            pl.Series("enum", ["=a", "b", None], dtype=pl.Enum(["=a", "b"])),
            pl.Series("category", ["@a", "b", None], dtype=pl.Categorical),
            pl.Series("day", [date(2024, 2, 29), date(1, 1, 1), None]),
            pl.Series("moment", [1, -1, None]).cast(pl.Datetime("ns", "Europe/Berlin")),
            pl.Series("clock", [time(1, 2, 3, 4), time(0), None]),
            pl.Series("price", [Decimal("-1.50"), Decimal("20.00"), None]),
            pl.Series("whether", [True, False, None]),
            pl.Series("nothing", [None, None, None]),
            pl.Series("number", [float("nan"), float("inf"), None]),
        ]
    )


def study_of(folder, path, name="s.db"):
    study = gw.Study.create(folder / name, pool=Table(path, text="text"), classes=["x", "y"])
    study.tell_many([(0, "x"), (1, "y"), (2, "x")])
    return study


@pytest.fixture
def odd(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "goalward.studio.tables.cache.user_cache_path", lambda name: tmp_path / "cache"
    )
    odd_frame().write_parquet(tmp_path / "odd.parquet")
    return tmp_path / "odd.parquet"


def test_parquet_keeps_every_column_as_it_is(tmp_path, odd):
    with study_of(tmp_path, odd) as study:
        study.export(tmp_path / "l.parquet")
    back = pl.read_parquet(tmp_path / "l.parquet").select(odd_frame().columns)
    assert back.equals(odd_frame())


def test_jsonl_keeps_lists_and_structs_and_writes_the_rest_as_text(tmp_path, odd):
    with study_of(tmp_path, odd) as study:
        study.export(tmp_path / "l.jsonl")
    first, second, third = map(json.loads, (tmp_path / "l.jsonl").read_text().splitlines())
    deep = {"when": "PT86400.000000S", "what": "/w==", "how": ["1.50", None]}
    assert first["list"] == ["=a", "b"]
    assert first["lists"] == [[1], None]
    assert first["array"] == [0.5, None]
    assert first["deep"] == deep
    assert first["deeper"] == [deep, None, None]
    assert base64.b64decode(first["binary"]) == b"\x00\xff="
    assert [first["lasts"], second["lasts"]] == ["PT172800.000007S", "-PT3.000000S"]
    assert first["moment"] == "1970-01-01T01:00:00.000000001+01:00"
    assert first["clock"] == "01:02:03.000004000"
    assert [first["price"], first["day"], first["enum"]] == ["-1.50", "2024-02-29", "=a"]
    assert first["whether"] is True
    assert {name for name, cell in third.items() if cell is None} == {*odd_frame().columns} - {
        "text"
    }


@pytest.mark.parametrize("ending", [".csv", ".tsv"])
@pytest.mark.attack("formulas in tables and exports")
def test_a_csv_holds_lists_as_json_and_no_formula(tmp_path, odd, ending):
    with study_of(tmp_path, odd) as study:
        study.export(tmp_path / f"l{ending}")
        study.export(tmp_path / f"raw{ending}", raw=True)
    first, second, third = read_table(tmp_path / f"l{ending}").to_dicts()
    assert json.loads(first["list"]) == ["=a", "b"]
    assert json.loads(first["deeper"])[0]["how"] == ["1.50", None]
    assert base64.b64decode(first["binary"]) == b"\x00\xff="
    assert first["price"] == "-1.50"
    assert second["lasts"] == "'-PT3.000000S"
    assert [first["enum"], first["category"], second["text"]] == ["'=a", "'@a", "'=dull film"]
    assert third["deep"] == ""
    raw = read_table(tmp_path / f"raw{ending}")
    assert raw["enum"].to_list() == ["=a", "b", ""]


def test_rows_of_every_type_are_shown(tmp_path, odd):
    with study_of(tmp_path, odd) as study:
        for row in range(3):
            json.dumps(study.show(row))
        shown = json.loads(in_json(study.show(0)), parse_constant=pytest.fail)
    assert shown["columns"]["lasts"] == "PT172800.000007S"
    assert shown["columns"]["list"] == ["=a", "b"]
    assert shown["columns"]["number"] is None


def test_rows_of_bytes_and_times_are_shown_in_the_terminal(tmp_path, odd):
    plain = odd_frame().with_columns(x=pl.Series([1.0, 2.0, 3.0])).drop("text")
    plain.write_parquet(odd)
    table = Table(odd, numeric=("x",))
    with gw.Study.create(tmp_path / "s.db", pool=table, classes=["x", "y"]) as study:
        assert "PT172800" in row_text(study.show(0))


def test_a_table_with_odd_columns_is_read_without_naming_the_text(tmp_path, odd):
    odd_frame().select("text", "list", "deep", "binary", "day").write_parquet(odd)
    assert Table(odd).settled().text == "text"
    odd_frame().select("category", "list").write_parquet(odd)
    assert Table(odd).settled().text == "category"
    assert Table(odd, text="category").settled().load().show(0)["text"] == "@a"


def test_exports_of_exports_keep_their_names_apart(tmp_path, odd):
    path = odd
    for i in range(4):
        with study_of(tmp_path, path, f"s{i}.db") as study:
            path = tmp_path / f"l{i}{('.csv', '.jsonl', '.parquet', '.csv')[i]}"
            assert study.export(path) == 3
    names = read_table(path).columns
    assert {"label", "label_of_table", "label_of_table_2", "label_of_table_3"} <= set(names)


def test_a_table_may_use_our_names(tmp_path, odd):
    ours = ["row", "label", "role", "by", "answers", "at", "note", "row_of_table"]
    pl.DataFrame({"text": ["a b", "c d", "e f"]} | {n: [n] * 3 for n in ours}).write_parquet(odd)
    with study_of(tmp_path, odd) as study:
        study.export(tmp_path / "l.parquet")
    back = pl.read_parquet(tmp_path / "l.parquet")
    assert back["row"].to_list() == [0, 1, 2]
    assert back["row_of_table"].to_list() == ["row_of_table"] * 3
    assert back["row_of_table_2"].to_list() == ["row"] * 3
    assert back["note_of_table"].to_list() == ["note"] * 3


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
NUMBERS = st.floats().map(repr) | st.integers().map(str) | st.sampled_from(["-1,5", "+3", "-.5"])
SIGNED = st.builds(lambda marks, sign, rest: "'" * marks + sign + rest,
                   st.integers(0, 3), st.sampled_from(SIGNS), TEXTS)  # fmt: skip


CELLS = TEXTS | SIGNED | NUMBERS | st.builds("{};{}".format, TEXTS, SIGNED | NUMBERS)


HARMLESS = re.compile(r"[-+](?:[0-9.,]+(?:[eE][-+]?[0-9]+)?%?|(?i:inf|infinity|nan)) *")


def runs(text):
    """Whether a spreadsheet would compute a text, or a part of it between its separators."""
    parts = [part for part in re.split('[;\t\r\n]"*', text)[1:] if part[1:2] != " "]
    inside = any(p.startswith(tuple(SIGNS[:8])) and not HARMLESS.fullmatch(p) for p in parts)
    return inside or (text.startswith(tuple(SIGNS)) and not HARMLESS.fullmatch(text))


def is_number(text):
    """Whether a program takes a cell for a number, with a decimal comma too."""
    try:
        plain = text.isascii() and not re.search(r"[_\s\x1c-\x1f]", text)
        return plain and float(text.replace(",", ".")) is not None
    except ValueError:
        return False


@st.composite
def tables(draw):
    """Tables with columns of texts that may be formulas, of numbers as texts, and of numbers."""
    height = draw(st.integers(1, 4))
    kinds = [(CELLS, pl.String), (NUMBERS, pl.String), (st.floats(), pl.Float64)]
    kinds += [(st.integers(-(2**63), 2**63 - 1), pl.Int64), (st.sampled_from([-1, 1]), pl.Int8)]
    made = {"id": pl.Series(range(height))}
    for name in draw(st.lists(CELLS.filter(bool), min_size=1, max_size=3, unique=True)):
        cells, kind = draw(st.sampled_from(kinds))
        made[name] = pl.Series(draw(st.lists(cells, min_size=height, max_size=height)), dtype=kind)
    return pl.DataFrame(made)


@given(table=tables(), ending=st.sampled_from([".csv", ".tsv"]))
@example(table=pl.DataFrame({"id": [0], "\x00": [1]}), ending=".csv")
@settings(max_examples=300, deadline=None)
def test_every_cell_of_a_table_comes_back_and_numbers_are_never_marked(
    tmp_path_factory, table, ending
):
    path = tmp_path_factory.mktemp("round") / f"t{ending}"
    write_table(table, path)
    with path.open(newline="", encoding="utf-8") as file:
        lines = list(csv.reader(file, delimiter="\t" if ending == ".tsv" else ","))
    expected = [table.columns, *as_text(table).cast(pl.String).rows()]
    for line, cells in zip(lines, expected, strict=True):
        for shown, cell in zip(line, cells, strict=True):
            assert shown == cell if is_number(cell) else not runs(shown)
    back = unescaped(read_table(path, separator="\t" if ending == ".tsv" else ","))
    assert [back.columns, *back.rows()] == expected


def test_a_formula_inside_a_text_is_marked_and_numbers_and_lists_are_not():
    texts = ["a;=1+1", 'a;"@x', "a\n-1+cmd()", "1;-2;3", "-0.228", "-5%", "to do:\n- eggs", "-1,5"]
    marked = ["a;'=1+1", "a;\"'@x", "a\n'-1+cmd()", *texts[3:]]
    assert escaped(pl.DataFrame({"-1": texts})).to_dict(as_series=False) == {"-1": marked}


def test_negative_numbers_and_classes_stay_numbers_in_what_a_study_writes(tmp_path):
    lines = [f"{x / 7 - 2:.3f},word {x}" for x in range(30)]
    (tmp_path / "t.csv").write_text("\n".join(["x,text", *lines]))
    pool = Table(tmp_path / "t.csv", numeric=("x",), embeddings="columns")
    with gw.Study.create(tmp_path / "s.db", pool=pool, classes=["-1", "+1"]) as study:
        study.tell_many([(i, "-1" if i < 14 else "+1") for i in range(0, 30, 3)])
        study.export(tmp_path / "l.csv")
        study.write_predictions(tmp_path / "p.csv")
    for name in ("l.csv", "p.csv"):
        text = (tmp_path / name).read_text()
        assert "'" not in text
        assert {"-1", "+1"} == set(read_table(tmp_path / name)["label"])
        assert read_table(tmp_path / name)["x"].cast(pl.Float64).min() == -2


@given(st.lists(CELLS, min_size=1))
@settings(max_examples=100, deadline=None)
def test_escaping_is_undone_exactly(texts):
    names = list(dict.fromkeys(text for text in texts if text)) or ["text"]
    frame = pl.DataFrame(dict.fromkeys(names, texts), schema=dict.fromkeys(names, pl.String))
    shown = escaped(frame)
    cells = [*shown.columns, *shown.to_series()]
    assert not any(runs(cell) for cell in cells)
    assert unescaped(shown).equals(frame)


def test_what_went_out_comes_in_as_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "goalward.studio.tables.cache.user_cache_path", lambda name: tmp_path / "cache"
    )
    ids = ["'" * n + f"{sign}{i}" for n in range(3) for i, sign in enumerate([*SIGNS, "a"])]
    frame = pl.DataFrame({"id": ids, "text": [f"word {i} film" for i in range(len(ids))]})
    frame.write_parquet(tmp_path / "t.parquet")
    classes = ["=a", "'=a", "''=a", "＝a"]
    made = [
        gw.Study.create(
            tmp_path / f"{n}.db", pool=Table(tmp_path / "t.parquet", text="text"), classes=classes
        )
        for n in ("one", ".csv", ".tsv", ".jsonl", ".parquet")
    ]
    made[0].tell_many([(i, classes[i % 4]) for i in range(len(ids))], by="-ann")
    for ending, other in zip((".csv", ".tsv", ".jsonl", ".parquet"), made[1:], strict=True):
        made[0].export(tmp_path / f"l{ending}")
        done = other.import_labels(tmp_path / f"l{ending}", key="id")
        assert (done.taken, done.refused) == (len(ids), ())
        assert dict(other.state.labels) == dict(made[0].state.labels)
        assert other.state.annotators == ("-ann",)


@pytest.mark.parametrize(
    "classes", [[True, False], [1e20, 0.5, 1e-7], [2**70, 1], [True, 0], [1.5, 2], [1, "a"]]
)
def test_labels_of_any_kind_come_back(tmp_path, classes):
    rows = [[float(i)] for i in range(4)]
    one = gw.Study.create(tmp_path / "one.db", pool=rows, classes=classes)
    one.tell_many(list(enumerate(classes)))
    for ending in (".csv", ".jsonl", ".parquet"):
        one.export(tmp_path / f"l{ending}")
        two = gw.Study.create(tmp_path / f"{ending}.db", pool=rows, classes=classes)
        assert two.import_labels(tmp_path / f"l{ending}").refused == ()
        assert list(two.state.labels.items()) == list(one.state.labels.items())


def test_a_label_that_may_mean_two_classes_is_refused(tmp_path):
    study = gw.Study.create(tmp_path / "s.db", pool=[[0.0], [1.0]], classes=[1, "1"])
    (tmp_path / "l.csv").write_text("row,label\n0,1\n")
    assert study.import_labels(tmp_path / "l.csv").refused == ((2, "'1' may be any of 1, '1'"),)


@pytest.mark.attack("formulas in tables and exports")
def test_no_line_of_a_file_for_spreadsheets_starts_a_formula(tmp_path):
    texts = [f"{sign}1+1" for sign in SIGNS]
    kinds = (pl.String, pl.Categorical, pl.Enum(texts))
    frame = pl.DataFrame({f"={i}": pl.Series(texts, dtype=kind) for i, kind in enumerate(kinds)})
    write_table(frame, tmp_path / "a.csv")
    with (tmp_path / "a.csv").open(newline="", encoding="utf-8") as file:
        for line in csv.reader(file):
            assert not any(cell.startswith(tuple(SIGNS)) for cell in line)
