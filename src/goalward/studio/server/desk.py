"""Where a study begins: the tables at hand, what their columns are, and the study made of one."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Callable
from hashlib import file_digest
from itertools import chain, count, islice
from pathlib import Path
from typing import Any

import polars as pl

from goalward.core.whole_file import whole_file
from goalward.errors import BadInput, BadParameter, PoolChanged
from goalward.studio.server.keys import Keys
from goalward.studio.server.messages import NewStudy
from goalward.studio.server.rows import legible
from goalward.studio.server.served_study import ServedStudy
from goalward.studio.study import Study
from goalward.studio.study.ledger import WAIT
from goalward.studio.tables import Table
from goalward.studio.tables.apart import parsed_apart
from goalward.studio.tables.cells import texts
from goalward.studio.tables.columns import ANSWERS, GIVEN, Kinds, values_of
from goalward.studio.tables.numbers import is_missing
from goalward.studio.tables.pictures import first_labels
from goalward.studio.tables.read import PICTURES, beside, ending_of, written
from goalward.studio.tables.sample import CLASSES, write_sample

__all__ = ["Desk"]

MOST = 50
"""Tables of a folder that are offered."""
LARGEST = 2**30
"""Bytes that one server takes in, over all uploads."""
SECONDS = 60.0
"""Within which the next piece of an upload must come."""
DEEPEST = 3
"""Parts of a picture's name: its folder, a folder in that, and its own."""
SEEN = 500
"""Files of a folder that are looked at for pictures."""
SHOWN = 4
"""Rows that are shown of a table."""


class Desk:
    """The tables of a folder, and those that were brought to it.

    A request names a table by its number, never by a path.

    Parameters
    ----------
    keys, serving
        What opens the server, and what makes of a study one that is served.
    folder
        Where tables and studies lie; what is uploaded is put there.
    table
        The one that somebody named already.
    """

    def __init__(
        self,
        keys: Keys,
        serving: Callable[[Study], ServedStudy],
        folder: Path,
        table: Path | None = None,
    ) -> None:
        self.keys, self.serving, self.folder = keys, serving, folder
        self.beginning = asyncio.Lock()
        self._tables: list[Path] = [table] if table else []
        self._named = table is not None
        self._room, self._lock = LARGEST, threading.Lock()

    def listed(self) -> dict[str, Any]:
        """Return the tables that can be labelled, by number, and which of them was named."""
        with self._lock:
            known = {path.resolve() for path in self._tables}
            here = (path for path in sorted(self.folder.iterdir()) if _is_table(path))
            self._tables += [path for path in here if path.resolve() not in known]
            tables = [
                {"table": number, "name": legible(path.name), "begun": _place(path).exists()}
                for number, path in enumerate(self._tables[:MOST])
            ]
        return {"tables": tables, "named": 0 if self._named else None}

    async def bring(self, name: str, pieces: AsyncIterator[bytes]) -> int:
        """Put an upload into the folder and return its number; where it lies already, that one's.

        A picture is brought under the name of its own folder, `birds/owls/1.png`, which then is the
        table.
        """
        parts = [_plain(part) for part in name.replace("\\", "/").split("/")[-DEEPEST:]]
        if Path(name).suffix.lower() not in PICTURES or len(parts) == 1:
            parts = parts[-1:]
            ending_of(Path(parts[-1]))
        wanted = self.folder.joinpath(*parts)
        wanted.parent.mkdir(parents=True, exist_ok=True)
        free = (wanted.with_name(f"{n}-{wanted.name}") for n in count(2))
        path = wanted if not wanted.exists() else next(p for p in free if not p.exists())
        size = 0
        try:
            with whole_file(path) as partial, partial.open("xb") as file:
                while piece := await asyncio.wait_for(anext(pieces, b""), SECONDS):
                    size += len(piece)
                    self._room -= len(piece)
                    if self._room < 0:
                        raise BadParameter(
                            f"More than {LARGEST // 2**20} MB came; less was expected. Put the file into "
                            f"{self.folder.name} yourself, and start again."
                        )
                    file.write(piece)
        except BaseException:
            # Nothing of it was kept.
            self._room += size
            raise
        if path != wanted and _digest(path) == _digest(wanted):
            path.unlink()
            path = wanted
        table = self.folder / parts[0] if len(parts) > 1 else path
        with self._lock:
            if table not in self._tables:
                self._tables.append(table)
            return self._tables.index(table)

    def look(self, number: int, sheet: str | None = None) -> dict[str, Any]:
        """Return what a table holds and how it would be read."""
        path = self._path(number)
        frame, how = written(path, sheet=sheet, parse=parsed_apart)
        kinds = Kinds.of(frame)
        answers, classes = _answers(frame, kinds)
        if path.is_dir() and (named := first_labels(frame, ())[0]):
            # What a subfolder is called is somebody's answer.
            answers, classes = ["folder"], [legible(name) for name in named]
        uses = dict.fromkeys(kinds.texts, "text") | dict.fromkeys(answers, "answers")
        if kinds.pictures and not kinds.texts:
            uses[kinds.pictures[0]] = "image"
        else:
            uses |= dict.fromkeys(kinds.numbers, "numeric")
            uses |= dict.fromkeys(kinds.categories, "category")
        columns = [
            {
                "name": legible(name),
                "use": uses.get(name, "shown"),
                "why": kinds.left.get(name, ""),
                "values": [legible(value) for value in values_of(frame[name])],
                "cells": [legible(str(cell)[:120]) for cell in texts(frame[name]).head(SHOWN)],
            }
            for name in frame.columns
        ]
        return {
            "table": number,
            "name": legible(path.name),
            "rows": frame.height,
            "sheet": how.sheet,
            "sheets": list(how.sheets),
            "columns": columns,
            "classes": classes,
            "begun": _place(path).exists(),
        }

    def begin(self, wanted: NewStudy) -> Study:
        """Return the study of a table, made where there is none."""
        path = self._path(wanted.table)
        place = _place(path)
        if place.exists():
            try:
                return Study.open(place, pool=Table(str(path)), timeout=WAIT)
            except PoolChanged:
                study = Study.open(place, timeout=WAIT)
                study.extend()
                return study
        if len(set(wanted.classes)) < max(2, len(wanted.classes)):
            came = ", ".join(map(repr, wanted.classes)) or "No answer"
            raise BadParameter(
                f"{came} came; two or more answers to choose from were expected, each once, one in each "
                "line."
            )
        named = {
            use: [n for n, u in wanted.uses.items() if u == use] for use in wanted.uses.values()
        }
        for use in ("image", "answers"):
            if len(named.get(use, ())) > 1:
                raise BadParameter(
                    f"{', '.join(named[use])} are all {use}; at most one column was expected. Let the "
                    "others be shown only."
                )
        table = Table(
            str(path),
            text=tuple(named.get("text", ())),
            image=next(iter(named.get("image", ())), None),
            numeric=tuple(named.get("numeric", ())),
            category=tuple(named.get("category", ())),
            alone=True,
            sheet=wanted.sheet,
        )
        # Remembered for what follows: nothing else reads a table that may be made to harm.
        written(path, sheet=wanted.sheet, parse=parsed_apart)
        study = Study.create(place, pool=table, classes=wanted.classes, timeout=WAIT)
        for column in named.get("answers", ()):
            cells = enumerate(texts(table.read()[column]))
            study.tell_many(
                [(r, c.strip()) for r, c in cells if _said(c) in wanted.classes], by="table"
            )
        return study

    def sample(self) -> Study:
        """Return the study of the messages that come along."""
        path = write_sample(Path("out/sample"))
        place = _place(path)
        if place.exists():
            return Study.open(place, timeout=WAIT)
        table = Table(str(path), text="text")
        return Study.create(place, pool=table, classes=CLASSES, timeout=WAIT)

    def _path(self, number: int) -> Path:
        if not 0 <= number < len(self._tables):
            raise BadParameter(f"There is no table {number}; {len(self._tables)} are known.")
        return self._tables[number]


def _is_table(path: Path) -> bool:
    if path.name.startswith("."):
        return False
    try:
        if path.is_dir():
            found = islice(chain(path.glob("*"), path.glob("*/*")), SEEN)
            return any(one.suffix.lower() in PICTURES for one in found)
        return path.is_file() and bool(ending_of(path))
    except (BadInput, OSError):
        return False


def _place(path: Path) -> Path:
    return beside(path, ".labels.db")


def _plain(name: str) -> str:
    """Return a name of a file without anything that leads elsewhere."""
    return re.sub(r"[^\w.() -]", "_", name).lstrip(". ")[-120:] or "table"


def _answers(frame: pl.DataFrame, kinds: Kinds) -> tuple[list[str], list[str]]:
    """Return the column with answers to some rows, and the answers that a column names."""
    given = [name for name, why in kinds.left.items() if why == GIVEN]
    for name in [*filter(ANSWERS.match, frame.columns), *given]:
        if found := values_of(frame[name]):
            # Where every row has one, they are not to be learnt from, but what is asked.
            some = is_missing(texts(frame[name])).any()
            return [name] if some else [], [legible(value) for value in found]
    return [], []


def _said(cell: str | None) -> str:
    return (cell or "").strip()


def _digest(path: Path) -> bytes:
    with path.open("rb") as file:
        return file_digest(file, "sha256").digest()
