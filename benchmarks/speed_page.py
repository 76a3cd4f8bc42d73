"""How long a person at the labelling page waits, over HTTP, while models are fitted.

The server is the one that people start, in a process of its own. A client answers as fast as it is
let, so that a fit is under way nearly always. What old studies cost is measured by `age.py`.
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
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np

from goalward.errors import GoalwardError
from race import Ratio, timed

CLASSES = ("good", "bad")


def page(quick: bool) -> list[Ratio]:
    """Return the waits for a next row, the seconds of a round, and of a first question."""
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
        table = write_table(Path(folder), X, "text of row {}".format)
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


def write_table(folder: Path, X: Any, words: Callable[[int], str]) -> Path:
    """Write rows.csv with a text for each row, and its vectors beside it."""
    table = folder / "rows.csv"
    table.write_text("id,text\n" + "".join(f"{i},{words(i)}\n" for i in range(len(X))))
    np.save(table.with_suffix(".npy"), X)
    return table


@contextmanager
def _new_study(table: Path, *options: str) -> Iterator[Callable[..., Any]]:
    """Give a client of a new study."""
    new = ("--text", "text", "--classes", ",".join(CLASSES), "--dev", "20%", *options)
    with running(table, *new) as served, served.client() as call:
        yield call


@dataclass(frozen=True)
class ServedPage:
    """A page that is served: its process, and where and with what it is called."""

    process: int
    port: int
    token: str

    @contextmanager
    def client(self, who: int = 0) -> Iterator[Callable[..., Any]]:
        """Give what calls the page, over one connection that stays open, as a browser's does."""
        own = (f"127.0.0.{1 + who}", 0) if sys.platform == "linux" else None  # each its address
        there = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60, source_address=own)
        with closing(there):
            yield partial(_call, there, self.token)


@contextmanager
def running(table: Path, *options: str) -> Iterator[ServedPage]:
    """Give the page of `goalward label`, started and ended as a person would."""
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
        yield ServedPage(process.pid, int(port[1]), token)
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
    try:
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        reply = connection.getresponse()
        content = reply.read()
    except BaseException:
        connection.close()  # the next call opens it anew
        raise
    data = json.loads(content) if "json" in reply.headers["content-type"] else content.decode()
    if reply.status >= 400:
        raise GoalwardError(f"{method} {path} answered {reply.status}: {data}")
    return data
