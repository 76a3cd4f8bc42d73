"""Every script helps, and what writes a table of the documentation runs at a tiny size."""

import json
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

import against_pydvl
import auto_fidelity
import guesses
import pages
import semi_supervised
import text_features
from goalward.lab.datasets import wine
from mistakes import areas
from tests.benchmarks import invoke
from tests.conftest import need

SCRIPTS = [
    path
    for path in sorted((Path(__file__).parents[2] / "benchmarks").glob("*.py"))
    if "__main__" in path.read_text("utf-8")
]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_every_script_helps(script, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [script.name, "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(script), run_name="__main__")
    assert ended.value.code in (None, 0)
    assert "usage" in capsys.readouterr().out.lower()


def test_a_table_goes_beside_its_page_and_a_summary_into_it(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "DOCS", tmp_path)
    page = "before\n<!-- table: benchmarks/mine.py -->\n\n{}\n\n<!-- end of table -->\nafter\n"
    head = "| set | of | right |\n|---|---|---|\n"
    (tmp_path / "page.md").write_text(page.format("| old |"))
    table = f"{head}| a | | 1,000 |\n| mean | 2 | 3 |"
    pages.write_table("page.md", "mine", table, summary="| mean")
    assert (tmp_path / "page.md").read_text() == page.format(f"{head}| mean | 2 | 3 |")
    assert (tmp_path / "page.csv").read_text() == 'set,of,right\na,,"1,000"\nmean,2,3\n'
    pages.write_table("other.md", "mine", table)
    assert not (tmp_path / "other.md").exists()
    with pytest.raises(SystemExit, match=r"other\.py"):
        pages.write_table("page.md", "other", table, summary="| mean")


def test_guesses_are_right_as_often_as_said(rng, monkeypatch):
    monkeypatch.setattr(guesses, "BUDGET", 20)
    data = wine()
    for _, right, where in guesses.GUESSERS:
        labels = guesses.guessed(data.X, data.y, right, where, rng)
        assert np.mean(labels == data.y) == pytest.approx(right, abs=0.1)
    assert len(guesses.curve(data, 0, guesses.GUESSERS[0])) == 2


def test_the_table_of_guesses_has_a_line_a_set_and_the_means():
    made = np.tile([0.25, 0.01, -0.02], (len(guesses.GUESSERS), 1))
    lines = guesses.table(1, lambda name, seeds: (2 + (name in {"trec", "digits"}), made)).split(
        "\n"
    )
    assert len(lines) == 2 + len(guesses.SETS) + 4
    assert "**25%**; +1.0; -2.0" in lines[2]
    assert "*all*" in lines[-1]
    assert "± 0.0" in lines[-1]
    assert guesses.needed(np.array([0.5, 0.7, 0.9]), 0.8) == pytest.approx(30)


@pytest.mark.heavy
def test_flipped_labels_are_found():
    need("cleanlab")
    assert min(areas("wine", 0.1, 0)) > 0.8


def test_features_of_texts_are_compared(rng, monkeypatch):
    monkeypatch.setattr(text_features, "LABELS", (30, 60))
    X = rng.normal(size=(400, 3))
    right = text_features.accuracies(X, (X[:, 0] > 0).astype(int), seeds=1)
    assert (right > 0.8).all()


def test_a_semi_supervised_model_is_compared():
    printed = invoke(semi_supervised.main, "wine --seeds 1")
    assert printed.count("|") == 5 * 5
    assert "| 0.1 |" in printed


def test_auto_is_compared_with_retraining(monkeypatch):
    monkeypatch.setattr(auto_fidelity, "SETTINGS", ((60, 1.0),))
    printed = invoke(auto_fidelity.main, "--most 1")
    assert printed.startswith("20 cells; rank correlation >= .95 in 100.00%")


def test_our_side_of_pydvl_scores_every_pair(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(against_pydvl, "CASES", {"rt": (20, 50, 25)})
    against_pydvl.prepare("rt", tmp_path / "rt.npz")
    against_pydvl.run_side("ours", tmp_path / "rt.npz")
    assert json.loads(capsys.readouterr().out) > 0
    assert np.load(tmp_path / "rt.ours.npy").shape == (50, 2)
