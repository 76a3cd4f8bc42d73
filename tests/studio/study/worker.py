"""A busy labelling run that is killed from outside: all it does is reported once it is stored."""

import csv
import time
from itertools import count

from goalward.studio.study import Study


def truth(row):
    return "high" if row % 100 >= 50 else "low"


def work(place, by, report):
    """Ask, answer, undo, rank."""
    study = Study.open(place)
    while True:
        for row in study.ask(3, by=by):
            study.tell(row, truth(row), by=by)
            report.send_bytes(str(row).encode())
        if len(study.state.labels) % 4 == 0:
            study.undo(by=by)
            report.send_bytes(b"undo")


def answer(place, by, report, rows):
    """Answer these, and wait for the end."""
    study = Study.open(place)
    for row in rows:
        study.tell(row, truth(row), by=by)
        report.send_bytes(str(row).encode())
    while True:
        time.sleep(60)


def busy(place, by, report, folder):
    """Import, rank, export, back up and create, in turns; files are named by what is in them."""
    study = Study.open(place)
    start = max([row for row in study.state.labels if row < 2900], default=-1) + 1
    for turn in count():
        rows = range(start + 5 * turn, start + 5 * turn + 5)
        labels = folder / f"{rows[0]}.in.csv"
        with labels.open("w", newline="") as file:
            lines = [(row, truth(row), f"{by}{row % 2}") for row in rows]
            csv.writer(file).writerows([("row", "label", "by"), *lines])
        study.import_labels(labels)
        report.send_bytes(f"import {rows[0]}".encode())
        study.refresh(force=True)
        report.send_bytes(b"refresh")
        # An earlier run may have been killed after it had written, before it could say so.
        study.export(folder / f"{rows[0]}.out.csv")
        report.send_bytes(f"export {rows[0]}".encode())
        study.backup(folder / f"{rows[0]}.backup.db")
        report.send_bytes(f"backup {rows[0]}".encode())
        Study.create(folder / f"{rows[0]}.new.db", pool=[[0.0], [1.0]], classes=["a", "b"]).close()
        report.send_bytes(f"create {rows[0]}".encode())


def repeat(place, by, report):
    """Answer the first rows over and over, now so, now otherwise: there is no end to that."""
    study = Study.open(place)
    for turn in count():
        study.tell(turn % 100, ("low", "high")[turn // 100 % 2], by=by)
        report.send_bytes(b"told")
        time.sleep(0.002)


def grow(place, by, report):
    """Add rows, one at a time, and not so many that they take all the time."""
    study = Study.open(place)
    while True:
        study.extend([[0.5]])
        report.send_bytes(b"grown")
        time.sleep(0.02)
