"""Dask workers read their own parts of a file and send back their best rows.

What travels is a path, a range and a few numbers per feature; never rows. Tasks are pure, so
that what a lost worker had is computed again by another, and the result is the same. Each says
what it read, by checksums, and these must be those of the file here: a worker with another file
is an error. The first query reads the file here too for that; later ones know its checksums.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from goalward.core.arguments import needing
from goalward.core.kernels.compiled import accelerate, compiled
from goalward.core.pool_files import PoolFile, Read, differing, witnessed
from goalward.errors import BadParameter, ClusterLost, DataMissing, GoalwardError, Unsupported
from goalward.scale.threads import OnePass, reading
from goalward.strategies.engine import Reader
from goalward.strategies.selectors import Best
from goalward.strategies.strategy import Request
from goalward.utility.utility import Rule

# A Dask cluster that may go away: found, waited for with an eye on it, and missed when it is gone.


TIMEOUT = 20.0
"""Seconds for a scheduler to answer."""
PATIENCE = 60.0
"""Seconds without any worker before they are given up, unless Dask's own
`distributed.scheduler.no-workers-timeout` says otherwise: a cluster that starts its workers when
they are needed takes that long."""
POLL = 1.0
"""Seconds between two looks at a cluster that is silent."""


def connected(address: str, timeout: float | None = None) -> Any:
    """Return a client of the scheduler at an address; `ClusterLost` if none answers."""
    with needing("client="):
        import distributed
    timeout = TIMEOUT if timeout is None else timeout
    try:
        return distributed.Client(address, timeout=timeout)
    except (OSError, TimeoutError) as error:
        raise ClusterLost(
            f"No Dask scheduler answers at {address} within {timeout:g} s ({error}); one was expected. "
            "Check the address and that it runs: `dask scheduler`, and `dask worker` for workers."
        ) from error
    except ValueError as error:
        raise BadParameter(
            f"{address!r} is no address of a scheduler ({error}); one like tcp://host:8786 was expected."
        ) from error


def threads(client: Any) -> int:
    """Return how many tasks the workers do at once; 0 without any."""
    with reaching(client):
        return sum(client.nthreads(callback_timeout=TIMEOUT).values())


def finished(client: Any, futures: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """Return futures and results as they come; `ClusterLost` where nobody is left to do them."""
    import distributed

    waiting, alone = set(futures), None
    while waiting:
        with reaching(client), suppress(TimeoutError):
            distributed.wait(list(waiting), timeout=POLL, return_when="FIRST_COMPLETED")
        fetched = False
        for future in [one for one in waiting if one.status != "pending"]:
            # A worker that dies takes what it did along: then it is to be done again, by others.
            try:
                result = _result(future)
            except TimeoutError:
                continue
            fetched = True
            waiting.discard(future)
            yield future, result
        if fetched or _at_work(client):
            alone = None
            continue
        alone = monotonic() if alone is None else alone
        if monotonic() - alone >= _patience():
            raise ClusterLost(
                f"There has been no worker for {_patience():g} s, and {len(waiting)} parts of the work are "
                "left; workers were expected. Start some, with `dask worker`, and rank again: "
                "nothing else was lost."
            )


@contextmanager
def reaching(client: Any) -> Iterator[None]:
    """Turn what Dask says of a scheduler that is gone into `ClusterLost`."""
    import distributed

    lost = ClusterLost(
        "The Dask scheduler is gone, or the client was closed; a client that is connected was "
        "expected. Connect again with a new Client, and rank again: nothing else was lost."
    )
    if client.status != "running":
        raise lost
    try:
        yield
    except GoalwardError:
        raise
    except (OSError, TimeoutError, distributed.CancelledError) as error:
        raise lost from error
    except Exception as error:
        # Connections that close in the middle of a call show in many ways.
        if client.status != "running":
            raise lost from error
        raise


def _result(future: Any) -> Any:
    import distributed

    try:
        return future.result(timeout=TIMEOUT)
    except distributed.KilledWorker as error:
        raise ClusterLost(
            f"Several workers died over the same part of the work ({error}); out of memory, as a rule. "
            "Give them more of it, or read less at a time: block=1000."
        ) from error
    except distributed.CancelledError as error:
        raise ClusterLost(
            f"A part of the work was cancelled ({error}), by the scheduler or another client; a result "
            "was expected. Rank again."
        ) from error


def _at_work(client: Any) -> bool:
    """Return whether there are workers; a scheduler that does not say so has none."""
    with reaching(client), suppress(TimeoutError):
        return bool(client.nthreads(callback_timeout=TIMEOUT))
    return False


def _patience() -> float:
    import dask
    from dask.utils import parse_timedelta

    own = dask.config.get("distributed.scheduler.no-workers-timeout", None)
    return PATIENCE if own is None else float(parse_timedelta(own))


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
                    [empty] * len(spans),
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
