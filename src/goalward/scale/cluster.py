"""Dask workers read their own parts of a file and send back their best rows.

What travels is a path, a range and a few numbers per feature; never rows. Tasks are pure, so
that what a lost worker had is computed again by another, and the result is the same. Each says
what it read, by checksums, and these must be those of the file here: a worker with another file
is an error. The first query reads the file here too for that; later ones know its checksums.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from goalward.core.kernels.compiled import accelerate, compiled
from goalward.errors import DataMissing, Unsupported
from goalward.pool import PoolFile
from goalward.pool.witness import Read, differing, witnessed
from goalward.scale.scheduler import finished, reaching, threads
from goalward.scale.threads import OnePass, reading
from goalward.selection.best import Best
from goalward.selection.rule import Rule
from goalward.strategies.engine import Reader
from goalward.strategies.request import Request

__all__ = ["Dask"]

TASKS_PER_THREAD = 3
"""Parts of the pool for each thread of the cluster: small enough to even out, large enough to
be worth a message."""


@dataclass(frozen=True)
class Dask(OnePass):
    """Workers of a `dask.distributed.Client` read the file themselves; only the best rows come back.

    The file must lie at the same path for all of them, and hold the same: what they read is
    compared with the file here.
    """

    client: Any

    def parts(
        self, rule: Rule, request: Request, rows: int, empty: Best
    ) -> Iterator[tuple[Best, int]]:
        pool, total = request.pool, len(request.pool)
        if not pool.on_disk:
            raise Unsupported(
                f"The pool is a {type(pool.source).__name__} in memory, which would have to be sent to "
                "the workers; a file that they can read was expected. Save it with numpy.save and pass "
                "open_pool(path)."
            )
        share = -(-total // (max(1, threads(self.client)) * TASKS_PER_THREAD))
        size = max(1, -(-share // rows)) * rows
        spans = [(start, min(start + size, total)) for start in range(0, total, size)]
        with reading(rule, request) as reader:
            with reaching(self.client):
                # The rule is a task of its own and not scattered: lost with a worker, it is made again.
                shared = self.client.submit(_itself, reader, pure=False)
                futures = self.client.map(
                    _best_of_part,
                    [shared] * len(spans),
                    [pool.part(*span) for span in spans],
                    [start for start, _ in spans],
                    [request.excluded[slice(*np.searchsorted(request.excluded, s))] for s in spans],
                    # Workers find the ids of a file in it; only those that came otherwise are sent.
                    [request.names(np.arange(*s)) if request.renamed else None for s in spans],
                    [empty.within(*span) for span in spans],
                    rows=rows,
                    retries=3,
                    pure=False,
                )
            counts = {f: stop - start for f, (start, stop) in zip(futures, spans, strict=True)}
            for future, answer in finished(self.client, futures):
                yield _checked(answer), counts[future]


class WorkerAnswer(NamedTuple):
    """What a worker found, what it read for that, and who it is."""

    best: Best
    reads: list[Read]
    worker: str


def _checked(answer: WorkerAnswer) -> Best:
    """Return what a worker found, if it read what is in the file here."""
    other = differing(answer.reads)
    if other is not None:
        raise DataMissing(
            f"{other.part.path} holds other {other.what} on worker {answer.worker} than here, among "
            f"{other.part.start} to {other.part.stop}; the same file was expected everywhere. Copy it "
            "there again, or put it where all of them see it."
        )
    return answer.best


def _best_of_part(
    reader: Reader,
    part: PoolFile,
    start: int,
    excluded: NDArray[Any],
    names: NDArray[Any] | None,
    kept: Best,
    *,
    rows: int,
) -> WorkerAnswer:
    from distributed import get_worker

    if reader.compiled != (compiled("shift") is not None):
        accelerate(reader.compiled)
    worker = get_worker().address
    try:
        with threadpool_limits(limits=1), witnessed() as reads:
            ids = part.ids() if names is None else names
            best = reader.best(part, start, rows, excluded, kept, ids)
            return WorkerAnswer(best, reads, worker)
    except DataMissing as error:
        raise DataMissing(f"{error} (On worker {worker}.)") from error


def _itself(value: Any) -> Any:
    return value
