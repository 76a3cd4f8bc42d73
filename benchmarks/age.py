"""What the age of a study costs: `python benchmarks/age.py --answers 1000 10000 --keep out/age`.

For each number of answers a study of 50 people is made and served by the command that people use, in
a process of its own. Measured are the opening, every page, and what an answer takes while clients in
another process answer about once a second each and models are fitted; and the memory, from /proc.
Answers are due whether or not earlier ones were stored: a wait counts from when one was due.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException
from importlib import import_module
from math import ceil
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter, sleep
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import polars as pl

from goalward.errors import GoalwardError
from goalward.studio.study import Study
from goalward.studio.tables import Table
from pages import tracked
from race import timed
from speed_page import CLASSES, ServedPage, running, write_table

PEOPLE, FEATURES, BLOCK, AGAIN = 50, 16, 4000, 20
"""Answers are stored in blocks; every 20th is a second opinion, of which a fifth disagrees."""
COPY, SPARE = "age_copy", 5000
"""What is kept stays as it is; beside a tenth of the answers so many rows are open for clients."""
PAGES = {
    "label": "/",
    "review": "/review",
    "doubted": "/review?only=doubted",
    "disagreeing": "/review?only=disagreeing",
    "search": "/review?search=word7",
    "filters": "/review?label=bad&by=p3&only=dev",
    "last": "/review?at={last}",
    "scores": "/scores",
    "status": "/api/status",
    "stop": "/api/stop?price=0.001",
    "curve": "/api/curve",
    "agreement": "/api/agreement",
}
"""Pages that are opened, and their paths."""
OPENING = """import sys, time; from goalward import Study; began = time.perf_counter()
Study.open(sys.argv[1]).status(); print(time.perf_counter() - began)"""


@dataclass(frozen=True)
class Shelf:
    """Where studies are kept: files of a folder, or databases of a PostgreSQL server."""

    folder: Path
    postgres: str = ""

    def place(self, name: str) -> str:
        if self.postgres:
            return urlsplit(self.postgres)._replace(path=f"/{name}").geturl()
        return str(self.folder / f"{name}.labels.db")

    def new(self, name: str, like: str = "") -> str:
        """Return a free place, or that of a copy; what is there is taken away."""
        self.remove(name)
        if self.postgres:
            self._run(f"CREATE DATABASE {name} {f'TEMPLATE {like}' if like else ''}")
        elif like:
            shutil.copy(self.place(like), self.place(name))
        return self.place(name)

    def remove(self, name: str) -> None:
        if self.postgres:
            self._run(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        for path in self.folder.glob(f"{name}.labels.db*"):
            path.unlink()

    def _run(self, statement: str) -> None:
        connect = import_module("psycopg").connect
        with closing(connect(self.postgres, autocommit=True)) as connection:
            connection.execute(statement)


def aged(shelf: Shelf, answers: int) -> tuple[str, Path]:
    """Return the name of a study with so many answers, made where it is not kept, and its table."""
    name, table = f"age_{answers}", shelf.folder / f"rows_{answers}" / "rows.csv"
    made = table.with_name("on-postgresql" if shelf.postgres else "on-sqlite")
    if made.exists():
        return name, table
    rows, rng = answers + ceil(answers / 10) + SPARE, np.random.default_rng(0)
    X = rng.standard_normal((rows, FEATURES), dtype=np.float32)
    bad = X @ rng.standard_normal(FEATURES) + rng.standard_normal(rows) > 0
    table.parent.mkdir(parents=True, exist_ok=True)
    words = lambda i: f"word{i * 7919 % 1009} and word{i % 1013} are {CLASSES[int(bad[i])]}"
    write_table(table.parent, X, words)
    again = answers // AGAIN
    chosen = rng.permutation(rows)[: answers - again]
    size = max(1, min(BLOCK, len(chosen) // PEOPLE))
    # One after another has a block of rows; then each has some that another answered.
    blocks = [chosen[place : place + size] for place in range(0, len(chosen), size)]
    seconds = rng.permutation(len(chosen))[:again]
    others = (seconds // size + rng.integers(1, PEOPLE, again)) % PEOPLE
    firsts, blocks = len(blocks), [*blocks, *(chosen[seconds[others == p]] for p in range(PEOPLE))]
    options: dict[str, Any] = {"pool": Table(str(table), text="text"), "classes": CLASSES}
    with Study.create(shelf.new(name), **options, dev=0.1) as study:
        for number, block in tracked([*enumerate(blocks)], f"{answers:,} answers"):
            wrong = bad[block] ^ (number >= firsts) * (block % 5 == 0)
            said = [(row, CLASSES[int(k)]) for row, k in zip(block.tolist(), wrong, strict=True)]
            study.tell_many(said, by=f"p{(number - firsts * (number >= firsts)) % PEOPLE}")
        study.refresh()
    Study.open(shelf.place(name)).close()  # as every old study was, once or more
    made.touch()
    return name, table


def opened(place: str) -> float:
    """Return the seconds in which a new process opens a study and says where it stands."""
    command = [sys.executable, "-c", OPENING, place]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def paged(call: Callable[..., Any]) -> dict[str, float]:
    """Return the milliseconds of each page, the slowest of three."""
    last = call("GET", "/api/answers")["pages"] - 1
    gets = {n: partial(call, "GET", path.format(last=last)) for n, path in PAGES.items()}
    return {f"{n} ms": 1e3 * max(timed(get)[0] for _ in range(3)) for n, get in gets.items()}


def crowd(page: ServedPage, clients: int, seconds: float) -> tuple[list[float], int]:
    """Return the seconds that each answer took from when it was due, and how many failed."""
    began = perf_counter() + 0.5

    def answering(who: int) -> tuple[list[float], int]:
        think, waits, failed = np.random.default_rng(who), list[float](), 0
        due = began + think.uniform(0.0, 1.0)
        with page.client(who) as call:
            held = call("POST", "/api/ask", {"by": f"q{who}", "n": 3})["next"]
            while due < began + seconds:
                sleep(max(0.0, due - perf_counter()))
                row = held[0]
                body = {"by": f"q{who}", "row": row["row"], "label": row["text"].split()[-1]}
                try:
                    held = call("POST", "/api/tell", body)["next"]
                except (GoalwardError, HTTPException, OSError):
                    failed += 1
                waits.append(perf_counter() - due)
                due += think.uniform(0.5, 1.5)
        return waits, failed

    with ThreadPoolExecutor(max(clients, 1)) as people:
        found = list(people.map(answering, range(clients)))
    return [wait for waits, _ in found for wait in waits], sum(failed for _, failed in found)


def answered(page: ServedPage, clients: int, seconds: float) -> dict[str, float]:
    """Return what answers of many took, the share of the samples with a fit, and the memory."""
    samples: list[tuple[bool, float]] = []
    with ProcessPoolExecutor(1, get_context("spawn")) as others, page.client() as call:
        others.submit(crowd, page, 0, 0.0).result()  # its imports are done then
        busy = others.submit(crowd, page, clients, seconds)
        while not busy.done():
            samples.append((call("GET", "/api/status")["fitting"], memory(page.process)[1]))
            sleep(0.2)
        waits, failed = busy.result()
    (share, _), (own, children) = np.mean(samples, axis=0), memory(page.process)
    if share < 0.2:
        print(f"A fit was under way in only {share:.0%} of the samples.", file=sys.stderr)
    p50, p90, p99, most = (1e3 * float(wait) for wait in np.quantile(waits, [0.5, 0.9, 0.99, 1]))
    return {
        **{"load": os.getloadavg()[0], "fitting %": 100 * share, "told": len(waits)},
        **{"failed": failed, "p50 ms": p50, "p90 ms": p90, "p99 ms": p99, "max ms": most},
        **{"server end MB": own, "server peak MB": megabytes(page.process, "VmHWM")},
        **{"children end MB": children, "children peak MB": max(sample[1] for sample in samples)},
    }


def megabytes(process: int, field: str = "VmRSS") -> float:
    """Return what /proc says of a process; 0 where it has ended."""
    with suppress(OSError):
        found = re.search(rf"\b{field}:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
        return int(found[1]) / 1024 if found else 0.0
    return 0.0


def memory(process: int) -> tuple[float, float]:
    """Return the megabytes of a process, and of all that it started."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    family = {process}
    while more := {child for child, parent in parents.items() if parent in family} - family:
        family |= more
    return megabytes(process), sum(map(megabytes, family - {process}))


def measured(shelf: Shelf, answers: int, clients: int, seconds: float) -> dict[str, float]:
    """Return all that is measured of a study with so many answers."""
    name, table = aged(shelf, answers)
    place = shelf.new(COPY, like=name)
    opening, began = max(opened(place) for _ in range(3)), perf_counter()
    with running(table, "--study", place) as page, page.client() as call:
        call("GET", "/")
        found = {"answers": answers, "open s": opening, "first page s": perf_counter() - began}
        own, children = memory(page.process)
        found |= paged(call) | {"server MB": own, "children MB": children}
        return found | answered(page, clients, seconds)


def markdown(lines: list[dict[str, float]]) -> str:
    """Return the measurements as a table for a page, a line a size."""
    cells = [
        [f"{v:,.{2 * n.endswith((' s', 'load'))}f}" for n, v in line.items()] for line in lines
    ]
    return "\n".join(f"| {' | '.join(c)} |" for c in (lines[0], ["---:"] * len(lines[0]), *cells))


def main(words: list[str] | None = None) -> None:
    """Measure studies of each size, and print and save a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add, sizes = parser.add_argument, [10**3, 10**4, 10**5, 10**6]
    add("--answers", type=int, nargs="+", default=sizes, help="How old the studies are.")
    add("--clients", type=int, default=20, help="Who answer, each about once a second.")
    add("--seconds", type=float, default=60.0, help="How long they answer.")
    add("--postgres", default="", help="A database of a server, which makes others for studies.")
    add("--keep", type=Path, help="Folder in which made studies stay.")
    add("--out", type=Path, default=Path("out/age.csv"), help="File for the table.")
    given = parser.parse_args(words)
    most = SPARE + min(given.answers) // 10
    if not 1 <= given.clients <= given.clients * given.seconds <= most:
        parser.error(f"--clients times --seconds must be at most {most:,}.")
    lines: list[dict[str, float]] = []
    with ExitStack() as ends:
        folder = given.keep or Path(ends.enter_context(tempfile.TemporaryDirectory()))
        shelf = Shelf(folder.resolve(), given.postgres)
        ends.callback(shelf.remove, COPY)
        for answers in given.answers:
            if given.keep is None:
                ends.callback(shelf.remove, f"age_{answers}")
            lines.append(measured(shelf, answers, given.clients, given.seconds))
            given.out.parent.mkdir(parents=True, exist_ok=True)
            pl.DataFrame(lines).write_csv(given.out)
    print(markdown(lines))


if __name__ == "__main__":
    main()
