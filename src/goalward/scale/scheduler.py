"""A Dask cluster that may go away: found, waited for with an eye on it, and missed when it is gone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any

from goalward.core.extras import needing
from goalward.errors import BadParameter, ClusterLost, GoalwardError

__all__ = ["connected", "finished", "reaching", "threads"]

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
