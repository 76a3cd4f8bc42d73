"""Scoring against the limits: reading the pool, and the bare matrix product."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from goalward.core.kernels.compiled import accelerate, installed
from goalward.goals import DevLoss
from goalward.lab.speed.race import Ratio, race
from goalward.labels import Spread
from goalward.learners import Logistic
from goalward.models import Fitted, Labelled
from goalward.pool import open_pool
from goalward.scale import rank
from goalward.solvers import Auto, ConjugateGradient
from goalward.utility import FirstOrder
from goalward.utility.first_order import Direction

__all__ = [
    "any_direction",
    "binary_model",
    "directions",
    "out_of_core",
    "read_all",
    "scoring",
    "write_rows",
]


def scoring(quick: bool) -> list[Ratio]:
    """Return the scores of a pool in memory against reading it and against the bare product."""
    shrink, repeats = (20, 1) if quick else (1, 9)
    results = []
    for rows, d, K, target_compiled, target_plain in (
        (1_000_000, 768, 2, "<= 1.25", ""),
        (1_000_000, 16, 26, "<= 1.5", "<= 3"),
        (100_000, 768, 100, "<= 1.1", ""),
    ):
        rng = np.random.default_rng(0)
        X = rng.random((rows // shrink, d), dtype=np.float32) - np.float32(0.5)
        direction = any_direction(d, K)
        for compiled in (False, True):
            if compiled and not installed():
                continue
            accelerate(compiled)
            how = "Numba" if compiled else "NumPy only"
            asked = target_compiled if compiled else target_plain
            for name, limit, target in _limits(X, direction, asked):
                calls = (partial(direction.reduced, X, "spread"), limit)
                what = f"scoring {len(X):,} rows, d={d}, K={K}, float32, {how}"
                results.append(Ratio.of(what, name, calls, repeats, target))
        accelerate(False)
    return results


def any_direction(d: int, K: int) -> Direction:
    """Return a direction of a fitted model of a size; which, does not matter for its speed."""
    rng = np.random.default_rng(1)
    n = max(200, 2 * K)
    X, y = rng.normal(size=(n, d)), np.arange(n) % K
    fitted = Logistic(C=0.1, tol=1e-3, solver=ConjugateGradient(tol=1e-2)).fit(X, y)
    goal = DevLoss(X[: n // 2], y[: n // 2])
    return cast(Direction, FirstOrder(solver=ConjugateGradient(tol=1e-3)).prepare(fitted, goal))


def _limits(
    X: NDArray[Any], direction: Direction, target: str
) -> list[tuple[str, Callable[[], Any], str]]:
    """Return what scoring cannot beat: reading for two columns, the product for more."""
    if direction.motion.n_classes == 2:
        return [("reading X (its sum)", partial(np.sum, X), target)]
    both = direction.motion.both.astype(X.dtype)
    into = np.empty((len(X), both.shape[1]), dtype=X.dtype)
    return [
        ("the bare product X [Θ | V]", partial(np.matmul, X, both), target),
        # Without the fresh pages that a product's result needs: no query has this for free.
        ("the same into an array that is there", partial(np.matmul, X, both, out=into), ""),
    ]


def out_of_core(quick: bool) -> list[Ratio]:
    """Return a ranking of a 4 GB file, in the page cache, against reading it; then on a cluster."""
    rows, repeats = (35_000, 1) if quick else (1_400_000, 3)
    results = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pool.npy"
        write_rows(path, rows, 768)
        pool = open_pool(path)
        fitted, goal = binary_model()
        mapped = np.load(path, mmap_mode="r")
        accelerate()
        query = partial(rank, pool, fitted, goal, operator=Spread())
        size = f"{rows * 768 * 4 / 1e9:.1f} GB file, K=2"
        calls = (query, partial(read_all, mapped))
        what = f"ranking a {size}"
        results.append(Ratio.of(what, "reading it (its sum)", calls, repeats, "<= 1.11"))
        results += _cluster(query, size, repeats)
        accelerate(False)
    return results


def _cluster(query: Any, size: str, repeats: int) -> list[Ratio]:
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        return [Ratio.missing(f"ranking a {size}", "Dask", "pip install goalward[dask]")]
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as workers,
        Client(workers) as client,
    ):
        ours, a, theirs, b = race(partial(query, client=client), partial(query, n_jobs=2), repeats)
    assert a.rows.tolist() == b.rows.tolist()
    what = f"ranking a {size} on Dask's LocalCluster(2)"
    return [Ratio(what, "one process, 2 threads", ours, theirs, "<= 1.4")]


def write_rows(path: Path, rows: int, d: int) -> None:
    """Write random rows, a block repeated: what they are does not matter for speed."""
    block = np.random.default_rng(0).random((20_000, d), dtype=np.float32) - np.float32(0.5)
    file = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(rows, d))
    for start in range(0, rows, len(block)):
        part = file[start : start + len(block)]
        part[:] = block[: len(part)]
    file.flush()


def read_all(mapped: NDArray[Any]) -> float:
    """Return the sum of a file, read in blocks: nothing less reads it."""
    return float(sum(mapped[i : i + 16_384].sum() for i in range(0, len(mapped), 16_384)))


def binary_model() -> tuple[Fitted, DevLoss]:
    """Return a model of two classes and 768 features, and a goal for it."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 768))
    y = np.arange(200) % 2
    return Logistic(C=0.1).fit(X, y), DevLoss(X[:100], y[:100])


def directions(quick: bool) -> list[Ratio]:
    """Return the seconds of solving for a direction of 76,800 and of 768,000 unknowns to 1e-6.

    All threads of the machine; labelled rows of a decaying spectrum, a model a step from zero.
    """
    results = []
    sizes = ((768, 10, 100), (768, 100, 400)) if quick else ((768, 100, 1000), (768, 1000, 4000))
    for (d, K, n), target in zip(sizes, ("<= 1.5 s", "<= 6 s"), strict=True):
        fitted = _early(d, K, n)
        rng = np.random.default_rng(2)
        gradient = DevLoss(rng.normal(size=(500, d)), np.arange(500) % K).gradient(fitted)
        times, residual, taken = [], 0.0, 0
        for _ in range(1 if quick else 3):
            # A Hessian of its own each time, so that nothing is remembered.
            hessian = _early(d, K, n).hessian
            hessian.proba.sum()
            began = perf_counter()
            solution = Auto(tol=1e-6).prepare(hessian)(gradient, tol=1e-6)
            times.append(perf_counter() - began)
            residual, taken = solution.residual, solution.iterations
        results.append(
            Ratio(
                f"direction of {d * K:,} unknowns, {n} labels",
                f"relative residual {residual:.0e}",
                tuple(times),
                (),
                target,
                note=f"{solution.solver}, {taken} products, all threads; a model one gradient step from "
                "zero, C = 0.1: a confident one takes more",
            )
        )
    return results


def _early(d: int, K: int, n: int) -> Fitted:
    """Return a model one gradient step from zero: good enough to have a curvature."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) / np.sqrt(1.0 + np.arange(d))
    X *= 14.0 / np.linalg.norm(X, axis=1).mean()
    targets = np.eye(K)[np.arange(n) % K]
    labelled = Labelled(X, targets, np.ones(n))
    penalty = np.append(np.full(d, 10.0), 0.0)
    params = np.zeros((d + 1, K))
    params[:-1] = X.T @ (targets - 1.0 / K) / n
    return Fitted(params, labelled, penalty, np.arange(K))
