"""Creating a study on the page: a table is chosen or uploaded, its columns are named, it begins."""

import asyncio
import filecmp
import re
import threading
from collections.abc import AsyncIterator, Callable
from itertools import chain, count, islice
from pathlib import Path
from typing import Annotated, Any, Literal

import polars as pl
from fastapi import APIRouter, HTTPException, Query, Request
from pydantic import Field, StrictInt
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from goalward.core.files import whole_file
from goalward.errors import BadInput, BadParameter
from goalward.studio.server.api import Body, Text
from goalward.studio.server.auth import Auth, from_state
from goalward.studio.server.pages import page
from goalward.studio.server.security import root
from goalward.studio.server.served_study import ServedStudy
from goalward.studio.server.shown_rows import encodable
from goalward.studio.study import Study
from goalward.studio.study.ledger import WAIT
from goalward.studio.study.study import resumed, tell_given
from goalward.studio.tables import Table
from goalward.studio.tables.cells import texts
from goalward.studio.tables.columns import ANSWERS, GIVEN, Kinds, is_missing, values_of
from goalward.studio.tables.embeddings import first_labels
from goalward.studio.tables.read import PICTURES, beside, read_format, suffix_of
from goalward.studio.tables.table import SAMPLE_CLASSES, write_sample

MOST, SHOWN = 50, 4
"""Tables of a folder that are offered, and rows that are shown of one."""
LARGEST = 2**30
"""Bytes that one server accepts, over all uploads."""
SECONDS = 60.0
"""Within which the next piece of an upload must arrive."""
DEEPEST, SEEN = 3, 500
"""Parts of a picture's path that are kept, and files of a folder searched for pictures."""


class TableChosen(Body):
    """A table of the start page, by its number, and the sheet of a workbook."""

    table: StrictInt = Field(ge=0, le=10**6)
    sheet: Text | None = Field(None, max_length=100)


class StudyWanted(TableChosen):
    """The classes of a new study, and the use of each column."""

    classes: list[Text] = Field(max_length=1000)
    uses: dict[Text, Literal["text", "numeric", "category", "image", "answers", "shown"]]


Serving = Callable[[Study], ServedStudy]


class NewStudy:
    """The tables of a folder, uploads to it, and the study created from one; requests name no paths."""

    def __init__(
        self, auth: Auth, serving: Serving, folder: Path, table: Path | None = None
    ) -> None:
        self.auth, self.serving, self.folder = auth, serving, folder
        self.creating = asyncio.Lock()
        self._tables: list[Path] = [table] if table else []
        self._named = 0 if table else None
        self._room, self._lock = LARGEST, threading.Lock()

    def tables(self) -> dict[str, Any]:
        """Return the tables that can be labelled, by number, and which of them was named."""
        with self._lock:
            known = {path.resolve() for path in self._tables}
            here = filter(_is_table, sorted(self.folder.iterdir()))
            self._tables += [path for path in here if path.resolve() not in known]
            tables = [
                {
                    "table": number,
                    "name": encodable(path.name),
                    "begun": beside(path, ".labels.db").exists(),
                }
                for number, path in enumerate(self._tables[:MOST])
            ]
        return {"tables": tables, "named": self._named}

    async def upload(self, name: str, pieces: AsyncIterator[bytes]) -> int:
        """Write an upload into the folder and return its table's number; equal files keep theirs."""
        parts = [_plain(part) for part in name.replace("\\", "/").split("/")[-DEEPEST:]]
        if Path(name).suffix.lower() not in PICTURES or len(parts) == 1:
            parts = parts[-1:]
            suffix_of(Path(parts[-1]))
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
                            f"Uploads must be smaller than {LARGEST // 2**20} MB. Put the file into "
                            f"{self.folder.name} yourself, and start again."
                        )
                    file.write(piece)
        except BaseException:
            self._room += size
            raise
        if path != wanted and filecmp.cmp(path, wanted, shallow=False):
            path.unlink()
            path = wanted
        table = self.folder / parts[0] if len(parts) > 1 else path
        with self._lock:
            if table not in self._tables:
                self._tables.append(table)
            return self._tables.index(table)

    def look(self, number: int, sheet: str | None = None) -> dict[str, Any]:
        """Return the columns of a table, how each would be used, and the classes it suggests."""
        path = self._path(number)
        frame, how = read_format(path, sheet=sheet, isolated=True)
        kinds = Kinds.of(frame)
        answers, classes = _answers(frame, kinds)
        if path.is_dir() and (named := first_labels(frame, ())[0]):
            answers, classes = ["folder"], [encodable(name) for name in named]
        uses = dict.fromkeys(kinds.texts, "text") | dict.fromkeys(answers, "answers")
        if kinds.pictures and not kinds.texts:
            uses[kinds.pictures[0]] = "image"
        else:
            uses |= dict.fromkeys(kinds.numbers, "numeric")
            uses |= dict.fromkeys(kinds.categories, "category")
        columns = [
            {
                "name": encodable(name),
                "use": uses.get(name, "shown"),
                "why": kinds.left.get(name, ""),
                "values": [encodable(value) for value in values_of(frame[name])],
                "cells": [encodable(str(cell)[:120]) for cell in texts(frame[name]).head(SHOWN)],
            }
            for name in frame.columns
        ]
        return {
            "table": number,
            "name": encodable(path.name),
            "rows": frame.height,
            "sheet": how.sheet,
            "sheets": list(how.sheets),
            "columns": columns,
            "classes": classes,
            "begun": beside(path, ".labels.db").exists(),
        }

    def create(self, wanted: StudyWanted) -> Study:
        """Return the study of a table, created if there is none."""
        path = self._path(wanted.table)
        place = beside(path, ".labels.db")
        if place.exists():
            return resumed(place, str(path))[0]
        if len(set(wanted.classes)) < max(2, len(wanted.classes)):
            raise BadParameter(
                "Answers to choose from must be two or more, each once, one in each line, got "
                f"{', '.join(map(repr, wanted.classes)) or 'none'}."
            )
        text, numeric, category, image, answers = (
            tuple(column for column, use in wanted.uses.items() if use == this)
            for this in ("text", "numeric", "category", "image", "answers")
        )
        for use, columns in (("image", image), ("answers", answers)):
            if len(columns) > 1:
                raise BadParameter(
                    f"At most one column can be used for {use}, got {', '.join(columns)}. Only show "
                    "the others."
                )
        used: dict[str, Any] = {"text": text, "image": next(iter(image), None)}
        used |= {"numeric": numeric, "category": category, "sheet": wanted.sheet}
        table = Table(str(path), alone=True, **used)
        # Remembered for what follows: nothing else reads a table that may be made to harm.
        read_format(path, sheet=wanted.sheet, isolated=True)
        study = Study.create(place, pool=table, classes=wanted.classes, timeout=WAIT)
        for column in answers:
            tell_given(study, column)
        return study

    def sample(self) -> Study:
        path = write_sample(Path("out/sample"))
        place = beside(path, ".labels.db")
        if place.exists():
            return Study.open(place, timeout=WAIT)
        table = Table(str(path), text="text")
        return Study.create(place, pool=table, classes=SAMPLE_CLASSES, timeout=WAIT)

    def _path(self, number: int) -> Path:
        if not 0 <= number < len(self._tables):
            raise BadParameter(f"There is no table {number}; {len(self._tables)} are known.")
        return self._tables[number]


def _is_table(path: Path) -> bool:
    if path.name.startswith("."):
        return False
    try:
        if path.is_dir():
            files = islice(chain(path.glob("*"), path.glob("*/*")), SEEN)
            return any(file.suffix.lower() in PICTURES for file in files)
        return path.is_file() and bool(suffix_of(path))
    except (BadInput, OSError):
        return False


def _plain(name: str) -> str:
    """Return a file name without anything that leads elsewhere."""
    return re.sub(r"[^\w.() -]", "_", name).lstrip(". ")[-120:] or "table"


def _answers(frame: pl.DataFrame, kinds: Kinds) -> tuple[list[str], list[str]]:
    """Return the column that has answers to some rows, and the classes that a column names."""
    given = [name for name, why in kinds.left.items() if why == GIVEN]
    for name in [*filter(ANSWERS.match, frame.columns), *given]:
        if values := values_of(frame[name]):
            # A column that answers every row is not to be learnt from: it names what is asked.
            some = is_missing(texts(frame[name])).any()
            return [name] if some else [], [encodable(value) for value in values]
    return [], []


New = Annotated[NewStudy, from_state("new")]
start = APIRouter(include_in_schema=False)
"""Routes of a server that was started without a study."""


@start.get("/new")
def _page(request: Request, new: New) -> Response:
    if request.app.state.served is not None:
        return RedirectResponse(f"{root(request)}/", 303)
    folder = new.folder.resolve().name
    return page(request, "start.html", None, listed=new.tables(), folder=folder)


@start.post("/api/start/upload")
async def _upload(
    request: Request, new: New, name: Annotated[str, Query(min_length=1, max_length=300)]
) -> dict[str, int]:
    try:
        return {"table": await new.upload(name, request.stream())}
    except TimeoutError:
        raise HTTPException(408, "The upload stopped. Send the file again.") from None


@start.post("/api/start/look")
def _look(chosen: TableChosen, new: New) -> dict[str, Any]:
    return new.look(chosen.table, chosen.sheet)


@start.post("/api/start/study")
async def _study(wanted: StudyWanted, request: Request, new: New) -> dict[str, str]:
    return await _created(request, new, lambda: new.create(wanted))


@start.post("/api/start/sample")
async def _sample(request: Request, new: New) -> dict[str, str]:
    return await _created(request, new, new.sample)


async def _created(request: Request, new: NewStudy, create: Callable[[], Study]) -> dict[str, str]:
    """Create a study and serve it from now on; a server has one."""
    state = request.app.state
    async with new.creating:
        if state.served is not None:
            raise HTTPException(409, "A study is open here already. Reload the page.")
        study = await run_in_threadpool(create)
        state.running.callback(study.close)
        # The rows before the page opens, not with its first answer.
        await run_in_threadpool(lambda: study.pool)
        served = new.serving(study)
        await state.running.enter_async_context(served.open())
        state.served = state.studies[""] = served
    return {"path": f"{root(request)}/"}
