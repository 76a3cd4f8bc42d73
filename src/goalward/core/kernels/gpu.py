"""Scores of rows that lie on an NVIDIA GPU, by Triton: the memory bus is the limit.

Library calls leave it idle: a product with two columns reads a row at half the speed of the
memory, and every elementwise pass over logits and motions writes and reads them again. Here a
row of two classes is read once and leaves one number; with more classes the matrix product
is the library's, and one pass over its result gives the number.
"""

from __future__ import annotations

import importlib.util
from typing import Any

CODES = {"mean": 0, "min": 1, "max": 2, "spread": 3}


def usable(rows: Any) -> bool:
    """Return whether rows are a CUDA tensor that Triton can read here."""
    device = getattr(rows, "device", None)
    if getattr(device, "type", None) != "cuda" or str(rows.dtype) != "torch.float32":
        return False
    return importlib.util.find_spec("triton") is not None and bool(rows.stride(1) == 1)


def binary(rows: Any, both: Any, constant: Any, statistic: str) -> Any:
    """Return a statistic of the utilities of two labels: each row is read once.

    Parameters
    ----------
    both
        (d, 2): the differences of the weights and of the direction between the two classes.
    constant
        (2,) the intercepts of the same.
    """
    import torch

    from goalward.core.kernels import triton_kernels

    out = torch.empty(rows.shape[0], dtype=rows.dtype, device=rows.device)
    columns = both.T.contiguous()
    grid = (-(-rows.shape[0] // triton_kernels.ROWS.value),)
    triton_kernels.two_classes[grid](
        rows,
        columns,
        constant.contiguous(),
        out,
        rows.shape[0],
        rows.shape[1],
        rows.stride(0),
        CODE=CODES[statistic],
        num_warps=4,
    )
    return out


def two_lines(left: Any, rows: Any) -> Any:
    """Return left Xᵀ for two lines: each row is read once, at twice the speed of the library's."""
    import torch

    from goalward.core.kernels import triton_kernels

    out = torch.empty((2, rows.shape[0]), dtype=rows.dtype, device=rows.device)
    grid = (-(-rows.shape[0] // triton_kernels.ROWS.value),)
    triton_kernels.two_columns[grid](
        rows, left.contiguous(), out, rows.shape[0], rows.shape[1], rows.stride(0), num_warps=4
    )
    return out


def several(moved: Any, n_classes: int, statistic: str) -> Any:
    """Return a statistic of the utilities of K labels from (n, 2K) logits and motions."""
    import torch

    from goalward.core.kernels import triton_kernels

    out = torch.empty(moved.shape[0], dtype=moved.dtype, device=moved.device)
    width = max(16, 1 << (int(n_classes) - 1).bit_length())  # a power of two
    triton_kernels.many_classes[(moved.shape[0],)](
        moved,
        out,
        n_classes,
        moved.stride(0),
        CODE=CODES[statistic],
        WIDTH=width,
        num_warps=4 if width <= 1024 else 8,
    )
    return out
