"""A pool streamed through a GPU: while one block is scored, the next one is on its way.

Rows go from the file into one of a few pinned buffers (copied by threads), from there to the GPU
by its copy engine, and are scored on it; the disk or the bus is the limit. Rows that lie on
the GPU already are scored where they are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import rows_at
from goalward.core.rows import check_finite
from goalward.errors import MissingExtra, NotFinite, Unsupported
from goalward.pool import PoolFile, n_rows
from goalward.scale.scan import Progress, Scan
from goalward.selection.top import Best
from goalward.utility.first_order import Direction

__all__ = ["best"]

BUFFERS = 3
COPIERS = 8
"""Threads that fill a buffer: one alone does not keep the bus busy."""


def best(
    device: Any,
    pool: Any,
    scan: Scan,
    rows: int,
    excluded: NDArray[Any],
    kept: Best,
    progress: Progress | None,
) -> Best:
    """Return the best rows of a pool by scores computed on `device`."""
    torch = _torch()
    try:
        target = torch.empty(0, device=device).device
    except (AssertionError, RuntimeError) as error:
        raise Unsupported(
            f"device={device!r} came, and torch cannot use it here ({str(error).splitlines()[0]}); a "
            "device that it sees was expected. Leave device out; `goalward doctor` says what is there."
        ) from error
    statistic, direction = _portable(scan, pool)
    # Halves become single precision and whole numbers double, as everywhere.
    narrow = str(pool.dtype).endswith(("float32", "float16"))
    dtype = torch.float32 if narrow else torch.float64
    there = replace(
        direction,
        motion=replace(
            direction.motion,
            both=torch.as_tensor(direction.motion.both, dtype=dtype, device=target),
            constant=torch.as_tensor(direction.motion.constant, dtype=dtype, device=target),
        ),
    )
    total = n_rows(pool)
    gone = torch.as_tensor(excluded, device=target)
    if _is_tensor(pool):
        source = _resident(pool, rows, target, dtype)
    else:
        source = _streamed(torch, pool, rows, target, dtype)
    for start, X in source:
        values = there.reduced(X, statistic)
        low, high = np.searchsorted(excluded, [start, start + len(values)])
        if not bool(torch.isfinite(values).all()):
            check_finite(X.cpu().numpy(), "X_pool", start=start)
            raise NotFinite(
                f"Scores of the rows from {start} on are not finite numbers. Check the goal."
            )
        if low < high:
            values[gone[int(low) : int(high)] - start] = float("-inf")
        count = min(kept.count, len(values))
        threshold = torch.topk(values, count).values[-1]
        # Everything tied with the last place stays in the draw.
        fresh = torch.nonzero(values >= threshold)[:, 0]
        found = replace(
            Best(kept.count, kept.salt),
            rows=fresh.cpu().numpy() + start,
            values=values[fresh].double().cpu().numpy(),
        )
        kept = kept.joined(found)
        if progress:
            progress(start + len(values), total)
    return kept


def _portable(scan: Scan, pool: Any) -> tuple[str, Direction]:
    if scan.statistic is None or scan.direction is None:
        raise Unsupported(
            "device= serves first-order utilities under the average, min, max and spread "
            "operators, and another query came. Leave device out, or pass arrays of the GPU to "
            "suggest()."
        )
    if scan.fitted.transform is not None:
        raise Unsupported(
            "device= came with a model that has a pipeline in front of it, which runs on the CPU; "
            "a model of plain features was expected. Transform the pool first, or leave device out."
        )
    if not (isinstance(pool, (PoolFile, np.ndarray)) or _is_tensor(pool)):
        raise Unsupported(
            f"device= came with a pool that is a {type(pool).__name__}; a file, a NumPy array or a "
            "tensor was expected. Leave device out."
        )
    return scan.statistic, scan.direction


def _is_tensor(pool: Any) -> bool:
    return type(pool).__module__.split(".")[0] == "torch"


def _resident(pool: Any, rows: int, device: Any, dtype: Any) -> Iterator[tuple[int, Any]]:
    """Return large blocks of a tensor: views, where it is on the device as it must be."""
    size = max(rows, 2**22)
    for start in range(0, n_rows(pool), size):
        yield start, pool[start : start + size].to(device, dtype)


def _streamed(
    torch: Any, pool: Any, rows: int, device: Any, dtype: Any
) -> Iterator[tuple[int, Any]]:
    """Return blocks on the device, copied ahead of their use."""
    total, width = n_rows(pool), int(pool.shape[1])
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


def _fill(threads: ThreadPoolExecutor, pool: Any, start: int, stop: int, host: Any) -> None:
    """Copy rows into a buffer, in as many parts as there are threads."""
    edges = np.linspace(start, stop, COPIERS + 1).astype(int)

    def copy(i: int) -> None:
        low, high = int(edges[i]), int(edges[i + 1])
        if low < high:
            target = host[low - start : high - start]
            if isinstance(pool, PoolFile):
                pool.read_into(target, low)
            else:
                np.copyto(target, rows_at(pool, slice(low, high)))

    list(threads.map(copy, range(COPIERS)))


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise MissingExtra(
            "device= came and torch is not installed. pip install goalward[torch]."
        ) from error
    return torch
