"""What the page and the interface work with: a study, its worker, its listeners, its charts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from zlib import crc32

from goalward.server.background import Refitter
from goalward.server.charts import Charts
from goalward.server.keys import Keys
from goalward.server.live import Live
from goalward.server.shown import legible, shown
from goalward.study import Study

__all__ = ["HELD", "Desk"]

HELD = 3
"""Rows an annotator has in hand: the one shown and two that are loaded behind it."""


class Desk:
    """A study being labelled.

    Parameters
    ----------
    keys
        What opens the server.
    by
        The annotator's name until the page is told another.
    images
        Folder that pictures may be read from; the table's by default.
    """

    def __init__(
        self, study: Study, keys: Keys, *, by: str = "me", images: Path | None = None
    ) -> None:
        self.study, self.keys, self.by, self.images = study, keys, by, images
        # Only its last part is shown: where things lie on this machine is nobody's business.
        self.name = legible(study.url.replace("\\", "/").rpartition("/")[2])
        # Not of its path, where there may be another study tomorrow.
        self.id = study.identity
        self.charts = Charts()
        self.live = Live(self.summary)
        self.refitter = Refitter(study, self.live.changed)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Work in the background while the server runs."""
        watch = asyncio.create_task(self.live.watch())
        self.refitter.start()
        yield
        watch.cancel()
        with suppress(asyncio.CancelledError):
            await watch
        await asyncio.to_thread(self.refitter.close)

    def next(self, by: str, n: int = HELD) -> list[dict[str, Any]]:
        """Return the rows in an annotator's hands, new ones added; never waits for a fit."""
        return self.shown(self.study.ask(n, by=by, resume=True, at_most=True, refresh=False))

    def shown(self, rows: list[int]) -> list[dict[str, Any]]:
        """Return what a page needs of some rows."""
        state = self.study.state
        return [shown(self.study, state, row) for row in rows]

    def moved(self) -> None:
        """Say that answers changed."""
        self.refitter.nudge()
        self.live.changed()

    def summary(self) -> dict[str, Any]:
        """Return where the study stands, as the side panel shows it."""
        found = self.study.status()
        rounds = len(self.study.state.rounds)
        busy, trouble = self.refitter.busy, self.refitter.trouble
        names = ("rows", "labels", "training", "dev", "skipped", "pending", "disagreements")
        return {
            "version": f"{found['events']}-{int(busy)}-{crc32((trouble or '').encode('utf-8', 'replace')):x}",
            "study": self.id,
            **{name: found[name] for name in names},
            "classes": found["classes"],
            "annotators": found["annotators"],
            "ranking": found["ranking"],
            "rounds": rounds,
            "fitting": busy,
            "trouble": trouble,
        }
