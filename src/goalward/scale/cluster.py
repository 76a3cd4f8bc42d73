"""Dask workers read their own parts of a file and send back their best rows.

What travels is a path, a range and a few numbers per feature; never rows. Tasks are pure, so
that what a lost worker had is computed again by another, and the result is the same. Each says
what it read, by checksums, and these must be those of the file here: a worker with another file
is an error. The first query reads the file here too for that; later ones know its checksums.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from goalward.core.arrays import Array
from goalward.core.kernels.compiled import accelerate, compiled
from goalward.errors import DataMissing, Unsupported
from goalward.goals import Goal
from goalward.goals.goal import Term
from goalward.models import Fitted
from goalward.pool import PoolFile
from goalward.pool.witness import Read, differing, witnessed
from goalward.scale.scan import Progress, Scan
from goalward.scale.scheduler import finished, imported, reaching, threads
from goalward.selection.top import Best

__all__ = ["best", "summed"]

TASKS_PER_THREAD = 3
"""Parts of the pool for each thread of the cluster: small enough to even out, large enough to
be worth a message."""


def best(
    client: Any,
    pool: Any,
    scan: Scan,
    rows: int,
    excluded: NDArray[Any],
    kept: Best,
    progress: Progress | None,
) -> Best:
    """Return the best rows of a file, from the best rows of its parts."""
    if not isinstance(pool, PoolFile):
        raise Unsupported(
            f"The pool is a {type(pool).__name__} in memory, which would have to be sent to the "
            "workers; a file that they can read was expected. Save it with numpy.save and pass "
            "open_pool(path)."
        )
    total = len(pool)
    share = -(-total // (max(1, threads(client)) * TASKS_PER_THREAD))
    size = max(1, -(-share // rows)) * rows
    spans = [(start, min(start + size, total)) for start in range(0, total, size)]
    cuts = np.searchsorted(excluded, spans)
    with reaching(client):
        # The scan is a task of its own and not scattered: lost with a worker, it is made again.
        shared = client.submit(_itself, scan, pure=False)
        futures = client.map(
            _best_of_part,
            [shared] * len(spans),
            [pool.part(*span) for span in spans],
            [start for start, _ in spans],
            [excluded[low:high] for low, high in cuts],
            rows=rows,
            kept=kept,
            retries=3,
            pure=False,
        )
    stretch = {future: stop - start for future, (start, stop) in zip(futures, spans, strict=True)}
    done = 0
    for future, answer in finished(client, futures):
        kept, done = kept.joined(_checked(answer)), done + stretch[future]
        if progress:
            progress(done, total)
    return kept


def summed(client: Any, goal: Goal, fitted: Fitted) -> Goal:
    """Return the goal with its gradient known, summed by the workers, if its rows are on disk."""
    pieces = goal.pieces()
    if len(pieces) == 1:
        return goal
    with reaching(client):
        shared = client.submit(_itself, fitted, pure=False)
        futures = [
            client.submit(_gradient, piece, share, shared, retries=3, pure=False)
            for share, piece in pieces
        ]
    found = {future: _checked(answer) for future, answer in finished(client, futures)}
    # In the order of the pieces, so that rounding does not depend on who was first.
    return Summed(sum(found[future] for future in futures), goal, fitted)


@dataclass(frozen=True)
class Summed(Goal):
    """A goal whose gradient at one model is known already."""

    known: Float[Array, "p k"] = field(repr=False)
    goal: Goal
    model: Fitted = field(repr=False)

    def gradient(self, fitted: Any) -> Float[Array, "p k"]:
        """Return what the workers summed up, for the model that they did it for."""
        return self.known if fitted is self.model else self.goal.gradient(fitted)

    def pieces(self) -> list[tuple[float, Goal]]:
        """Return the pieces of the goal itself."""
        return self.goal.pieces()

    def terms(self, fitted: Any) -> list[Term]:
        """Return the terms of the goal itself."""
        return self.goal.terms(fitted)


class Answer(NamedTuple):
    """What a worker found, what it read for that, and who it is."""

    value: Any
    reads: list[Read]
    worker: str


def _checked(answer: Answer) -> Any:
    """Return what a worker found, if it read what is in the file here."""
    other = differing(answer.reads)
    if other is not None:
        raise DataMissing(
            f"{other.part.path} holds other {other.what} on worker {answer.worker} than here, among "
            f"{other.part.start} to {other.part.stop}; the same file was expected everywhere. Copy it "
            "there again, or put it where all of them see it."
        )
    return answer.value


def _best_of_part(
    scan: Scan, part: PoolFile, start: int, excluded: NDArray[Any], *, rows: int, kept: Best
) -> Answer:
    if scan.compiled != (compiled("shift") is not None):
        accelerate(scan.compiled)
    return _answer(lambda: scan.best(part, start, rows, excluded, kept, part.ids()))


def _gradient(piece: Goal, share: float, fitted: Fitted) -> Answer:
    return _answer(lambda: share * piece.gradient(fitted))


def _answer(work: Callable[[], Any]) -> Answer:
    worker = imported().get_worker().address
    try:
        with threadpool_limits(limits=1), witnessed() as reads:
            return Answer(work(), reads, worker)
    except DataMissing as error:
        raise DataMissing(f"{error} (On worker {worker}.)") from error


def _itself(value: Any) -> Any:
    return value
