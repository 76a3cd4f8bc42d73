"""A server that is killed while people answer: what was acknowledged is there once, and exports agree."""

import os
import signal
import threading
from http.client import HTTPException

import polars as pl
import pytest

import goalward as gw
from goalward.errors import GoalwardError
from goalward.studio.store import events
from speed_page import running
from tests.conftest import need
from tests.studio.server.conftest import texts, truth

need("fastapi")

RESTARTS = int(os.environ.get("GOALWARD_RESTARTS", "1"))
PEOPLE, ANSWERS = 8, 5


@pytest.mark.often
def test_every_acknowledged_answer_is_there_once(tmp_path, tried):
    table = tmp_path / "rows.csv"
    said = texts(60 * PEOPLE * (RESTARTS + 1))
    pl.DataFrame({"id": [f"r{i}" for i in range(len(said))], "text": said}).write_csv(table)
    place, told, lock = tmp_path / "rows.labels.db", {}, threading.Lock()

    def answering(page, who, killed):
        given = 0
        with page.client(who) as call:
            try:
                held = call("POST", "/api/ask", {"by": f"p{who}", "n": 3})["next"]
                while held and not killed.is_set():
                    row, label = held[0]["row"], truth(held[0]["text"])
                    body = {"by": f"p{who}", "row": row, "label": label}
                    reply = call("POST", "/api/tell", body)
                    with lock:
                        told[row, f"p{who}"] = (label, reply["seq"])
                    held, given = reply["next"], given + 1
                    if given >= ANSWERS and who == 0:
                        killed.set()
                        os.kill(page.process, signal.SIGKILL)
            except (GoalwardError, HTTPException, OSError):
                pass  # the server is gone: this answer was not acknowledged

    new = ("--text", "text", "--classes", "good,bad", "--study", str(place))
    for _ in range(RESTARTS):
        killed = threading.Event()
        with running(table, *new) as page:
            people = [
                threading.Thread(target=answering, args=(page, who, killed))
                for who in range(PEOPLE)
            ]
            for person in people:
                person.start()
            for person in people:
                person.join(120)
        new = ("--study", str(place))
    assert len(told) >= RESTARTS * ANSWERS
    with gw.Study.open(place) as study:
        study.check()
        journal = [e for e in study._ledger.store.read() if isinstance(e.event, events.Told)]
        stored = {(e.event.row, e.event.by): (e.event.label, e.seq) for e in journal}
        assert len(stored) == len(journal)  # none twice
        assert stored | told == stored
        out = tmp_path / "answers.csv"
        study.export(out, every=True)
    listed = pl.read_csv(out)
    exported = {(row["row"], row["by"]): (row["label"], row["seq"]) for row in listed.to_dicts()}
    assert exported == stored
    tried(RESTARTS)
