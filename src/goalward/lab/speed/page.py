"""How long an annotator waits: from an answer to the next row, over HTTP, while models are fitted.

The server is the one people start, in a process of its own, over a table of 100,000 rows and
vectors beside it; the client answers as fast as it is let, so a fit is under way nearly always.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np

from goalward.errors import GoalwardError
from goalward.lab.speed.age import age
from goalward.lab.speed.client import CLASSES, running
from goalward.lab.speed.race import Ratio, timed

__all__ = ["page", "page_latency"]


def page(quick: bool) -> list[Ratio]:
    """Return the 95th percentile from an answer to the next row, and the seconds of a round."""
    if find_spec("fastapi") is None:
        note = "pip install goalward[web]"
        return [Ratio("page: answer to next row", "95th percentile", (math.nan,), note=note)]
    texts = 20_000 if quick else 1_000_000
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
        *age((1000,) if quick else (1000, 10_000, 100_000, 1_000_000), 100 if quick else 500),
    ]


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
        with _served(table, "--embeddings", "tfidf") as call:
            held = call("POST", "/api/ask", {"by": "bench", "n": 3})["next"]
            seconds = perf_counter() - started
            assert held[0]["text"]
    return seconds


def page_latency(rows: int, features: int, answers: int) -> tuple[list[float], list[float], float]:
    """Return how the labelling page does under a client that never pauses.

    Seconds from each answer sent, which is on disk then, to the next rows received; seconds of the
    fits and rankings made meanwhile; and the share of the time that one was under way.
    """
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, features), dtype=np.float32)
    truth = X @ rng.standard_normal(features, dtype=np.float32) > 0
    waits: list[float] = []
    fits: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "rows.csv"
        table.write_text("id,text\n" + "".join(f"{i},text of row {i}\n" for i in range(rows)))
        np.save(table.with_suffix(".npy"), X)
        with _served(table) as call:
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
            f"No model was fitted during {answers} answers in {sum(waits):.1f} s; at least one fit was "
            "expected, or nothing was measured. Ask for more answers."
        )
    return waits, fits, min(sum(fits) / sum(waits), 1.0)


@contextmanager
def _served(table: Path, *options: str) -> Iterator[Callable[..., Any]]:
    """Give a client of a new study."""
    new = ("--text", "text", "--classes", ",".join(CLASSES), "--dev", "20%", *options)
    with running(table, *new) as connect:
        yield connect()
