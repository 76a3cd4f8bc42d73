"""What studies say, played beside the truth."""

import re
from pathlib import Path

import polars as pl
import pytest

from goalward.errors import BadParameter
from tests.benchmarks import invoke
from trust import advice, advice_summary, in_markdown, main

DOCS = Path(__file__).parents[2] / "docs"


def test_a_session_is_played_once_and_told_beside_the_truth(tmp_path):
    options = {"seeds": 1, "budget": 60, "out": tmp_path, "n_jobs": 1, "progress": False}
    table = advice(["wine"], **options)
    assert set(table["kept"]) == {True, False}
    whole = table.filter(~pl.col("kept"))
    assert (whole["answers"] == whole["labels"]).all()
    tenth = table.filter("kept")
    assert ((tenth["answers"] - tenth["labels"] - tenth["labels"] / 9).abs() <= 0.5).all()
    assert (table["low"] <= table["value"]).all()
    assert (table["value"] <= table["high"]).all()
    assert not table.filter(pl.col("answers") < 30)["stop"].any()
    before = (tmp_path / "advice.jsonl").read_bytes()
    assert advice(["wine"], **options).equals(table)
    assert (tmp_path / "advice.jsonl").read_bytes() == before


@pytest.mark.heavy
@pytest.mark.parametrize("task", ["labels", "numbers"])
def test_studies_of_labels_and_numbers_are_played_beside_the_truth(tmp_path, task):
    name = "digits" if task == "labels" else "diabetes"
    options = {"task": task, "seeds": 1, "budget": 60, "n_jobs": 1, "progress": False}
    table = advice([name], **options, out=tmp_path)
    assert set(table["kept"]) == {True, False}
    assert (
        table.filter(~pl.col("kept"))["answers"] == table.filter(~pl.col("kept"))["labels"]
    ).all()
    last = table.filter(pl.col("answers") >= 30)
    assert (last["low"] < last["value"]).all()
    assert (last["value"] < last["high"]).all()
    assert last.filter(pl.col("truth").is_between("low", "high")).height >= 0.7 * last.height
    assert advice_summary(table)["runs"].to_list() == [1, 1, 1, 1]
    again = advice([name], **options, out=tmp_path)
    assert again.equals(table)
    with pytest.raises(BadParameter, match="labels, numbers"):
        advice(task="tables", out=tmp_path)


def rounds(curve, stop):
    lines = [
        {"dataset": "x", "seed": 0, "kept": False, "answers": 10 * (i + 1), "labels": 10 * (i + 1)}
        | {"truth": y, "value": y + 0.01, "low": y - 0.05, "high": y + 0.05}
        | {"curve": y, "most": 0.01, "stop": i >= stop}
        for i, y in enumerate(curve)
    ]
    return pl.DataFrame(lines)


@pytest.mark.parametrize("stop", [5, 18, 19, 29, 30, 40])
def test_a_word_to_stop_is_judged_by_what_was_still_to_be_had(stop):
    curve = [0.5 + 0.01 * min(i, 20) for i in range(40)]
    found = advice_summary(rounds(curve, stop)).row(0, named=True)
    # At the place 18 the two points up to 20 are left, less a third of one that smoothing takes.
    end = 18
    assert found["wrong"] == (stop < end)
    assert found["ended"] == 1
    assert found["in_time"] == (stop <= end + 10)
    assert found["held"] == 1.0
    assert found["width"] == pytest.approx(0.1)
    assert found["off"] == pytest.approx(0.01)


def shown(page):
    """The lines of a page's tables of trust, with the line of all sets among them."""
    head = re.escape(in_markdown(pl.read_csv(DOCS / "trust.csv"), kept=True).splitlines()[0])
    lines = re.search(rf"^{head}\n(?:\|.*\n)+", (DOCS / page).read_text("utf-8"), re.MULTILINE)
    assert "**all**" in lines[0]
    return set(lines[0].splitlines())


def test_the_page_has_lines_of_the_table_that_is_kept_and_it_shows_what_is_claimed():
    kept = pl.read_csv(DOCS / "trust.csv")
    assert shown("trust.md") <= set(in_markdown(kept, kept=True).splitlines())
    for whether in (True, False):
        total = kept.filter(pl.col("kept") == whether, dataset="all").row(0, named=True)
        assert total["held"] >= 0.9
        assert total["within"] >= 0.9
        assert total["wrong"] < 0.05 * total["runs"]
        assert total["in_time"] >= 0.5 * total["ended"]
    assert kept.filter("kept", dataset="all")["width"].item() <= 0.25
    assert kept["dataset"].n_unique() > 8


@pytest.mark.parametrize("task", ["labels", "numbers"])
def test_the_page_of_labels_and_numbers_says_what_the_kept_tables_do(task):
    kept = pl.read_csv(DOCS / f"trust-{task}.csv")
    page = " ".join((DOCS / "labels-and-numbers.md").read_text("utf-8").split())
    told = kept.filter("kept", dataset="all").row(0, named=True)
    assert f"{100 * told['held']:.0f} %" in page
    assert f"{told['wrong']} of {told['runs']} runs" in page
    for total in kept.filter(dataset="all").iter_rows(named=True):
        assert total["held"] >= 0.9
        assert total["wrong"] <= 0.15 * total["runs"]


def test_the_command_writes_the_tables(tmp_path):
    invoke(main, f"wine --seeds 1 --budget 40 --jobs 1 --out {tmp_path}")
    assert pl.read_csv(tmp_path / "trust.csv").height == 4
    assert (tmp_path / "trust.md").read_text().count("**all**") == 2
