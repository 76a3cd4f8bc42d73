"""How long an annotator waits: from an answer to the next row, over HTTP, while models are fitted.

The server is the one people start, in a process of its own, over a table of 100,000 rows and
vectors beside it; the client answers as fast as it is let, so a fit is under way nearly always.
"""

from __future__ import annotations

import http.client
import json
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
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np

from goalward.errors import GoalwardError
from goalward.lab.speed.race import Ratio

__all__ = ["PageLatency", "page", "page_latency"]

CLASSES = ("good", "bad")


@dataclass(frozen=True)
class PageLatency:
    """What was measured.

    Parameters
    ----------
    waits
        Seconds from each answer sent to the next rows received; the answer is on disk by then.
    refits
        Seconds of the rankings made meanwhile.
    fitting
        Share of the time that a fit was under way.
    """

    waits: list[float]
    refits: list[float]
    fitting: float


def page(quick: bool) -> list[Ratio]:
    """Return the 95th percentile from an answer to the next row, and the seconds of a round."""
    rows, features = 2_000 if quick else 100_000, 384
    try:
        found = page_latency(rows=rows, features=features, answers=20 if quick else 500)
    except ImportError:
        return [Ratio.missing("answer to next row", "loopback", "pip install goalward[web]")]
    size = f"{rows:,} x {features}"
    waited, fitted = np.median(found.waits), np.median(found.refits)
    return [
        Ratio(
            f"page: answer to next row, {size}",
            "95th percentile",
            (float(np.quantile(found.waits, 0.95)),),
            (),
            "<= 0.015 s",
            note=f"fits ran {found.fitting:.0%} of the time; median {1e3 * waited:.0f} ms",
        ),
        Ratio(
            f"page: a round of fit and scores, {size}",
            "the slowest",
            (max(found.refits),),
            (),
            "<= 2 s",
            note=f"{len(found.refits)} rounds, median {fitted:.2f} s",
        ),
    ]


def page_latency(*, rows: int, features: int, answers: int, seed: int = 0) -> PageLatency:
    """Return the latency of the labelling page under a client that never pauses."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, features), dtype=np.float32)
    truth = X @ rng.standard_normal(features, dtype=np.float32) > 0
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "rows.csv"
        table.write_text("id,text\n" + "".join(f"{i},text of row {i}\n" for i in range(rows)))
        np.save(table.with_suffix(".npy"), X)
        with _served(table) as call:
            held = call("POST", "/api/ask", {"by": "bench", "n": 3})["next"]
            waits, started = [], perf_counter()
            for _ in range(answers):
                row = held[0]["row"]
                body = {"by": "bench", "row": row, "label": CLASSES[int(truth[row])]}
                sent = perf_counter()
                held = call("POST", "/api/tell", body)["next"]
                waits.append(perf_counter() - sent)
            lasted = perf_counter() - started
            # Those that end after the last answer were under way before it too.
            curve: list[float] = []
            until = perf_counter() + 120.0
            while not curve and perf_counter() < until:
                curve = [line["seconds"] for line in call("GET", "/api/curve")]
                sleep(0.05)
    if not curve:
        raise GoalwardError(
            f"No model was fitted during {answers} answers in {lasted:.1f} s; at least one fit was "
            "expected, or nothing was measured. Ask for more answers."
        )
    return PageLatency(waits, curve, min(sum(curve) / lasted, 1.0))


@contextmanager
def _served(table: Path) -> Iterator[Callable[..., Any]]:
    """Give a client of the command, started and ended as a person would."""
    token = secrets.token_urlsafe(32)
    command = [sys.executable, "-m", "goalward", "label", str(table), "--text", "text"]
    command += ["--classes", ",".join(CLASSES), "--dev", "20%", "--no-browser", "--port", "0"]
    command += ["--token", token]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, text=True, **pipes)
    try:
        assert process.stdout is not None
        found = re.search(r":(\d+)/start", process.stdout.readline())
        if found is None:
            said = process.communicate()[1]
            raise GoalwardError(f"The page did not start: {said.strip()[-500:]}")
        # One connection that stays open, as a browser's does.
        connection = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=60)
        with closing(connection):
            for _ in range(100):
                try:
                    connection.connect()
                    break
                except OSError:
                    sleep(0.05)
            yield partial(_call, connection, token)
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
    answer = connection.getresponse()
    said = json.loads(answer.read())
    if answer.status >= 400:
        raise GoalwardError(f"{method} {path} answered {answer.status}: {said}")
    return said
