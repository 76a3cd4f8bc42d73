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
from goalward.scale.scheduler import finished, imported, reaching, threads
from goalward.scale.threads import Progress, block_rows, kept_or_fail, reading
from goalward.selection.best import Best
from goalward.selection.rule import Rule
from goalward.strategies.engine import Reader, Reading
from goalward.strategies.request import Request

__all__ = ["Dask", "summed"]

TASKS_PER_THREAD = 3
"""Parts of the pool for each thread of the cluster: small enough to even out, large enough to
be worth a message."""


@dataclass(frozen=True)
class Dask:
    """Workers of a `dask.distributed.Client` read the file themselves; only the best rows come back.

    The file must lie at the same path for all of them, and hold the same: what they read is
    compared with the file here.

    Parameters
    ----------
    block, progress
        As in `Threads`.
    """

    client: Any
    block: int | None = None
    progress: Progress | None = field(default=None, repr=False)
    whole = False

    def scan(self, rule: Rule, request: Request, kept: Best | None) -> Reading:
        """Return the best rows of a file, from the best rows of its parts."""
        pool, total, best = request.pool, len(request.pool), kept_or_fail(kept)
        if not pool.on_disk:
            raise Unsupported(
                f"The pool is a {type(pool.source).__name__} in memory, which would have to be sent to "
                "the workers; a file that they can read was expected. Save it with numpy.save and pass "
                "open_pool(path)."
            )
        rows = block_rows(pool, request.fitted, self.block)
        share = -(-total // (max(1, threads(self.client)) * TASKS_PER_THREAD))
        size = max(1, -(-share // rows)) * rows
        spans = [(start, min(start + size, total)) for start in range(0, total, size)]
        done = 0
        with reading(rule, request) as reader:
            futures = self._submitted(reader, request, spans, rows, best)
            stretch = {f: stop - start for f, (start, stop) in zip(futures, spans, strict=True)}
            for future, answer in finished(self.client, futures):
                best, done = best.joined(_checked(answer)), done + stretch[future]
                if self.progress:
                    self.progress(done, total)
        return Reading(best.rows, best.values)

    def _submitted(
        self, reader: Reader, request: Request, spans: list[tuple[int, int]], rows: int, best: Best
    ) -> list[Any]:
        cuts = np.searchsorted(request.excluded, spans)
        # Workers find the ids of a file in it; only those that came otherwise are sent.
        names = [request.names(np.arange(*span)) if request.renamed else None for span in spans]
        with reaching(self.client):
            # The rule is a task of its own and not scattered: lost with a worker, it is made again.
            shared = self.client.submit(_itself, reader, pure=False)
            futures: list[Any] = self.client.map(
                _best_of_part,
                [shared] * len(spans),
                [request.pool.part(*span) for span in spans],
                [start for start, _ in spans],
                [request.excluded[low:high] for low, high in cuts],
                names,
                rows=rows,
                kept=best,
                retries=3,
                pure=False,
            )
        return futures


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


class WorkerAnswer(NamedTuple):
    """What a worker found, what it read for that, and who it is."""

    value: Any
    reads: list[Read]
    worker: str


def _checked(answer: WorkerAnswer) -> Any:
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
    reader: Reader,
    part: PoolFile,
    start: int,
    excluded: NDArray[Any],
    names: NDArray[Any] | None,
    *,
    rows: int,
    kept: Best,
) -> WorkerAnswer:
    if reader.compiled != (compiled("shift") is not None):
        accelerate(reader.compiled)

    def best() -> Best:
        ids = part.ids() if names is None else names
        return reader.best(part, start, rows, excluded, kept, ids)

    return _answer(best)


def _gradient(piece: Goal, share: float, fitted: Fitted) -> WorkerAnswer:
    return _answer(lambda: share * piece.gradient(fitted))


def _answer(work: Callable[[], Any]) -> WorkerAnswer:
    worker = imported().get_worker().address
    try:
        with threadpool_limits(limits=1), witnessed() as reads:
            return WorkerAnswer(work(), reads, worker)
    except DataMissing as error:
        raise DataMissing(f"{error} (On worker {worker}.)") from error


def _itself(value: Any) -> Any:
    return value
