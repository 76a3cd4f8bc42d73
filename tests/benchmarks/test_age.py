"""Old studies are made as said, kept, and measured from opening to memory, at sizes that take seconds."""

import csv
import os
import subprocess
import sys

import pytest

import goalward as gw
from age import PAGES, Shelf, aged, main, megabytes, memory
from tests.conftest import need


def test_an_aged_study_is_whole_and_kept(tmp_path):
    shelf = Shelf(tmp_path)
    name, table = aged(shelf, 400)
    with gw.Study.open(shelf.place(name)) as study:
        status = study.status()
        assert (status["answers"], status["labels"], status["rows"]) == (400, 380, 5440)
        assert study.check() == 402
        assert len(study.state.annotators) == 50
        assert 0 < status["disagreements"] < 20
        before = study.state.seq
    place = shelf.new("age_copy", like=name)
    with gw.Study.open(place) as copy:
        copy.tell(0, "good", by="q0")
    assert aged(shelf, 400) == (name, table)
    with gw.Study.open(shelf.place(name)) as study:
        assert study.state.seq == before
    shelf.remove("age_copy")
    assert [path.name for path in tmp_path.glob("*.db*")] == ["age_400.labels.db"]


@pytest.mark.heavy
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_every_page_answer_and_megabyte_is_measured(tmp_path, capsys):
    need("fastapi")
    words = ["--answers", "300", "--clients", "3", "--seconds", "2", "--out"]
    main([*words, str(tmp_path / "age.csv")])
    with (tmp_path / "age.csv").open() as file:
        (line,) = csv.DictReader(file)
    head, _, row = capsys.readouterr().out.strip().splitlines()
    assert head == f"| {' | '.join(line)} |"
    assert row.startswith("| 300 |")
    found = {name: float(cell) for name, cell in line.items()}
    assert all(found[f"{page} ms"] > 0 for page in PAGES)
    assert found["told"] >= 3
    assert found["failed"] == 0
    assert 0 < found["p50 ms"] <= found["p90 ms"] <= found["p99 ms"] <= found["max ms"]
    assert 0 <= found["fitting %"] <= 100
    assert 50 < found["server MB"] <= found["server peak MB"]


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_memory_of_children_is_counted_apart():
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", "print(flush=True); input()"], **pipes) as child:
        child.stdout.readline()  # it has begun, however busy the machine is
        own, children = memory(os.getpid())
        assert own > 50
        assert children >= megabytes(child.pid) > 1
        child.communicate(b"\n")
    assert megabytes(child.pid) == 0
