"""BLAS limited to one thread, for the whole process, while many small products run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from threading import Lock
from typing import Any

from joblib import Parallel, delayed
from threadpoolctl import ThreadpoolController

_lock = Lock()
_inside: list[Any] = []
_depth = [0]

FEW = range(2**18, 2**26)
"""Multiplications for which a second BLAS thread costs more than it saves."""


def cores() -> int:
    """Return the number of cores to use: the number of threads BLAS is allowed."""
    return max((lib.num_threads for lib in _libraries().lib_controllers), default=1)


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


@contextmanager
def threads_for(multiplications: int) -> Iterator[None]:
    """Limit BLAS to one thread for a small product: other threads would keep cores busy."""
    with one_blas_thread() if multiplications in FEW else nullcontext():
        yield


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS to one thread; safe to nest and to enter from several threads."""
    with _lock:
        _depth[0] += 1
        if _depth[0] == 1:
            _inside.append(_libraries().limit(limits=1))
    try:
        yield
    finally:
        with _lock:
            _depth[0] -= 1
            if _depth[0] == 0:
                _inside.pop().restore_original_limits()


def in_threads(call: Callable[..., Any], jobs: list[Any], n_jobs: int | None) -> list[Any]:
    """Return call(*job) for every job, in `n_jobs` threads with one BLAS thread each."""
    with one_blas_thread():
        if n_jobs in (None, 1) or len(jobs) == 1:
            return [call(*job) for job in jobs]
        return list(
            Parallel(n_jobs=n_jobs, backend="threading")(delayed(call)(*job) for job in jobs)
        )
