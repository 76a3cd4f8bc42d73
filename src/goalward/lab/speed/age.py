"""What age costs: a study of 10³ to 10⁶ answers, opened, looked at, and answered by 50 people.

The study is made as its journal would be after years, in one transaction. The server is the one
that people start, in a process of its own; each of the 50 answers about every five seconds, as quick people do.
"""

from __future__ import annotations

import tempfile
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np
from sqlalchemy import insert

from goalward.lab.speed.client import CLASSES, running
from goalward.lab.speed.race import Ratio, timed
from goalward.studio.store import Ranked, Store, Transaction, events
from goalward.studio.store.events import Mark, canonical, chained
from goalward.studio.store.store import EVENTS
from goalward.studio.study import Study
from goalward.studio.study.tally import add_ranking
from goalward.studio.tables import Table

__all__ = ["age", "aged", "kept_per_ranking"]

PEOPLE, FEATURES = 50, 16
PAGES = {
    "label": "",
    "review": "review",
    "search": "review?search=word7",
    "filters": "review?label=bad&by=p3&only=dev",
    "disagreeing": "review?only=disagreeing",
    "scores": "scores",
    "status": "api/status",
}
"""What is opened, and where it is."""


def age(sizes: tuple[int, ...], tells: int = 500, every: float = 5.0) -> list[Ratio]:
    """Return what a study of each size costs: to open, to look at, and to answer."""
    found: list[Ratio] = []
    for answers in sizes:
        with tempfile.TemporaryDirectory() as folder:
            place = aged(Path(folder), answers)
            opening = [timed(partial(_opened, place))[0] for _ in range(3)]
            pages, waits = served(place, tells, every)
        slowest = max(pages, key=lambda name: pages[name])
        each = ", ".join(f"{name} {1e3 * seconds:.0f} ms" for name, seconds in pages.items())
        name = f"page: {answers:,} answers"
        found += [
            Ratio(f"{name}, open", "and say where it stands", tuple(opening), target="<= 0.5 s"),
            Ratio(
                f"{name}, {slowest}",
                "the slowest page",
                (pages[slowest],),
                (),
                "<= 0.3 s",
                note=each,
            ),
            Ratio(
                f"{name}, an answer by one of {PEOPLE}",
                "99th percentile",
                (float(np.quantile(waits, 0.99)),),
                target="<= 0.02 s",
                note=_spread(waits),
            ),
        ]
    note = f"{kept_per_ranking():.1f} KB of memory stay per ranking, over 10,000"
    return [*found[:-1], replace(found[-1], note=f"{found[-1].note}; {note}")]


def _spread(waits: list[float]) -> str:
    middle, most = 1e3 * np.quantile(waits, [0.5, 0.9])
    return f"median {middle:.0f} ms, 90 % within {most:.0f} ms, {len(waits)} answers, while models are fitted"


def _opened(place: Path) -> None:
    with Study.open(place) as study:
        study.status()


def aged(folder: Path, answers: int) -> Path:
    """Return the place of a study with so many answers, of 50 people, a tenth of its rows open."""
    rows, rng = answers + answers // 10 + 1000, np.random.default_rng(0)
    table = folder / "rows.csv"
    with table.open("w") as file:
        file.write("id,text\n")
        file.writelines(
            f"{i},a text of word{i * 7919 % 1009} and word{i % 1013}\n" for i in range(rows)
        )
    X = rng.standard_normal((rows, FEATURES), dtype=np.float32)
    np.save(table.with_suffix(".npy"), X)
    said = (X @ rng.standard_normal(FEATURES) + rng.standard_normal(rows) > 0).tolist()
    place = folder / "rows.labels.db"
    Study.create(place, pool=Table(str(table), text="text"), classes=CLASSES).close()
    store = Store.open(place)
    last = store.read()[-1]

    def filled(transaction: Transaction) -> None:
        mark, lines = transaction.mark, list[dict[str, Any]]()
        for row in rng.permutation(rows)[:answers].tolist():
            by = f"p{row % PEOPLE}"
            at = 1.7e9 + len(lines)
            told = events.Told(at=at, row=row, label=CLASSES[said[row]], by=by)
            body = canonical(told)
            mark = Mark(mark.seq + 1, chained(mark.digest, mark.seq + 1, body))
            lines.append({"seq": mark.seq, "body": body, "digest": mark.digest})
            if len(lines) == 10_000:
                transaction.connection.execute(insert(EVENTS), lines)
                lines.clear()
        if lines:
            transaction.connection.execute(insert(EVENTS), lines)
        transaction.mark = mark

    store.write(Mark(last.seq, last.digest), filled)
    store.close()
    # Once as a study of an earlier version would be: every event is read, and what is kept is made.
    _opened(place)
    return place


def served(place: Path, tells: int, every: float) -> tuple[dict[str, float], list[float]]:
    """Return seconds of each page, the best of three, and of answers by 50 people, each `every` seconds."""
    waits: list[float] = []
    with running(place.with_name("rows.csv"), "--study", str(place)) as connect:
        call = connect()
        until = perf_counter() + 600.0
        while not call("GET", "/api/curve") and perf_counter() < until:
            sleep(0.2)  # the first model
        pages = {
            name: min(timed(partial(call, "GET", f"/{path}"))[0] for _ in range(3))
            for name, path in PAGES.items()
        }

        def answering(who: int) -> None:
            by, theirs, pause = f"q{who}", connect(who), np.random.default_rng(who)
            held = theirs("POST", "/api/ask", {"by": by, "n": 3})["next"]
            for _ in range(tells // PEOPLE):
                sleep(pause.uniform(0.5, 1.5) * every)
                body = {"by": by, "row": held[0]["row"], "label": CLASSES[held[0]["row"] % 2]}
                seconds, reply = timed(partial(theirs, "POST", "/api/tell", body))
                waits.append(seconds)
                held = reply["next"]

        with ThreadPoolExecutor(PEOPLE) as people:
            list(people.map(answering, range(PEOPLE)))
    return pages, waits


def kept_per_ranking(rankings: int = 10_000) -> float:
    """Return the kilobytes that stay of each ranking of a study."""
    rounds: list[tuple[int, Ranked]] = []
    tracemalloc.start()
    for n in range(rankings):
        add_ranking(rounds, n, _ranking(n))
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return kept / rankings / 1000


def _ranking(n: int) -> Ranked:
    """Return a ranking as large as those of a study are."""
    numbers: Any = dict.fromkeys(("accuracy", "log_loss", "goal", "gain", "goal_before"), n + 0.5)
    stop_set = {
        "predicted": [n % 2] * 1000,
        "uncertainty": n / 3,
        "variance": n / 7,
        "doubt": n / 9,
    }
    return Ranked(
        **numbers,
        at=float(n),
        based_on=n,
        moves=n,
        labels=10 * n,
        dev_labels=n,
        recipe="margin",
        seed=0,
        features="f" * 64,
        versions={"python": "3"},
        queue=tuple(range(n, n + 256)),
        utilities=tuple(np.random.default_rng(n).random(256).tolist()),
        quantiles=tuple(np.random.default_rng(n).random(41).tolist()),
        metric="dev",
        solver=None,
        seconds=n / 11,
        stop_set=stop_set,
    )
