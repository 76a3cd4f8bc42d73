"""Scoring against its limits, reading the pool and the bare matrix product, on a CPU and on a GPU."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from goalward.core.cores import cores
from goalward.core.files import NpyFile
from goalward.core.kernels.compiled import accelerate, installed
from goalward.core.pool_files import open_pool
from goalward.errors import MissingExtra, Unsupported
from goalward.goals import DevLoss
from goalward.labels import Spread
from goalward.models import Fitted
from goalward.models.features import Landmarks, fitted_maps
from goalward.models.logistic import Logistic
from goalward.scale import rank
from goalward.solvers import ConjugateGradient
from goalward.strategies import GoalOriented, recipe
from goalward.strategies.strategy import Request
from goalward.studio.study.model_file import StudyModel
from goalward.utility import FirstOrder
from goalward.utility.first_order import Direction, Motion
from race import Ratio, race, timed

TURNS = ("decision-risk among 1000 by margin", "coverage among 4000 by random", "margin")
"""What takes turns over a pool of any size: each reads it once at most."""


def scoring(quick: bool) -> list[Ratio]:
    """Return the scores of a pool in memory against reading it and against the bare product."""
    shrink, repeats = (20, 1) if quick else (1, 9)
    results = []
    for rows, d, K, compiled, plain in (
        (1_000_000, 768, 2, "<= 1.25", ""),
        (1_000_000, 16, 26, "<= 1.5", "<= 3"),
        (100_000, 768, 100, "<= 1.1", ""),
    ):
        X = _rows(rows // shrink, d)
        direction = any_direction(d, K)
        limit: Callable[[], Any] = X.sum
        peer = "reading X (its sum)"
        if K > 2:
            limit = partial(np.matmul, X, direction.motion.both.astype(X.dtype))
            peer = "the bare product X [Θ | V]"
        ways = {"NumPy only": plain} | ({"Numba": compiled} if installed() else {})
        for how, target in ways.items():
            accelerate(how == "Numba")
            times, _ = race(partial(direction.motion.reduced, X, "spread"), limit, repeats)
            what = f"scoring {len(X):,} rows, d={d}, K={K}, float32, {how}"
            results.append(Ratio(what, peer, *times, target))
        accelerate(False)
    return results


def suggesting(quick: bool) -> list[Ratio]:
    """Return whole queries of first order, by all cores, against reading the pool and the product."""
    shrink, repeats = (100, 1) if quick else (1, 15)
    results = []
    for rows, d, K, target in (
        (300_000, 768, 2, "<= 1.5"),
        (400_000, 16, 26, "<= 2.5"),
        (60_000, 768, 100, "<= 1.3"),
    ):
        X = _rows(rows // shrink, d)
        fitted, goal = any_model(d, K)
        strategy = GoalOriented(goal, operator=Spread())
        bind = partial(strategy.bind, Request.of(fitted, X, 10))
        limit: Callable[[], Any] = X.sum
        peer = "reading X (its sum, one thread)"
        if K > 2:
            bound: Any = bind()
            limit = partial(np.matmul, X, bound.scorer.motion.both.astype(X.dtype))
            peer = f"the product X [Θ | V], {cores()} threads"
        times, _ = race(partial(strategy.suggest, fitted, X, 10), limit, repeats, threads=None)
        solving = [timed(bind)[0] for _ in range(1 if quick else 5)]
        what = f"suggest, first order, {len(X):,} rows, d={d}, K={K}, float32, {cores()} cores"
        note = f"solving for the goal is {min(solving) / min(times[1]):.2f} of it"
        results.append(Ratio(what, peer, *times, target, note=note))
    return results


def turns(quick: bool) -> list[Ratio]:
    """Return each turn of three, over a pool of any size, against predicting the pool."""
    X, repeats = (_rows(2_000, 384), 1) if quick else (_rows(1_000_000, 384), 7)
    results = []
    for K in (2, 10):
        fitted, _ = any_model(384, K)
        for text in TURNS:
            query = partial(recipe(text).build(pool=X).suggest, fitted, X, 10)
            predict = partial(fitted.predict_proba, X)
            times, _ = race(query, predict, repeats, threads=None)
            what = f"{text}, 10 rows of {len(X):,} x 384, K={K}, {cores()} cores"
            results.append(Ratio(what, "predict_proba of the pool", *times, "<= 3"))
    return results


def mapped(quick: bool) -> list[Ratio]:
    """Return scans through 100 landmarks against linear ones, turns against predictions, and a fit."""
    shrink, repeats = (100, 1) if quick else (1, 7)
    results = []
    for rows, d in ((300_000, 768), (1_000_000, 64)):
        X = _rows(rows // shrink, d)
        (fitted, goal), curved = any_model(d, 2), landmarks(X, 2)
        strategy = GoalOriented(goal, operator=Spread())
        queries = [partial(strategy.suggest, model, X, 10) for model in (curved, fitted)]
        times, _ = race(*queries, repeats, threads=None)
        what = (
            f"suggest through 100 landmarks, first order, {len(X):,} rows, d={d}, {cores()} cores"
        )
        results.append(Ratio(what, "the same of a linear model", *times, "<= 2.5"))
    predict = partial(curved.predict_proba, X)
    for text in TURNS:
        query = partial(recipe(text).build(pool=X).suggest, curved, X, 10)
        times, _ = race(query, predict, repeats, threads=None)
        what = f"{text} through 100 landmarks, 10 rows of {len(X):,}, d=64"
        results.append(Ratio(what, "predict_proba of the pool by that model", *times, "<= 3"))
    return [*results, _choosing(1 if quick else 5)]


def landmarks(X: NDArray[Any], K: int) -> Fitted:
    """Return a model through landmarks; which, does not matter for its speed."""
    rows, y = X[:200].astype(np.float64), np.arange(200) % K
    return Logistic(C=0.1, features=[Landmarks(100, tame=False)]).fit(rows, y, pool=X)


def _choosing(repeats: int) -> Ratio:
    """Return a fit that chooses features and C against one fit of a line."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2000, 20)), np.arange(2000) % 10
    X[:, :10] += 2.0 * np.eye(10)[y]
    maps = fitted_maps("auto", X)
    chosen = partial(Logistic(C="loo", features=maps).fit, X[:200], y[:200])
    times, _ = race(chosen, partial(Logistic().fit, X[:200], y[:200]), repeats)
    what = "fit with all maps and C, 200 labels, d=20, K=10"
    return Ratio(what, "one linear fit", *times, note=f"{min(times[0]):.2f} s; asked 1 s")


def _rows(n: int, d: int) -> NDArray[np.float32]:
    return np.random.default_rng(0).random((n, d), dtype=np.float32) - np.float32(0.5)


def any_model(d: int, K: int) -> tuple[Fitted, DevLoss]:
    """Return a model of a size, and a goal for it; which, does not matter for its speed."""
    rng = np.random.default_rng(1)
    n = max(200, 2 * K)
    X, y = rng.normal(size=(n, d)), np.arange(n) % K
    fitted = Logistic(C=0.1, tol=1e-3, solver=ConjugateGradient(tol=1e-2)).fit(X, y)
    return fitted, DevLoss(X[: n // 2], y[: n // 2])


def any_direction(d: int, K: int) -> Direction:
    """Return what scores a pool for `any_model`."""
    first_order = FirstOrder(solver=ConjugateGradient(tol=1e-3))
    return cast(Direction, first_order.prepare(*any_model(d, K)))


def out_of_core(quick: bool) -> list[Ratio]:
    """Return a ranking of a 4 GB file, in the page cache, against reading it; then on a cluster."""
    rows, repeats = (5_000, 1) if quick else (1_400_000, 3)
    with tempfile.TemporaryDirectory() as folder:
        path, read = rows_on_disk(Path(folder), rows)
        accelerate()
        query = partial(rank, open_pool(path), *any_model(768, 2), operator=Spread())
        what = f"ranking a {rows * 768 * 4 / 1e9:.1f} GB file, K=2"
        times, _ = race(query, read, repeats)
        read_once = Ratio(what, "reading it (its sum)", *times, "<= 1.11")
        results = [read_once, _cluster(query, what, repeats, quick)]
        accelerate(False)
        fitted, _ = any_model(768, 2)
        for text in TURNS:
            strategy = recipe(text).build(pool=open_pool(path))
            call = partial(rank, open_pool(path), fitted, strategy=strategy, n_jobs=cores())
            times, _ = race(call, read, repeats, threads=None)
            what = f"{text}, a {rows * 768 * 4 / 1e9:.1f} GB file, {cores()} threads"
            results.append(Ratio(what, "reading it (its sum)", *times, "<= 2"))
    return results


def predicting(quick: bool) -> list[Ratio]:
    """Return labels and probabilities for a file of vectors, in the page cache, against reading it."""
    rows, repeats = (20_000, 1) if quick else (1_000_000, 5)
    results = []
    with tempfile.TemporaryDirectory() as folder:
        path, read = rows_on_disk(Path(folder), rows, 384)
        for K, target in ((2, "<= 1.5"), (10, "")):
            model = StudyModel.of(any_model(384, K)[0], range(K))
            predict = partial(model.likeliest, NpyFile(path))
            times, _ = race(predict, read, repeats, threads=None)
            what = f"predicting {rows:,} x 384 rows of a study, K={K}, float32, {cores()} cores"
            results.append(Ratio(what, "reading them (their sum)", *times, target))
    return results


def rows_on_disk(folder: Path, rows: int, d: int = 768) -> tuple[Path, Callable[[], float]]:
    """Write rows of d features, and return where they are and what does no more than read them.

    They are one random block, repeated: what they hold does not matter for speed.
    """
    path, size = folder / "pool.npy", 20_000
    block = _rows(size, d)
    file = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(rows, d))
    for start in range(0, rows, size):
        file[start : start + size] = block[: rows - start]
    file.flush()
    mapped = np.load(path, mmap_mode="r")
    return path, lambda: sum(mapped[i : i + 16_384].sum() for i in range(0, rows, 16_384))


def _cluster(query: Callable[..., Any], what: str, repeats: int, quick: bool) -> Ratio:
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        return Ratio(what, "Dask", (math.nan,), note="pip install goalward[dask]")
    # Threads are enough for a quick look: processes take seconds to start.
    workers = {"n_workers": 2, "threads_per_worker": 1, "processes": not quick}
    with LocalCluster(**workers, dashboard_address=None) as cluster, Client(cluster) as client:
        calls = partial(query, client=client), partial(query, n_jobs=2)
        times, (a, b) = race(*calls, repeats)
    assert a.rows.tolist() == b.rows.tolist()
    what = f"{what} on Dask's LocalCluster(2)"
    return Ratio(what, "one process, 2 threads", *times, "<= 1.4")


# On a GPU, against what its memory and its matrix units do.


def gpu(quick: bool) -> list[Ratio]:
    """Return resident pools against reading them and against the product, and a streamed file."""
    try:
        import torch
    except ImportError as error:
        raise MissingExtra("--gpu needs torch. Run `pip install goalward[torch]`.") from error
    if not torch.cuda.is_available():
        raise Unsupported("--gpu needs a CUDA device, and torch sees none. Run it where one is.")
    shrink, repeats = (20, 1) if quick else (1, 10)
    results = [
        _resident(torch, 12_000_000 // shrink, 2, repeats),
        _resident(torch, 1_000_000 // shrink, 1000, repeats),
        _streamed(2_800_000 // shrink),
        *(_turn(torch, 12_000_000 // shrink, K, text) for K in (2, 10) for text in TURNS),
        *(_mapped(torch, n // shrink, d) for n, d in ((3_000_000, 768), (12_000_000, 64))),
    ]
    name = torch.cuda.get_device_name(0)
    return [replace(ratio, note=f"{name}. {ratio.note}") for ratio in results]


def _resident(torch: Any, n: int, K: int, repeats: int) -> Ratio:
    rows = torch.rand((n, 768), device="cuda") - 0.5
    host = any_direction(768, K).motion
    both, constant = (
        torch.as_tensor(part, dtype=rows.dtype, device="cuda")
        for part in (host.both, host.constant)
    )
    there = Motion(both, constant, K)
    # Against the scores of a CPU in double precision.
    exact = host.reduced(rows[:2000].double().cpu().numpy(), "spread")
    got = there.reduced(rows[:2000], "spread").double().cpu().numpy()
    difference = float(np.abs(got - exact).max() / np.abs(exact).max())
    if K == 2:
        limit: Callable[[], Any] = rows.sum
        peer, target = "reading it (torch.sum)", "<= 1.0526"
        unit, amount = "TB/s", n * 768 * 4 / 1e12
    else:
        limit = lambda: [part @ there.both for part in rows.split(2**17)]
        peer, target = "the product X [Θ | V] alone, float32", "<= 1.667"
        unit, amount = "TFLOP/s", 2.0 * n * 768 * there.both.shape[1] / 1e12
    what = f"GPU: scoring {n:,} resident rows, d=768, K={K}, float32"
    ours, theirs = _timed(torch, lambda: there.reduced(rows, "spread"), limit, repeats)
    note = f"{amount / min(ours):.3g} {unit} against {amount / min(theirs):.3g}"
    return Ratio(what, peer, ours, theirs, target, difference, note)


def _turn(torch: Any, n: int, K: int, text: str) -> Ratio:
    """Return a turn of the recommended strategy over resident rows against their product."""
    rows = torch.rand((n, 768), device="cuda") - 0.5
    fitted, _ = any_model(768, K)
    strategy = recipe(text).build(pool=rows[:1000].cpu().numpy())
    weights = torch.as_tensor(fitted.params[:-1], dtype=rows.dtype, device="cuda")

    def product() -> None:
        (rows @ weights).sum()
        torch.cuda.synchronize()

    query = partial(rank, rows, fitted, strategy=strategy, device="cuda")
    # A rest would only let the clocks of the GPU fall.
    times, _ = race(query, product, 9, threads=None, rest=0.0)
    note = f"{min(times[0]):.3f} s against {min(times[1]):.4f}"
    what = f"GPU: {text}, 10 rows of {n:,} resident rows, d=768, K={K}"
    return Ratio(what, "the product X Θ of the pool, float32", *times, "<= 3", note=note)


def _mapped(torch: Any, n: int, d: int) -> Ratio:
    """Return a scan of resident rows through landmarks against a linear one."""
    rows = torch.rand((n, d), device="cuda") - 0.5
    (fitted, goal), curved = any_model(d, 2), landmarks(rows[:2000].cpu().numpy(), 2)
    calls = [
        partial(rank, rows, model, goal, operator=Spread(), device="cuda")
        for model in (curved, fitted)
    ]
    times, _ = race(*calls, 9, threads=None, rest=0.0)
    what = f"GPU: scan through 100 landmarks, {n:,} resident rows, d={d}"
    note = f"{min(times[0]):.3f} s against {min(times[1]):.4f}"
    return Ratio(what, "the same of a linear model", *times, "<= 2.5", note=note)


def _timed(torch: Any, ours: Callable[[], Any], theirs: Callable[[], Any], repeats: int) -> Any:
    """Return seconds by the device's own clock, in turns."""
    times = []
    for call in (ours, theirs) * (repeats + 2):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    # The first two turns warm up.
    return tuple(times[4::2]), tuple(times[5::2])


def _streamed(rows: int) -> Ratio:
    """Return a file in the page cache ranked through the GPU against reading it by one thread."""
    with tempfile.TemporaryDirectory() as folder:
        path, read = rows_on_disk(Path(folder), rows)
        query = partial(rank, open_pool(path), *any_model(768, 2), operator=Spread())
        times, (a, _) = race(partial(query, device="cuda"), read, 3)
        same = len(set(a.rows.tolist()) & set(query().rows.tolist()))
    size = rows * 768 * 4 / 1e9
    return Ratio(
        f"GPU: ranking a {size:.1f} GB file, streamed",
        "reading it by one CPU thread (its sum)",
        *times,
        note=f"{size / min(times[0]):.1f} GB/s; {same} of 10 rows as on the CPU",
    )
