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
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np

from goalward.errors import GoalwardError

__all__ = ["PageLatency", "page_latency"]

CLASSES = ("good", "bad")


@dataclass(frozen=True)
class PageLatency:
    """What was measured.

    Parameters
    ----------
    median, p95, worst
        Seconds from an answer sent to the next rows received; the answer is on disk by then.
    refits, refit_median, refit_worst
        Rankings made meanwhile, and the seconds they took.
    fitting
        Share of the time that a fit was under way.
    """

    rows: int
    features: int
    answers: int
    median: float
    p95: float
    worst: float
    refits: int
    refit_median: float
    refit_worst: float
    fitting: float


def page_latency(
    *, rows: int = 100_000, features: int = 384, answers: int = 500, seed: int = 0
) -> PageLatency:
    """Return the latency of the labelling page under a client that never pauses."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, features), dtype=np.float32)
    truth = X @ rng.standard_normal(features, dtype=np.float32) > 0
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "rows.csv"
        table.write_text("id,text\n" + "".join(f"{i},text of row {i}\n" for i in range(rows)))
        np.save(table.with_suffix(".npy"), X)
        token = secrets.token_urlsafe(32)
        with _Server(table, token) as server, closing(_Client(server.port, token)) as call:
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
    return PageLatency(
        rows=rows,
        features=features,
        answers=answers,
        median=float(np.median(waits)),
        p95=float(np.quantile(waits, 0.95)),
        worst=max(waits),
        refits=len(curve),
        refit_median=float(np.median(curve)),
        refit_worst=max(curve),
        fitting=min(sum(curve) / lasted, 1.0),
    )


class _Server:
    """The command, started and ended as a person would."""

    def __init__(self, table: Path, token: str) -> None:
        command = [sys.executable, "-m", "goalward", "label", str(table), "--text", "text"]
        command += ["--classes", ",".join(CLASSES), "--dev", "20%", "--no-browser", "--port", "0"]
        self.process = subprocess.Popen(
            [*command, "--token", token], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def __enter__(self) -> _Server:
        assert self.process.stdout is not None
        found = re.search(r":(\d+)/start", self.process.stdout.readline())
        if found is None:
            said = self.process.communicate()[1]
            raise GoalwardError(f"The page did not start: {said.strip()[-500:]}")
        self.port = int(found[1])
        return self

    def __exit__(self, *error: object) -> None:
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()


class _Client:
    """One connection that stays open, as a browser's does."""

    def __init__(self, port: int, token: str) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        for _ in range(100):
            try:
                self.connection.connect()
                break
            except OSError:
                sleep(0.05)

    def close(self) -> None:
        """Hang up."""
        self.connection.close()

    def __call__(self, method: str, path: str, body: Any = None) -> Any:
        content = None if body is None else json.dumps(body)
        self.connection.request(method, path, content, self.headers)
        answer = self.connection.getresponse()
        said = json.loads(answer.read())
        if answer.status >= 400:
            raise GoalwardError(f"{method} {path} answered {answer.status}: {said}")
        return said
