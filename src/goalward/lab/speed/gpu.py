"""Scoring on a GPU against what its memory and its matrix units do."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from goalward.errors import MissingExtra, Unsupported
from goalward.lab.speed.limits import any_direction, binary_model, read_all, write_rows
from goalward.lab.speed.race import Ratio, race
from goalward.labels import Spread
from goalward.pool import open_pool
from goalward.scale import rank
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
        *_resident(torch, 12_000_000 // shrink, 2, repeats),
        *_resident(torch, 1_000_000 // shrink, 1000, repeats),
        *_streamed(2_800_000 // shrink),
    ]
    name = torch.cuda.get_device_name(0)
    return [replace(ratio, note=f"{name}. {ratio.note}") for ratio in results]


def _resident(torch: Any, n: int, K: int, repeats: int) -> list[Ratio]:
    rows = torch.rand((n, 768), device="cuda") - 0.5
    host = any_direction(768, K).motion
    there = Motion(
        torch.as_tensor(host.both, dtype=rows.dtype, device="cuda"),
        torch.as_tensor(host.constant, dtype=rows.dtype, device="cuda"),
        K,
    )
    difference = _difference(host, there, rows)
    if K == 2:
        limit: Callable[[], Any] = rows.sum
        name, target = "reading it (torch.sum)", "<= 1.0526"
    else:
        size = 2**17
        limit = lambda: [rows[i : i + size] @ there.both for i in range(0, n, size)]
        name, target = "the product X [Θ | V] alone, float32", "<= 1.667"
    ours, theirs = _timed(torch, lambda: there.reduced(rows, "spread"), limit, repeats)
    flops = 2.0 * n * 768 * there.both.shape[1]
    note = (
        f"{n * 768 * 4 / min(ours) / 1e12:.2f} TB/s against {n * 768 * 4 / min(theirs) / 1e12:.2f}"
        if K == 2
        else f"{flops / min(ours) / 1e12:.1f} TFLOP/s against {flops / min(theirs) / 1e12:.1f}"
    )
    what = f"GPU: scoring {n:,} resident rows, d=768, K={K}, float32"
    plain, beside = _timed(torch, lambda: _library(torch, there, rows), limit, repeats)
    return [
        Ratio(what, name, ours, theirs, target, difference, note),
        Ratio(what + ", library calls only", name, plain, beside),
    ]


def _library(torch: Any, there: Motion, rows: Any) -> Any:
    """Return the same scores by plain calls of torch."""
    parts = []
    for start in range(0, len(rows), 2**17):
        moved = torch.addmm(there.constant, rows[start : start + 2**17], there.both)
        if there.n_classes == 2:
            p = torch.sigmoid(moved[:, 0])
            parts.append(torch.sqrt(p * (1 - p)) * moved[:, 1].abs())
            continue
        p, s = torch.softmax(moved[:, : there.n_classes], 1), moved[:, there.n_classes :]
        gap = s - (p * s).sum(1, keepdim=True)
        parts.append(torch.sqrt((p * gap * gap).sum(1)))
    return torch.cat(parts)


def _difference(host: Motion, there: Motion, rows: Any) -> float:
    """Return how far scores are from those of a CPU in double precision."""
    some = rows[:2000]
    exact = host.reduced(some.double().cpu().numpy(), "spread")
    got = there.reduced(some, "spread").double().cpu().numpy()
    return float(np.abs(got - exact).max() / np.abs(exact).max())


def _timed(
    torch: Any, ours: Callable[[], Any], theirs: Callable[[], Any], repeats: int
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return seconds by the device's own clock, in turns."""
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(repeats + 2):
        for call, kept in zip((ours, theirs), times, strict=True):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            call()
            end.record()
            torch.cuda.synchronize()
            if turn >= 2:
                kept.append(begin.elapsed_time(end) / 1e3)
    return tuple(times[0]), tuple(times[1])


def _streamed(rows: int) -> list[Ratio]:
    """Return a file in the page cache ranked through the GPU against reading it by one thread."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pool.npy"
        write_rows(path, rows, 768)
        fitted, goal = binary_model()
        pool, mapped = open_pool(path), np.load(path, mmap_mode="r")
        ours, a, theirs, _ = race(
            lambda: rank(pool, fitted, goal, operator=Spread(), device="cuda"),
            lambda: read_all(mapped),
            3,
        )
        b = rank(pool, fitted, goal, operator=Spread())
        same = len(set(a.rows.tolist()) & set(b.rows.tolist()))
        size = rows * 768 * 4
        return [
            Ratio(
                f"GPU: ranking a {size / 1e9:.1f} GB file, streamed",
                "reading it by one CPU thread (its sum)",
                ours,
                theirs,
                note=f"{size / min(ours) / 1e9:.1f} GB/s; {same} of 10 rows as on the CPU",
            )
        ]
