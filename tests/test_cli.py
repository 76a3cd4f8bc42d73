import json
import re
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import goalward
from goalward import errors
from goalward.cli import app

RUN = CliRunner()
ROWS_THAT_ARE_NONE = [
    "3.7",
    "-0.5",
    "1_0",
    '" 3"',
    "٣",
    "true",
    "inf",
    "nan",
    "1e3",
    "+3",
    '""',
    "-1",
]


def test_reproduce_runs_one_figure_and_says_where_to_look(tmp_path, monkeypatch):
    from goalward.lab.paper import Size

    tiny = Size(seeds=1, queries=20, pool=20, batch_seeds=1, samples=True, n_jobs=1)
    monkeypatch.setattr(Size, "quick", classmethod(lambda cls, seeds=5, n_jobs=None: tiny))
    arguments = ["reproduce", "synth2", "--quick", "--out", str(tmp_path)]
    done = RUN.invoke(app, arguments, catch_exceptions=False)
    assert done.exit_code == 0
    assert "synth2-uncertainty" in done.stdout
    assert "report.html" in done.stdout
    as_json = RUN.invoke(app, [*arguments, "--json"], catch_exceptions=False)
    assert {c["name"] for c in json.loads(as_json.stdout)} >= {"synth2-uncertainty", "synth2-dev"}


def test_simulate_prints_a_table_and_draws_curves(tmp_path):
    arguments = ["simulate", "wine", "-s", "random", "-s", "dev/spread", "--seeds", "2"]
    arguments += ["--budget", "10", "--batch", "5", "--jobs", "1", "--reach", "0.8"]
    done = RUN.invoke(app, [*arguments, "--out", str(tmp_path)], catch_exceptions=False)
    assert done.exit_code == 0
    assert "dev/spread" in done.stdout
    assert (tmp_path / "curves.png").stat().st_size > 10_000
    as_json = RUN.invoke(app, [*arguments, "--out", str(tmp_path), "--json"])
    summary = json.loads(as_json.stdout)["summary"]
    assert [line["strategy"] for line in summary] == ["random", "dev/spread"]
    assert summary[0]["labels_to_0.8"] is not None


@pytest.fixture
def pool_files(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 4))
    y = np.where(X[:, 0] > 0, "yes", "no")
    np.save(tmp_path / "pool.npy", X)
    names = [f"r{i}" for i in range(500)]
    table = pl.DataFrame(X, schema=list("abcd")).with_columns(pl.Series("id", names))
    table.write_parquet(tmp_path / "pool.parquet")
    for name, at in (("labels", range(20)), ("dev", range(20, 60))):
        label = [str(y[i]) for i in at]
        pl.DataFrame({"row": list(at), "label": label}).write_csv(tmp_path / f"{name}.csv")
        by_id = pl.DataFrame({"row": [f"r{i}" for i in at], "label": label})
        by_id.write_csv(tmp_path / f"{name}-ids.csv")
    return tmp_path


def test_rank_names_rows_of_a_file_by_position_or_id(pool_files):
    run = ["rank", str(pool_files / "pool.npy"), "--batch", "5", "--json"]
    run += ["--labels", str(pool_files / "labels.csv"), "--dev", str(pool_files / "dev.csv")]
    found = json.loads(RUN.invoke(app, run, catch_exceptions=False).stdout)
    rows = [line["row"] for line in found["rows"]]
    assert len(set(rows)) == 5
    assert min(rows) >= 60  # neither labelled nor dev rows
    assert found["read"]["rows"] == 500

    by_id = ["rank", str(pool_files / "pool.parquet"), "--ids", "id", "--batch", "5", "--json"]
    by_id += ["--labels", str(pool_files / "labels-ids.csv")]
    by_id += ["--dev", str(pool_files / "dev-ids.csv")]
    named = json.loads(RUN.invoke(app, by_id, catch_exceptions=False).stdout)
    assert [line["row"] for line in named["rows"]] == [f"r{i}" for i in rows]


def test_rank_of_a_pool_whose_rows_are_all_labelled_names_none(pool_files):
    label = [str(i % 2) for i in range(500)]
    pl.DataFrame({"row": range(500), "label": label}).write_csv(pool_files / "all.csv")
    run = ["rank", str(pool_files / "pool.npy"), "--labels", str(pool_files / "all.csv")]
    assert (
        json.loads(RUN.invoke(app, [*run, "--json"], catch_exceptions=False).stdout)["rows"] == []
    )
    assert "No row is left of 500." in RUN.invoke(app, run, catch_exceptions=False).stdout


def test_rank_without_dev_rows_takes_the_recommended_strategy(pool_files):
    out = pool_files / "next.csv"
    run = ["rank", str(pool_files / "pool.npy"), "--labels", str(pool_files / "labels.csv")]
    done = RUN.invoke(app, [*run, "--out", str(out)], catch_exceptions=False)
    assert "in turn" in done.stdout.replace("\n", " ")
    X = np.load(pool_files / "pool.npy")
    labels = pl.read_csv(pool_files / "labels.csv")["label"].to_list()
    fitted = goalward.Logistic(C="loo", features="auto").fit(X[:20], labels, pool=X)
    strategy = goalward.GoalOriented.recommended(X)
    expected = strategy.suggest(fitted, X, 10, exclude=range(20))
    assert pl.read_csv(out)["row"].to_list() == expected.rows.tolist()
    other = [*run, "--goal", "entropy", "--goal-rows", "100", "--selection", "sequential"]
    done = RUN.invoke(app, other, catch_exceptions=False)
    assert "entropy/spread/first-order/sequential" in done.stdout.replace("\n", "")


def test_rank_takes_the_goals_of_recipes(pool_files):
    run = [
        "rank",
        str(pool_files / "pool.npy"),
        "--labels",
        str(pool_files / "labels.csv"),
        "--json",
    ]
    soft = [*run, "--goal", "soft-pool", "--goal-rows", "100", "--batch", "4"]
    found = json.loads(RUN.invoke(app, soft, catch_exceptions=False).stdout)
    assert len(found["rows"]) == 4
    f1 = [*run, "--goal", "f1"]
    with pytest.raises(errors.BadParameter, match="--goal f1 needs --dev"):
        RUN.invoke(app, f1, catch_exceptions=False)
    f1 += ["--dev", str(pool_files / "dev.csv")]
    assert len(json.loads(RUN.invoke(app, f1, catch_exceptions=False).stdout)["rows"]) == 10


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels.csv": "row,what\n1,yes\n"}, "Column .label. is not in"),
        ({"labels.csv": "row,label\n1,yes\n900,no\n"}, "positions from 0 to 499"),
        ({"labels.csv": "row,label\n1,yes\n1,no\n"}, "names a row twice"),
        ({"pool.npy": "nothing"}, "must be a whole .npy file"),
    ],
)
def test_rank_says_what_is_wrong_with_its_files(pool_files, change, message):
    for name, text in change.items():
        (pool_files / name).write_text(text)
    run = ["rank", str(pool_files / "pool.npy"), "--labels", str(pool_files / "labels.csv")]
    with pytest.raises(errors.GoalwardError, match=message):
        RUN.invoke(app, run, catch_exceptions=False)


def test_doctor_says_what_is_there(monkeypatch, tmp_path):
    (tmp_path / "letter.npz").write_bytes(b"")
    monkeypatch.setenv("GOALWARD_DATA", str(tmp_path))
    found = json.loads(RUN.invoke(app, ["doctor", "--json"]).stdout)
    assert "letter.npz" in found["GOALWARD_DATA"]
    assert {"BLAS threads", "GPU", "array libraries", "data cache", "cores"} <= set(found)
    assert "at least" in found["numpy"]
    assert found["scikit-activeml"]
    assert "numpy" in found["array libraries"]
    assert RUN.invoke(app, ["doctor"]).exit_code == 0


def test_the_version_is_said():
    done = RUN.invoke(app, ["--version"])
    assert done.exit_code == 0
    assert done.stdout.strip() == f"goalward {goalward.__version__}"


@pytest.mark.parametrize("arguments", [["nonsense"], ["simulate", "wine", "--seeds", "0"]])
def test_wrong_calls_exit_with_2(arguments):
    assert RUN.invoke(app, arguments).exit_code == 2


def test_an_error_on_purpose_is_a_message_and_not_a_traceback(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "goalward", "reproduce", "figure-3", "--out", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "got 'figure-3'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["[web].db", "x[/y].db"])
def test_brackets_in_a_message_are_text(name):
    """`pip install goalward[web]` must not lose its extra to the terminal's markup."""
    run = [sys.executable, "-m", "goalward", "status", name]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert name in done.stderr
    assert "Traceback" not in done.stderr


def test_rank_refuses_dev_rows_that_were_trained_on(pool_files):
    labels = str(pool_files / "labels.csv")
    run = ["rank", str(pool_files / "pool.npy"), "--labels", labels, "--dev", labels]
    with pytest.raises(errors.BadParameter, match="got 20 rows that are in"):
        RUN.invoke(app, run, catch_exceptions=False)


@pytest.mark.parametrize("written", ROWS_THAT_ARE_NONE)
def test_rank_takes_row_numbers_as_they_are(pool_files, written):
    labels = pool_files / "labels.csv"
    run = ["rank", str(pool_files / "pool.npy"), "--labels", str(labels), "--json"]
    labels.write_text(f"row,label\n0,yes\n{written},no\n5.0,no\n")
    with pytest.raises(errors.BadParameter, match=r"line 3, .* is not a row number"):
        RUN.invoke(app, run, catch_exceptions=False)
    labels.write_text("row,label\n0,yes\n5.0,no\n")
    rows = json.loads(RUN.invoke(app, run, catch_exceptions=False).stdout)["rows"]
    assert not {0, 5} & {line["row"] for line in rows}


def test_rank_takes_no_boolean_for_a_row(pool_files):
    path = pool_files / "labels.parquet"
    pl.DataFrame({"row": [True, False], "label": ["yes", "no"]}).write_parquet(path)
    run = ["rank", str(pool_files / "pool.npy"), "--labels", str(path)]
    with pytest.raises(errors.BadParameter, match="True is not a row number"):
        RUN.invoke(app, run, catch_exceptions=False)


@pytest.mark.parametrize("name", ["pool.npy", "labels.csv", "dev.csv"])
@pytest.mark.parametrize("link", [None, "symlink_to", "hardlink_to"])
def test_rank_never_writes_over_what_it_reads(pool_files, name, link):
    out = pool_files / name
    if link:
        out = pool_files / "link.csv"
        getattr(out, link)(pool_files / name)
    before = (pool_files / name).read_bytes()
    run = ["rank", str(pool_files / "pool.npy"), "--labels", str(pool_files / "labels.csv")]
    run += ["--dev", str(pool_files / "dev.csv"), "--out", str(out), "--force"]
    with pytest.raises(errors.WouldOverwrite, match="another file"):
        RUN.invoke(app, run, catch_exceptions=False)
    assert (pool_files / name).read_bytes() == before


def test_rank_asks_before_it_replaces_a_file_and_before_it_works(pool_files, monkeypatch):
    out = pool_files / "next.csv"
    out.write_text("mine")
    run = ["rank", str(pool_files / "pool.npy"), "--labels", str(pool_files / "labels.csv")]
    with monkeypatch.context() as patched:
        patched.setattr(
            "goalward.core.pool_files.open_pool", lambda *_, **__: pytest.fail("too late")
        )
        with pytest.raises(errors.WouldOverwrite, match="--force"):
            RUN.invoke(app, [*run, "--out", str(out)], catch_exceptions=False)
        with pytest.raises(errors.BadInput, match="must end in"):
            RUN.invoke(app, [*run, "--out", str(pool_files / "a.txt")], catch_exceptions=False)
    assert out.read_text() == "mine"
    done = RUN.invoke(app, [*run, "--out", str(out), "--force"], catch_exceptions=False)
    assert done.exit_code == 0
    assert pl.read_csv(out).columns == ["row", "utility", "predicted", "probability"]


def test_rank_writes_ids_and_labels_that_no_spreadsheet_computes(pool_files):
    table = pl.read_parquet(pool_files / "pool.parquet")
    table.with_columns(id="=" + pl.col("id")).write_parquet(pool_files / "pool.parquet")
    labels = pl.read_csv(pool_files / "labels-ids.csv")
    labels = labels.select(label="＝" + pl.col("label"), row="=" + pl.col("row"))
    labels.write_csv(pool_files / "labels-ids.csv")
    out = pool_files / "next.csv"
    run = ["rank", str(pool_files / "pool.parquet"), "--ids", "id", "--out", str(out)]
    run += ["--labels", str(pool_files / "labels-ids.csv")]
    RUN.invoke(app, run, catch_exceptions=False)
    found = pl.read_csv(out)
    assert found["row"].str.starts_with("'=r").all()
    assert found["predicted"].is_in(["'＝yes", "'＝no"]).all()
    found.rename({"predicted": "label"}).write_csv(pool_files / "labels-ids.csv")
    assert RUN.invoke(app, [*run, "--force"], catch_exceptions=False).exit_code == 0


def test_help_begins_with_what_most_people_need_first():
    first, rest = RUN.invoke(app, ["--help"]).stdout.split("More commands")
    first = re.findall(r"^│ ([a-z-]+) ", first.split("Commands")[1], re.M)
    assert first == ["label", "status", "predict", "export", "import", "rank"]
    assert {"team", "serve", "doctor"} <= set(re.findall(r"^│ ([a-z-]+) ", rest, re.M))
    # Of one command the options of a first hour; the others, and those of the page, are below.
    main, rest = RUN.invoke(app, ["label", "--help"]).stdout.split("More options")
    named = set(re.findall(r"^│ --([a-z-]+)", main.split("Options")[1], re.M)) - {"help", "json"}
    expected = ["by", "classes", "dev", "image", "labels", "number", "sample", "study"]
    assert sorted(named) == [*expected, "terminal", "text"]
    assert rest.index("--numeric") < rest.index("The page") < rest.index("--host")


def test_help_loads_no_heavy_library():
    heavy = {"fastapi", "matplotlib", "numpy", "pandas", "polars", "scipy", "sklearn", "sqlalchemy"}
    code = f"import atexit, sys; atexit.register(lambda: print({heavy} & set(sys.modules)))"
    code += "; sys.argv = ['goalward', '--help']; from goalward.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "label-studio" in done.stdout
    assert done.stdout.strip().endswith("set()")
