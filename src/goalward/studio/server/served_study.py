"""A study as it is served: its listeners, and the thread that fits."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any, TypedDict
from zlib import crc32

from goalward.errors import BadInput, GoalwardError
from goalward.studio.server.keys import Keys
from goalward.studio.server.live_updates import LiveUpdates
from goalward.studio.server.messages import RowView
from goalward.studio.server.rows import legible, row_view, searched
from goalward.studio.study import Study
from goalward.studio.study.refitter import Refitter
from goalward.studio.study.rounds import ready
from goalward.studio.study.state import Description

__all__ = ["HELD", "ServedStudy", "Shown"]

PAUSE = 19.0
"""Events are read again in a twentieth of the time, so that answers come first."""
HELD = 3
"""Rows an annotator has in hand: the one shown and two that are loaded behind it."""
SUMMARISED = (
    *("rows", "labels", "training", "dev", "skipped", "pending", "disagreements"),
    *("classes", "annotators", "ranking", "accuracy", "headline"),
)
"""What the side panel shows of a study's status."""


class Shown(TypedDict, total=False):
    """How a study is shown; see `ServedStudy`."""

    by: str
    images: Path | None
    guess: bool | None


class ServedStudy:
    """What the pages and the interface work with.

    Parameters
    ----------
    by
        The annotator's name until the page is told another.
    images
        Folder that pictures may be read from; the table's by default.
    guess
        Show what was guessed, or what the model would say; people agree with it more often than they
        should. None: the guesses that came with the rows, where there are some.
    address
        Where other machines reach the page; None if they do not.
    """

    def __init__(
        self,
        study: Study,
        keys: Keys,
        *,
        by: str = "me",
        images: Path | None = None,
        guess: bool | None = None,
        address: str | None = None,
    ) -> None:
        self.study, self.keys, self.by, self.images = study, keys, by, images
        if guess:
            study.state.settings.answer.need("Showing what the model would say")
        self.guess = bool(study.state.pool.get("guesses")) if guess is None else guess
        self.address = address
        # Only its last part is shown: where things lie on this machine is nobody's business.
        self.name = legible(study.url.replace("\\", "/").rpartition("/")[2])
        self.title = legible(Path(study.state.pool.get("path", self.name)).name)
        # Not of its path, where there may be another study tomorrow.
        self.id = study.identity
        self.live = LiveUpdates(self.summary)
        self.refitter = Refitter(study, self.live.changed)
        self.damage: str | None = None
        """What a look at every event found."""

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Work in the background while the server runs."""
        watch = asyncio.create_task(self.live.watch())
        self.refitter.start()
        Thread(target=self._check, name="goalward-check", daemon=True).start()
        yield
        watch.cancel()
        with suppress(asyncio.CancelledError):
            await watch
        await asyncio.to_thread(self.refitter.close)

    def _check(self) -> None:
        """Make what a search needs, and read every event that opening did not, behind the page."""
        try:
            searched(self.study.pool)
            # What is read by now stays. Looked through for garbage, as Python does now and then, a
            # table of 100,000 rows holds everybody's answer up for 0.2 s.
            gc.collect()
            gc.freeze()
            if not self.study.checked:
                self.study.check(pause=PAUSE)
        except GoalwardError as error:
            self.damage = str(error)
            self.live.changed()

    def _waits(self) -> str | None:
        if self.study.behind is None:
            return None
        return (
            "Another program holds the study, so this is how it stood before. Answers wait in this page: "
            "close that program, or wait until it is done."
        )

    def next_rows(self, by: str, own: str | None, n: int = HELD) -> list[RowView]:
        """Return the rows in an annotator's hands, new ones added; never waits for a fit."""
        return self.views(self.study.ask(n, by=by, resume=True, at_most=True, refresh=False), own)

    def views(self, rows: list[int], own: str | None, **shown: Any) -> list[RowView]:
        """Return what a page needs of some rows, as of the last look or answer; see `row_view`."""
        state = self.study.seen
        guesses = self.study.guesses(rows) if self.guess else {}
        return [
            row_view(self.study, state, row, own, guess=guesses.get(row), **shown) for row in rows
        ]

    def read(self) -> Study:
        """Return the study; refused while the numbers of its rows are made: a page does not wait."""
        if not self.study.pool.ready:
            raise BadInput(
                "The rows are still being read; their numbers were expected. Answers go on meanwhile: "
                "try again when the bar under 'How good is it?' is full."
            )
        return self.study

    def changed(self) -> None:
        """Say that answers changed."""
        self.refitter.nudge()
        self.live.changed()

    def summary(self) -> dict[str, Any]:
        """Return where the study stands, as the side panel shows it."""
        status, state = self.study.status(), self.study.state
        busy = self.refitter.busy
        trouble = self.damage or self.refitter.trouble or self._waits()
        check = crc32((trouble or "").encode("utf-8", "replace"))
        return {
            "version": f"{status['events']}-{int(busy)}-{check:x}-{self.refitter.preparing}",
            "study": self.id,
            **{name: status[name] for name in SUMMARISED},
            "classes": [
                {**one, **state.described.get(place, Description())._asdict()}
                for place, one in enumerate(status["classes"])
            ],
            "guidelines": state.guidelines,
            "kind": state.settings.kind,
            "measure": state.settings.answer.measure,
            "waits": state.settings.answer.waits,
            "model": ready(state),
            "left": state.n_rows - state.n_closed,
            "rounds": len(state.rounds),
            "fitting": busy,
            "preparing": self.refitter.preparing,
            "trouble": trouble,
        }
