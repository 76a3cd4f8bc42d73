"""Make studies in the format of this version, which every later version must read.

python scripts/make_fixtures.py [FOLDER]

Writes a study of one class, one of several labels and one of numbers, their models, a team, a dump
of the first from PostgreSQL, and what this version says of each. Needs PostgreSQL.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import tomllib
import warnings
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import goalward as gw
from goalward.studio.study import copies
from goalward.studio.team import Team

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "tests/studio/study/format1"
BEGAN = 1_795_046_400.0
"""The first second of 19 November 2026; each look at the clock is a second later."""
WORDS = "four words of mine"
TABLES = {"class": "rings.csv", "labels": "tickets.csv"}
"""Study -> the table that it points to."""


def clock(after: int = 0) -> Callable[[], float]:
    ticks = count(after)
    return lambda: BEGAN + next(ticks)


def rounds(study: gw.Study, truth: Callable[[int, str], Any], people: list[str], n: int) -> None:
    """Let people answer n questions each, in turns."""
    for turn in range(n):
        for by in people:
            for row in study.ask(1, by=by, at_most=True, refresh=turn % 6 == 5):
                study.tell(row, truth(row, by), by=by)


def rings() -> pl.DataFrame:
    """Rows in three rings, which no straight line parts, each with a guess that is often right."""
    rng = np.random.default_rng(1)
    radius, angle = rng.uniform(0, 3, 72), rng.uniform(0, 2 * np.pi, 72)
    names = np.array(["inside", "between", "rim"])
    guess = np.where(rng.random(72) < 0.8, names[radius.astype(int)], "inside")
    xy = {"x": (radius * np.cos(angle)).round(3), "y": (radius * np.sin(angle)).round(3)}
    return pl.DataFrame({"id": [f"r{i}" for i in range(72)], **xy, "guess": guess})


def made_class(home: Path) -> gw.Study:
    """Classes by two annotators, features chosen, guesses, a class declared late, rows added late."""
    frame, table = rings(), home / TABLES["class"]
    frame[:64].write_csv(table)
    pool = gw.tables.Table(str(table), numeric=("x", "y"), alone=True)
    settings = {"answers": 2, "dev": 0.25, "refit": 8, "seed": 3, "lease": 3600.0}
    study = gw.Study.create(
        home / "class.db",
        pool=pool,
        classes=["inside", "between"],
        guesses="guess",
        clock=clock(),
        **settings,
    )
    radius = np.hypot(frame["x"], frame["y"]).to_numpy()
    names = ["inside", "between"]

    def truth(row: int, by: str) -> str:
        right = min(int(radius[row]), len(names) - 1)
        # Bo is wrong about some rows.
        return names[(right + 1) % len(names) if by == "bo" and row % 7 == 0 else right]

    rounds(study, truth, ["ann", "bo"], 6)
    study.add_class("edge")
    study.describe("edge", name="rim", colour="#1b9e77", text="further out than 2")
    study.describe(text="Look at the distance from the middle.")
    names.append("rim")
    rounds(study, truth, ["ann", "bo"], 14)
    corrected = next(row for row, label in study.state.labels.items() if radius[row] > 2)
    study.tell(corrected, "rim", by="ann")
    frame.write_csv(table)
    study.extend()
    rounds(study, truth, ["ann", "bo", "cy"], 8)
    leave_some(study, truth)
    study.exported("labels.csv", by="ann")
    study.refresh(force=True)
    return study


def leave_some(study: gw.Study, truth: Callable[[int, str], Any]) -> None:
    """Skip, note, undo and take back; one question stays open."""
    skipped, undone, withdrawn, given_back, noted = study.ask(5, by="ann", refresh=False)
    study.skip(skipped, by="ann")
    study.note(noted, "Is this one still “inside”? 円", by="ann")
    study.tell(noted, truth(noted, "ann"), by="ann")
    study.tell(withdrawn, truth(withdrawn, "ann"), by="ann")
    study.withdraw(withdrawn, by="ann")
    study.withdraw(given_back, by="ann")
    study.tell(undone, truth(undone, "ann"), by="ann")
    assert study.undo(by="ann") == undone


def tickets() -> list[str]:
    """Return 48 short texts that are about money, about something broken, both or neither."""
    about = ["the invoice", "a refund", "the app", "the login"]
    what = ["is wrong", "is too late", "crashes", "does not start", "was fine", "is missing again"]
    return [
        f"{a.capitalize()} {w}{end}" for a in about for w in what for end in ("!", " since May.")
    ]


def made_labels(home: Path) -> gw.Study:
    """Several labels of texts in a table; some rows answered in part."""
    texts, table = tickets(), home / TABLES["labels"]
    pl.DataFrame({"number": range(100, 148), "text": texts}).write_csv(table)
    study = gw.Study.create(
        home / "labels.db",
        pool=gw.tables.Table(str(table), text="text", alone=True),
        classes=["money", "broken", "urgent"],
        learner=gw.MultiLabel(C="loo", features="auto"),
        dev=0.2,
        refit=6,
        seed=5,
        clock=clock(),
        lease=3600.0,
    )

    def truth(row: int, by: str) -> dict[str, bool | None]:
        about, what = row // 12, row // 2 % 6
        urgent = None if by == "bo" and row % 3 == 0 else row % 2 == 0
        return {"money": about < 2, "broken": what in (2, 3), "urgent": urgent}

    rounds(study, truth, ["ann", "bo"], 12)
    leave_some(study, truth)
    study.refresh(force=True)
    return study


def made_numbers(home: Path) -> gw.Study:
    """Numbers of rows kept inside the study, rows added late, and an event that was lost."""
    X = np.random.default_rng(2).uniform(-2, 2, size=(48, 3)).round(3)
    settings: dict[str, Any] = {"dev": 0.2, "refit": 6, "seed": 7, "lease": 3600.0}
    study = gw.Study.create(
        home / "damaged.db",
        pool=X[:42],
        classes=["price"],
        learner=gw.Ridge(alpha="loo", features="auto"),
        clock=clock(),
        **settings,
    )
    price = 3.0 + X[:, 0] ** 2 - X[:, 1] + 0.1 * np.sin(9 * X[:, 2])

    def truth(row: int, by: str) -> float:
        return round(float(price[row]), 2)

    rounds(study, truth, ["ann", "bo"], 8)
    study.note(0, "This note will be damaged.", by="bo")
    study.close()
    with sqlite3.connect(home / "damaged.db") as file:
        file.execute("UPDATE goalward_events SET body = upper(body) WHERE body LIKE '%damaged%'")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gw.errors.EventsLost)
        gw.Study.recover(home / "damaged.db", home / "numbers.db").close()
    study = gw.Study.open(home / "numbers.db", clock=clock(after=300))
    study.extend(X[42:])
    rounds(study, truth, ["ann"], 10)
    leave_some(study, truth)
    study.refresh(force=True)
    return study


def made_team(home: Path) -> None:
    """An owner, an annotator of one study, one who was removed, and a link that nobody used yet."""
    team = Team.create(home / "team.db", clock=clock())
    for name, role, study in (("Ann", "owner", ""), ("Bo", "annotator", "4f"), ("Ed", "owner", "")):
        team.join(team.invite(name, role, study=study), WORDS)
    for name in ("ann", "ed"):
        session = team.sign_in(name, WORDS, "10.0.0.1")
    assert session is not None
    team.sign_out(session)
    team.set_role("Bo", "reviewer", by="Ann", study="5a")
    team.remove("Ed", by="Ann")
    team.invite("Cy", "reviewer", by="Ann")
    team.close()


def described(study: gw.Study) -> dict[str, Any]:
    """Return what a version says of a study, as JSON keeps it; later ones must say the same."""
    state, ranking, predicted = study.state, study.state.ranking, study.predict()
    numbers = predicted.labels if predicted.probabilities is None else predicted.probabilities
    with tempfile.TemporaryDirectory() as scratch:
        exported = Path(scratch) / "labels.csv"
        study.export(exported, every=True)
        answers = exported.read_text(encoding="utf-8").splitlines()
    said: dict[str, Any] = {
        "events": state.seq,
        "identity": state.identity,
        "rows": state.n_rows,
        "classes": state.classes,
        "guidelines": state.guidelines,
        "labels": list(state.labels.items()),
        "dev": sorted(state.dev),
        "pending": sorted(state.pending),
        "skipped": sorted(state.skipped),
        "notes": sorted((row, *note) for row, notes in state.notes.items() for note in notes),
        "annotators": state.annotators,
        "answers": answers,
        "rankings": [(seq, ranked.labels, ranked.recipe) for seq, ranked in state.rounds],
        "ranking": None if ranking is None else vars(ranking),
        "predicted": numbers.round(4).tolist(),
        "shown": study.show(0),
    }
    return json.loads(json.dumps(said))


def packed(source: Path, target: Path) -> None:
    """Write a file compressed, without its name and time."""
    target.write_bytes(gzip.compress(source.read_bytes(), mtime=0))


def dump(server: str, tools: Path, place: Path) -> bytes:
    """Return plain SQL of a database with a copy of a study."""
    import psycopg

    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute("CREATE DATABASE fixtures")
    copies.restore(place, f"{server}/fixtures")
    options = ["--inserts", "--rows-per-insert=100", "--no-owner", "--no-privileges"]
    run = [str(tools / "pg_dump"), *options, f"{server}/fixtures"]
    text = subprocess.run(run, check=True, capture_output=True, text=True).stdout
    # Commands of psql, and settings of servers that others may not know.
    left_out = ("\\", "--", "SET transaction_timeout")
    lines = [line for line in text.splitlines() if line and not line.startswith(left_out)]
    return gzip.compress("\n".join(lines).encode(), mtime=0)


def main(folder: Path) -> None:
    sys.path.insert(0, str(ROOT))
    from tests.studio.study.postgresql import binaries, running

    os.environ["GOALWARD_EMBEDDINGS"] = "tfidf"  # as in the tests
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    if gw.__version__ != declared["version"]:
        raise SystemExit(
            f"The installed goalward says {gw.__version__}, pyproject.toml {declared['version']}: studies "
            "would name the wrong one. Run `pip install --no-deps --editable .` first."
        )
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    makers = {"class": made_class, "labels": made_labels, "numbers": made_numbers}
    expected: dict[str, Any] = {"goalward": gw.__version__}
    with tempfile.TemporaryDirectory(prefix="goalward-") as scratch:
        home = Path(scratch)
        made_team(home)
        for name, make in makers.items():
            with make(home) as study:
                expected[name] = described(study)
                study.save_model(folder / f"{name}.model")
                # In a copy: what it says stays true of the study.
                study.backup(home / f"{name}.copy.db")
            with gw.Study.open(home / f"{name}.copy.db", clock=lambda: BEGAN + 3000) as copy:
                expected[name]["asked"] = copy.ask(4, by="dee", refresh=False)
        for name in (*makers, "team"):
            packed(home / f"{name}.db", folder / f"{name}.db.gz")
        for table in TABLES.values():
            shutil.copy(home / table, folder)
        with running() as server:
            (folder / "postgresql.sql.gz").write_bytes(dump(server, binaries(), home / "class.db"))
    content = json.dumps(expected, indent=0, ensure_ascii=False)
    (folder / "expected.json.gz").write_bytes(gzip.compress(content.encode(), mtime=0))
    sizes = {path.name: path.stat().st_size for path in sorted(folder.rglob("*")) if path.is_file()}
    print(json.dumps(sizes, indent=1), sum(sizes.values()) // 1024, "KB")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
