"""Dask workers read their own parts of a file, checked by checksums, and return their best rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from goalward.core.arguments import needing
from goalward.core.kernels.compiled import accelerate, compiled
from goalward.core.pool_files import PoolFile, Read, differing, witnessed
from goalward.errors import BadParameter, ClusterLost, DataMissing, GoalwardError, Unsupported
from goalward.scale.threads import OnePass, Parts, reading
from goalward.strategies.engine import Reader
from goalward.strategies.selectors import Best
from goalward.strategies.strategy import Request
from goalward.utility.utility import Rule

TIMEOUT = 20.0  # seconds for a scheduler to answer
PATIENCE = 60.0  # seconds without workers, unless Dask's `no-workers-timeout` is set
POLL = 1.0  # seconds between two checks of a silent cluster


def connected(address: str, timeout: float | None = None) -> Any:
    """Return a client of the scheduler at an address; `ClusterLost` if none answers."""
    with needing("client="):
        import distributed
    timeout = TIMEOUT if timeout is None else timeout
    try:
        return distributed.Client(address, timeout=timeout)
    except (OSError, TimeoutError) as error:
        raise ClusterLost(
            f"No Dask scheduler answers at {address} within {timeout:g} s ({error}). Check the address, "
            "and start one with `dask scheduler`, and workers with `dask worker`."
        ) from error
    except ValueError as error:
        raise BadParameter(
            f"A scheduler has an address like tcp://host:8786, got {address!r} ({error})."
        ) from error


def threads(client: Any) -> int:
    """Return how many tasks the workers run at once; 0 without any, or without an answer."""
    with reaching(client), suppress(TimeoutError):
        return sum(client.nthreads(callback_timeout=TIMEOUT).values())
    return 0


def finished(client: Any, futures: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """Return futures and results as they come; `ClusterLost` where no worker is left."""
    import dask
    import distributed
    from dask.utils import parse_timedelta

    own = dask.config.get("distributed.scheduler.no-workers-timeout", None)
    patience = PATIENCE if own is None else float(parse_timedelta(own))
    waiting, seen = set(futures), monotonic()
    while waiting:
        with reaching(client), suppress(TimeoutError):
            distributed.wait(list(waiting), timeout=POLL, return_when="FIRST_COMPLETED")
        for future in [future for future in waiting if future.status != "pending"]:
            # The results of a worker that dies are computed again, by others.
            with reaching(client), suppress(TimeoutError):
                result = future.result(timeout=TIMEOUT)
                waiting.discard(future)
                seen = monotonic()
                yield future, result
        if threads(client):
            seen = monotonic()
        elif monotonic() - seen >= patience:
            raise ClusterLost(
                f"There has been no worker for {patience:g} s, and {len(waiting)} parts of the work are "
                "left. Start workers with `dask worker`, and rank again."
            )


@contextmanager
def reaching(client: Any) -> Iterator[None]:
    """Turn errors of Dask about a cluster that is gone into `ClusterLost`."""
    import distributed

    lost = ClusterLost(
        "The Dask scheduler is gone, the client was closed or the work cancelled. Connect again with a new "
        "Client, and rank again."
    )
    if client.status != "running":
        raise lost
    try:
        yield
    except GoalwardError:
        raise
    except distributed.KilledWorker as error:
        raise ClusterLost(
            f"Several workers died over the same part of the work ({error}), as a rule out of memory. "
            "Give them more of it, or read less at a time: block=1000."
        ) from error
    except Exception as error:
        # Connections that close in the middle of a call show in many ways.
        known = isinstance(error, (OSError, TimeoutError, distributed.CancelledError))
        if known or client.status != "running":
            raise lost from error
        raise


TASKS_PER_THREAD = 3  # parts of the pool for each thread of the cluster


@dataclass(frozen=True)
class Dask(OnePass):
    """Workers of a `dask.distributed.Client`, which read the same file at the same path."""

    client: Any

    def parts(self, rule: Rule, request: Request, rows: int, empty: Best) -> Parts:
        pool, total = request.pool, len(request.pool)
        if not pool.on_disk:
            raise Unsupported(
                f"client= needs a file that workers can read, got a {type(pool.source).__name__} in memory. "
                "Save it with numpy.save and pass open_pool(path)."
            )
        share = -(-total // (max(1, threads(self.client)) * TASKS_PER_THREAD))
        size = max(1, -(-share // rows)) * rows
        spans = [(start, min(start + size, total)) for start in range(0, total, size)]
        with reading(rule, request) as reader:
            counts: dict[Any, int] = {}
            with reaching(self.client):
                # The rule is a task of its own and not scattered: lost with a worker, it is made again.
                shared = self.client.submit(_itself, reader, pure=False)
                for start, stop in spans:
                    low, high = np.searchsorted(request.excluded, (start, stop))
                    # Workers read the ids of a file themselves; only others are sent.
                    names = request.names(np.arange(start, stop)) if request.renamed else None
                    part = (pool.part(start, stop), start, request.excluded[low:high], names)
                    options = {"rows": rows, "retries": 3, "pure": False}
                    future = self.client.submit(_best_of_part, shared, *part, empty, **options)
                    counts[future] = stop - start
            for future, (best, reads, worker) in finished(self.client, counts):
                if (other := differing(reads)) is not None:
                    raise DataMissing(
                        f"{other.part.path} holds other {other.what} on worker {worker} than here, among "
                        f"{other.part.start} to {other.part.stop}. Copy the file there again, or put it "
                        "where all workers see it."
                    )
                yield best, counts[future]


def _best_of_part(
    reader: Reader,
    part: PoolFile,
    start: int,
    excluded: NDArray[Any],
    names: NDArray[Any] | None,
    kept: Best,
    *,
    rows: int,
) -> tuple[Best, list[Read], str]:
    """Return the best rows of a part, the checksums of what was read, and the worker's address."""
    from distributed import get_worker

    if reader.compiled != (compiled("shift") is not None):
        accelerate(reader.compiled)
    worker = get_worker().address
    try:
        with threadpool_limits(limits=1), witnessed() as reads:
            ids = part.ids() if names is None else names
            return reader.best(part, start, rows, excluded, kept, ids), reads, worker
    except DataMissing as error:
        raise DataMissing(f"{error} (On worker {worker}.)") from error


def _itself(value: Any) -> Any:
    return value
