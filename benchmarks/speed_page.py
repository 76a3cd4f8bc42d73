"""How long a person at the labelling page waits, over HTTP, while models are fitted.

The server is the one that people start, in a process of its own. First a client answers as fast as it
is let, so that a fit is under way nearly always; then 50 people answer about every five seconds in
studies of 10³ to 10⁶ answers.
"""

from __future__ import annotations

import http.client
import json
import math
import re
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np

from goalward.errors import GoalwardError
from goalward.studio.study import Study
from goalward.studio.tables import Table
from race import Ratio, timed

CLASSES = ("good", "bad")
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
"""Pages that are opened, and their paths."""


def page(quick: bool) -> list[Ratio]:
    """Return the waits for a next row, the seconds of a round, and what the age of a study costs."""
    if find_spec("fastapi") is None:
        note = "pip install goalward[web]"
        return [Ratio("page: answer to next row", "95th percentile", (math.nan,), note=note)]
    texts = 2_000 if quick else 1_000_000
    rows, features = 2_000 if quick else 100_000, 384
    waits, fits, fitting = page_latency(rows, features, answers=20 if quick else 500)
    return [
        Ratio(
            f"page: answer to next row, {rows:,} x {features}",
            "95th percentile",
            (float(np.quantile(waits, 0.95)),),
            target="<= 0.015 s",
            note=f"fits ran {fitting:.0%} of the time; median {1e3 * np.median(waits):.0f} ms",
        ),
        Ratio(
            f"page: a round of fit and scores, {rows:,} x {features}",
            "the slowest",
            (max(fits),),
            target="<= 2 s",
            note=f"{len(fits)} rounds, median {np.median(fits):.2f} s",
        ),
        Ratio(
            f"page: a table of {texts:,} texts to its first question",
            "from the command on",
            (first_question(texts),),
            target="<= 30 s",
            note="their vectors are made behind it",
        ),
        *(age((300,), 50, every=0.1) if quick else age((1000, 10_000, 100_000, 1_000_000))),
    ]


def page_latency(rows: int, features: int, answers: int) -> tuple[list[float], list[float], float]:
    """Return how the page does under a client that never pauses.

    Seconds from each answer sent, which is on disk then, to the next rows received; seconds of the
    fits and rankings made meanwhile; and the share of the time that one was under way.
    """
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, features), dtype=np.float32)
    truth = X @ rng.standard_normal(features, dtype=np.float32) > 0
    waits: list[float] = []
    fits: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        table = _table(Path(folder), X, "text of row {}".format)
        with _new_study(table) as call:
            held = call("POST", "/api/ask", {"by": "bench", "n": 3})["next"]
            for _ in range(answers):
                row = held[0]["row"]
                body = {"by": "bench", "row": row, "label": CLASSES[int(truth[row])]}
                seconds, reply = timed(partial(call, "POST", "/api/tell", body))
                waits.append(seconds)
                held = reply["next"]
            # Those that end after the last answer were under way before it too.
            until = perf_counter() + 120.0
            while not fits and perf_counter() < until:
                fits = [line["seconds"] for line in call("GET", "/api/curve")]
                sleep(0.05)
    if not fits:
        raise GoalwardError(
            f"No model was fitted during {answers} answers in {sum(waits):.1f} s, so nothing was "
            "measured. Ask for more answers."
        )
    return waits, fits, min(sum(fits) / sum(waits), 1.0)


def first_question(rows: int) -> float:
    """Return seconds from `goalward label TABLE` to the first row that a page gets."""
    rng = np.random.default_rng(0)
    words = np.array([f"word{i}" for i in range(5000)])
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "texts.csv"
        with table.open("w") as file:
            file.write("id,text\n")
            for first in range(0, rows, 10_000):
                drawn = words[rng.integers(0, len(words), (min(10_000, rows - first), 20))]
                lines = enumerate(map(" ".join, drawn), start=first)
                file.writelines(f'{i},"{text}, and so on"\n' for i, text in lines)
        started = perf_counter()
        with _new_study(table, "--embeddings", "tfidf") as call:
            held = call("POST", "/api/ask", {"by": "bench", "n": 3})["next"]
            seconds = perf_counter() - started
            assert held[0]["text"]
    return seconds


def age(sizes: tuple[int, ...], tells: int = 500, every: float = 5.0) -> list[Ratio]:
    """Return what a study of each size costs: to open, to look at, and to answer."""
    results: list[Ratio] = []
    for answers in sizes:
        with tempfile.TemporaryDirectory() as folder:
            place = aged(Path(folder), answers)
            opening = tuple(timed(partial(_opened, place))[0] for _ in range(3))
            pages, waits = served(place, tells, every)
        slowest = max(pages, key=lambda name: pages[name])
        each = ", ".join(f"{name} {1e3 * seconds:.0f} ms" for name, seconds in pages.items())
        middle, most, p99 = (float(wait) for wait in np.quantile(waits, [0.5, 0.9, 0.99]))
        spread = f"median {1e3 * middle:.0f} ms, 90 % within {1e3 * most:.0f} ms"
        note = f"{spread}, {len(waits)} answers, while models are fitted"
        name, answer = f"page: {answers:,} answers", f"an answer by one of {PEOPLE}"
        results += [
            Ratio(f"{name}, open", "and say where it stands", opening, target="<= 0.5 s"),
            Ratio(
                f"{name}, {slowest}",
                "the slowest page",
                (pages[slowest],),
                (),
                "<= 0.3 s",
                note=each,
            ),
            Ratio(f"{name}, {answer}", "99th percentile", (p99,), target="<= 0.02 s", note=note),
        ]
    return results


def aged(folder: Path, answers: int) -> Path:
    """Return the place of a study with so many answers, of 50 people, a tenth of its rows open."""
    rows, rng = answers + answers // 10 + 1000, np.random.default_rng(0)
    X = rng.standard_normal((rows, FEATURES), dtype=np.float32)
    good = X @ rng.standard_normal(FEATURES) + rng.standard_normal(rows) <= 0
    words = lambda i: f"a text of word{i * 7919 % 1009} and word{i % 1013}"
    table, place = _table(folder, X, words), folder / "rows.labels.db"
    chosen = rng.permutation(rows)[:answers].tolist()
    with Study.create(place, pool=Table(str(table), text="text"), classes=CLASSES) as study:
        for who in range(PEOPLE):
            mine = [(row, CLASSES[not good[row]]) for row in chosen if row % PEOPLE == who]
            study.tell_many(mine, by=f"p{who}")
    return place


def _opened(place: Path) -> None:
    with Study.open(place) as study:
        study.status()


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


def _table(folder: Path, X: Any, words: Callable[[int], str]) -> Path:
    """Write rows.csv with a text for each row, and its vectors beside it."""
    table = folder / "rows.csv"
    table.write_text("id,text\n" + "".join(f"{i},{words(i)}\n" for i in range(len(X))))
    np.save(table.with_suffix(".npy"), X)
    return table


@contextmanager
def _new_study(table: Path, *options: str) -> Iterator[Callable[..., Any]]:
    """Give a client of a new study."""
    new = ("--text", "text", "--classes", ",".join(CLASSES), "--dev", "20%", *options)
    with running(table, *new) as connect:
        yield connect()


@contextmanager
def running(table: Path, *options: str) -> Iterator[Callable[..., Callable[..., Any]]]:
    """Give what makes clients of `goalward label`, started and ended as a person would."""
    token = secrets.token_urlsafe(32)
    command = [sys.executable, "-m", "goalward", "label", str(table), *options]
    command += ["--no-browser", "--port", "0", "--token", token]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, text=True, **pipes)
    try:
        assert process.stdout is not None
        port = re.search(r":(\d+)/start", process.stdout.readline())
        if port is None:
            raise GoalwardError(
                f"The page did not start: {process.communicate()[1].strip()[-500:]}"
            )
        with ExitStack() as opened:

            def connect(who: int = 0) -> Callable[..., Any]:
                # One connection that stays open, as a browser's does, from an address of its own.
                own = (f"127.0.0.{1 + who}", 0) if sys.platform == "linux" else None
                there = http.client.HTTPConnection(
                    "127.0.0.1", int(port[1]), timeout=60, source_address=own
                )
                return partial(_call, opened.enter_context(closing(there)), token)

            yield connect
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def _call(
    connection: http.client.HTTPConnection, token: str, method: str, path: str, body: Any = None
) -> Any:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    reply = connection.getresponse()
    content = reply.read()
    data = json.loads(content) if "json" in reply.headers["content-type"] else content.decode()
    if reply.status >= 400:
        raise GoalwardError(f"{method} {path} answered {reply.status}: {data}")
    return data
