"""Scoring on a GPU against what its memory and its matrix units do."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from goalward.core.pool_files import open_pool
from goalward.errors import MissingExtra, Unsupported
from goalward.lab.speed.limits import TURNS, any_direction, any_model, rows_on_disk
from goalward.lab.speed.race import Ratio, race
from goalward.labels import Spread
from goalward.scale import rank
from goalward.strategies import recipe
from goalward.utility.motion import Motion

__all__ = ["gpu"]


def gpu(quick: bool) -> list[Ratio]:
    """Return resident pools against reading them and against the product, and a streamed file."""
    try:
        import torch
    except ImportError as error:
        raise MissingExtra("--gpu needs torch. pip install goalward[torch].") from error
    if not torch.cuda.is_available():
        raise Unsupported("--gpu came and torch sees no CUDA device. Run it on a machine with one.")
    shrink, repeats = (20, 1) if quick else (1, 10)
    results = [
        _resident(torch, 12_000_000 // shrink, 2, repeats),
        _resident(torch, 1_000_000 // shrink, 1000, repeats),
        _streamed(2_800_000 // shrink),
        *(_turn(torch, 12_000_000 // shrink, K, text) for K in (2, 10) for text in TURNS),
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
