import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import goalward
from goalward.cli import app

RUN = CliRunner()


def test_reproduce_runs_one_figure_and_says_where_to_look(tmp_path, monkeypatch):
    from goalward.bench.paper import Size

    tiny = Size(seeds=2, queries=20, pool=20, batch_seeds=1, rows=300, n_jobs=1)
    monkeypatch.setattr(Size, "quick", classmethod(lambda cls, n_jobs=None, seeds=2: tiny))
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


def test_bench_prints_ratios_of_equal_results():
    done = RUN.invoke(app, ["bench", "--quick", "--json"], catch_exceptions=False)
    rows = json.loads(done.stdout)
    assert all(row["ratio"] > 0 for row in rows)
    # scikit-learn's error at tol=1e-8, not ours: see tests/utility/test_retrain.py.
    assert all(row["error"] < 1e-4 for row in rows if "more label" in row["what"])
    assert RUN.invoke(app, ["bench", "--quick"]).exit_code == 0


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
    assert "There is no figure 'figure-3'" in done.stderr
    assert "Traceback" not in done.stderr
