"""A pool streamed through a GPU: while one block is scored, the next one is on its way.

Rows go from the file into one of a few pinned buffers (copied by threads), from there to the GPU
by its copy engine, and are scored on it; the disk or the bus is the limit. Rows that lie on
the GPU already are scored where they are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.arguments import needing
from goalward.core.arrays import is_sparse
from goalward.core.pool import Pool
from goalward.core.rows import Candidates, Labelled, check_finite
from goalward.errors import NotFinite, Unsupported
from goalward.models import Fitted
from goalward.scale.threads import OnePass
from goalward.strategies.selectors import Best
from goalward.strategies.strategy import Request
from goalward.utility.utility import Rule

BUFFERS = 3
COPIERS = 8
"""Threads that fill a buffer: one alone does not keep the bus busy."""
ARRAYS = ("params", "penalty", "class_weights", "label_counts", "free_penalty")
"""What of a model is arrays, beside its rows."""


@dataclass(frozen=True)
class Cuda(OnePass):
    """A GPU of torch: rows are streamed to it through pinned memory, or lie there already.

    For first order under the average, min, max and spread, for uncertainty, and for models
    without a pipeline.

    Parameters
    ----------
    device
        Such as "cuda".

    Examples
    --------
    >>> Cuda("cuda")
    Cuda(block=None, device='cuda')
    """

    device: Any

    def parts(
        self, rule: Rule, request: Request, rows: int, empty: Best
    ) -> Iterator[tuple[Best, int]]:
        torch, place = _library(self.device)
        pool = request.pool
        _check_pool(request)
        # Halves become single precision and whole numbers double, as everywhere.
        narrow = str(pool.dtype).endswith(("float32", "float16"))
        dtype = torch.float32 if narrow else torch.float64

        def convert(array: Any) -> Any:
            return torch.as_tensor(array, dtype=dtype, device=place)

        there = rule.on(convert)
        fitted = replace(request.fitted, params=convert(request.fitted.params))
        source = _resident if _is_tensor(pool.source) else _streamed
        for start, X in source(torch, pool, rows, place, dtype):
            # No rule on a GPU asks for ids, and millions of numbers take longer than the rows.
            names: Any = range(start, start + len(X))
            values = there(Candidates(names, X, fitted.proba_of, start))
            yield _best_of(torch, values, X, start, request.excluded, empty), len(X)

    def narrowed(self, request: Request, positions: NDArray[Any]) -> Request:
        """Return the request of a few rows, and the model, on the GPU: what is dear is done there."""
        few, fitted = request.narrowed(positions), request.fitted
        if not fitted.model.is_linear or is_sparse(fitted.labelled.X):
            return few
        torch, place = _library(self.device)
        return replace(few, fitted=_there(torch, fitted, place))


def _there(torch: Any, fitted: Fitted, device: Any) -> Fitted:
    """Return a linear model with its arrays on the device."""
    arrays: dict[str, Any] = {name: getattr(fitted, name) for name in ARRAYS}
    arrays = {
        name: torch.as_tensor(a, device=device) for name, a in arrays.items() if a is not None
    }
    known = (getattr(fitted.labelled, each.name) for each in fields(Labelled))
    labelled = Labelled(*(torch.as_tensor(array, device=device) for array in known))
    return replace(fitted, labelled=labelled, **arrays)


def _best_of(
    torch: Any, values: Any, X: Any, start: int, excluded: NDArray[Any], empty: Best
) -> Best:
    """Return the best rows of a block that was scored on the device."""
    if not bool(torch.isfinite(values).all()):
        check_finite(X.cpu().numpy(), "X_pool", start=start)
        raise NotFinite(
            f"Scores of the rows from {start} on are not finite numbers. Check the goal."
        )
    low, high = np.searchsorted(excluded, [start, start + len(values)])
    if low < high:
        gone = torch.as_tensor(excluded[low:high] - start, device=values.device)
        values[gone] = float("-inf")
    threshold = torch.topk(values, min(empty.count, len(values))).values[-1]
    # Everything tied with the last place stays in the draw.
    fresh = torch.nonzero(values >= threshold)[:, 0]
    rows, best = fresh.cpu().numpy() + start, values[fresh].double().cpu().numpy()
    return replace(empty, rows=rows, values=best)


def _library(device: Any) -> tuple[Any, Any]:
    """Return torch, and the device that was asked for."""
    with needing("device="):
        import torch
    try:
        return torch, torch.empty(0, device=device).device
    except (AssertionError, RuntimeError) as error:
        raise Unsupported(
            f"device={device!r} came, and torch cannot use it here ({str(error).splitlines()[0]}); a "
            "device that it sees was expected. Leave device out; `goalward doctor` says what is there."
        ) from error


def _check_pool(request: Request) -> None:
    if request.fitted.transform is not None:
        raise Unsupported(
            "device= came with a model that has a pipeline in front of it, which runs on the CPU; "
            "a model of plain features was expected. Transform the pool first, or leave device out."
        )
    source = request.pool.source
    if not (request.pool.on_disk or isinstance(source, np.ndarray) or _is_tensor(source)):
        raise Unsupported(
            f"device= came with a pool that is a {type(source).__name__}; a file, a NumPy array or a "
            "tensor was expected. Leave device out."
        )


def _is_tensor(pool: Any) -> bool:
    return type(pool).__module__.split(".")[0] == "torch"


def _resident(
    torch: Any, pool: Pool, rows: int, device: Any, dtype: Any
) -> Iterator[tuple[int, Any]]:
    """Return large blocks of a tensor: views, where it is on the device as it must be."""
    size = max(rows, 2**22)
    for start in range(0, len(pool), size):
        yield start, pool.part(start, start + size).to(device, dtype)


def _streamed(
    torch: Any, pool: Pool, rows: int, device: Any, dtype: Any
) -> Iterator[tuple[int, Any]]:
    """Return blocks on the device, copied ahead of their use."""
    total, width = len(pool), int(pool.width or 0)
    pinned = device.type == "cuda"
    hosts = [torch.empty((rows, width), dtype=dtype, pin_memory=pinned) for _ in range(BUFFERS)]
    copies = torch.cuda.Stream(device) if pinned else None
    waiting: deque[tuple[int, Any, Any]] = deque()
    with ThreadPoolExecutor(COPIERS) as threads:
        for turn, start in enumerate(range(0, total, rows)):
            host = hosts[turn % BUFFERS]
            stop = min(start + rows, total)
            if len(waiting) == BUFFERS - 1:
                yield _arrived(torch, waiting.popleft())
            _fill(threads, pool, start, stop, host.numpy())
            if copies is None:
                waiting.append((start, host[: stop - start].clone(), None))
                continue
            with torch.cuda.stream(copies):
                moved = host[: stop - start].to(device, non_blocking=True)
                event = copies.record_event()
            waiting.append((start, moved, event))
        while waiting:
            yield _arrived(torch, waiting.popleft())


def _arrived(torch: Any, item: tuple[int, Any, Any]) -> tuple[int, Any]:
    start, moved, event = item
    if event is not None:
        current = torch.cuda.current_stream(moved.device)
        current.wait_event(event)
        moved.record_stream(current)
        # Its pinned buffer is filled again after this.
        event.synchronize()
    return start, moved


def _fill(threads: ThreadPoolExecutor, pool: Pool, start: int, stop: int, host: Any) -> None:
    """Copy rows into a buffer, in as many parts as there are threads."""
    edges = np.linspace(start, stop, COPIERS + 1).astype(int).tolist()

    def copy(low: int, high: int) -> None:
        if low < high:
            pool.read_into(host[low - start : high - start], low)

    list(threads.map(copy, edges[:-1], edges[1:]))
