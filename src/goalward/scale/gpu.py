"""A pool streamed through a GPU: one block is scored while the next is copied by pinned buffers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.arguments import needing
from goalward.core.arrays import is_sparse
from goalward.core.pool import Pool
from goalward.core.rows import Candidates, Labelled, check_finite
from goalward.errors import NotFinite, Unsupported
from goalward.models import Fitted
from goalward.scale.threads import OnePass, Parts
from goalward.strategies.selectors import Best
from goalward.strategies.strategy import Request
from goalward.utility.utility import Rule

BUFFERS, COPIERS = 3, 8
ARRAYS = ("params", "penalty", "class_weights", "label_counts", "free_penalty")  # of a model
Blocks = Iterator[tuple[int, Any]]  # the first position and the rows of each block


@dataclass(frozen=True)
class Cuda(OnePass):
    """A GPU of torch: rows are streamed to it, or lie there already.

    For `FirstOrder` under average, min, max and spread, uncertainty, and models without a pipeline.

    Examples
    --------
    >>> Cuda("cuda")
    Cuda(block=None, device='cuda')
    """

    device: Any

    def parts(self, rule: Rule, request: Request, rows: int, empty: Best) -> Parts:
        torch, place = _library(self.device)
        pool, source = request.pool, request.pool.source
        features: Any = request.fitted.transform
        if not request.fitted.portable:
            raise Unsupported(
                "device= does not support a model with a pipeline in front of it, which runs on the CPU. "
                "Transform the pool first, or leave device out."
            )
        on_device = type(source).__module__.split(".")[0] == "torch"
        if not (pool.on_disk or isinstance(source, np.ndarray) or on_device):
            raise Unsupported(
                f"device= needs a file, a NumPy array or a tensor, got a {type(source).__name__}. Leave "
                "device out."
            )
        # Halves become single precision and whole numbers double, as everywhere.
        narrow = str(pool.dtype).endswith(("float32", "float16"))
        dtype = torch.float32 if narrow else torch.float64

        def convert(array: Any) -> Any:
            return torch.as_tensor(array, dtype=dtype, device=place)

        there = rule.on(convert)
        fitted = replace(request.fitted, params=convert(request.fitted.params))
        blocks = _resident if on_device else _streamed
        for start, read in blocks(torch, pool, rows, place, dtype):
            X = read if features is None else features.transform(read)
            # No rule on a GPU asks for ids, and millions of numbers take longer than the rows.
            names: Any = range(start, start + len(X))
            values = there(Candidates(names, X, fitted.proba_of, start))
            yield _best_of(torch, values, X, start, request.excluded, empty), len(X)

    def narrowed(self, request: Request, positions: NDArray[Any]) -> Request:
        """Return the request for a few rows, and the model, moved to the GPU."""
        few, fitted = request.narrowed(positions), request.fitted
        if not fitted.model.is_linear or is_sparse(fitted.labelled.X):
            return few
        torch, place = _library(self.device)
        return replace(few, fitted=_there(torch, fitted, place))


def _there(torch: Any, fitted: Fitted, device: Any) -> Fitted:
    held = {name: getattr(fitted, name) for name in ARRAYS if getattr(fitted, name) is not None}
    arrays: dict[str, Any] = {
        name: torch.as_tensor(array, device=device) for name, array in held.items()
    }
    known = (getattr(fitted.labelled, each.name) for each in fields(Labelled))
    labelled = Labelled(*(torch.as_tensor(array, device=device) for array in known))
    return replace(fitted, labelled=labelled, **arrays)


def _best_of(
    torch: Any, values: Any, X: Any, start: int, excluded: NDArray[Any], empty: Best
) -> Best:
    if not bool(torch.isfinite(values).all()):
        check_finite(X.cpu().numpy(), "X_pool", start=start)
        raise NotFinite(f"Scores of the rows from {start} on are not finite. Check the goal.")
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
    with needing("device="):
        import torch
    try:
        return torch, torch.empty(0, device=device).device
    except (AssertionError, RuntimeError) as error:
        raise Unsupported(
            f"torch cannot use device={device!r} here ({str(error).splitlines()[0]}). Leave device out; "
            "`goalward doctor` lists devices."
        ) from error


def _resident(torch: Any, pool: Pool, rows: int, device: Any, dtype: Any) -> Blocks:
    """Return large blocks of a tensor: views, where it is on the device as it must be."""
    size = max(rows, 2**22)
    for start in range(0, len(pool), size):
        yield start, pool.part(start, start + size).to(device, dtype)


def _streamed(torch: Any, pool: Pool, rows: int, device: Any, dtype: Any) -> Blocks:
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
            # Several threads fill a buffer: one alone does not keep the bus busy.
            edges = np.linspace(start, stop, COPIERS + 1).astype(int).tolist()
            parts = [(host.numpy()[a - start : b - start], a) for a, b in pairwise(edges) if a < b]
            list(threads.map(pool.read_into, *zip(*parts, strict=True)))
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
