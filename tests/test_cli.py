import json

import pytest
from typer.testing import CliRunner

from goalward.cli import app

RUN = CliRunner()


def test_the_demo_ends_and_says_where_to_look(tmp_path):
    arguments = ["demo", "--out", str(tmp_path), "--seeds", "1", "--budget", "10"]
    done = RUN.invoke(app, [*arguments, "--candidates", "10"], catch_exceptions=False)
    assert done.exit_code == 0
    assert "Figure:" in done.stdout
    assert (tmp_path / "demo.png").stat().st_size > 10_000
    assert (tmp_path / "demo.svg").exists()
    as_json = RUN.invoke(app, [*arguments, "--candidates", "10", "--json"])
    found = json.loads(as_json.stdout)
    assert found["rank_correlation"]["every label"] > 0.5
    assert set(found["accuracy"]) == {"random", "margin", "dev/average"}


def test_bench_prints_ratios_of_equal_results():
    done = RUN.invoke(app, ["bench", "--quick", "--json"], catch_exceptions=False)
    rows = json.loads(done.stdout)
    assert all(row["ratio"] > 0 for row in rows)
    # scikit-learn's error at tol=1e-8, not ours: see tests/utility/test_retrain.py.
    assert all(row["error"] < 1e-4 for row in rows if "retraining" in row["what"])
    assert RUN.invoke(app, ["bench", "--quick"]).exit_code == 0


def test_doctor_says_what_is_there(monkeypatch, tmp_path):
    (tmp_path / "letter.npz").write_bytes(b"")
    monkeypatch.setenv("GOALWARD_DATA", str(tmp_path))
    found = json.loads(RUN.invoke(app, ["doctor", "--json"]).stdout)
    assert found["data files"] == ["letter.npz"]
    assert "BLAS threads" in found
    assert RUN.invoke(app, ["doctor"]).exit_code == 0


@pytest.mark.parametrize("arguments", [["nonsense"], ["demo", "--seeds", "0"]])
def test_wrong_calls_exit_with_2(arguments):
    assert RUN.invoke(app, arguments).exit_code == 2
