"""Triton's programs for `kernels.gpu`; imported only where there is a GPU to run them."""

# mypy: ignore-errors

import importlib.util

if importlib.util.find_spec("triton") is not None:
    import triton
    import triton.language as tl

    jit = triton.jit
else:

    class tl:  # noqa: N801
        """Stands for triton.language, so that this file can be read without it."""

        constexpr = int

    def jit(program):
        """Return the program as it is: nothing here runs without Triton."""
        return program


ROWS, WIDTH = tl.constexpr(8), tl.constexpr(128)
"""Rows and features of a program of `two_classes`: among the fastest of 60 shapes on an H200."""


@jit
def both_products(X, columns, row, n, d, stride):
    """Return the products of a few rows with two columns, each row read once."""
    delta = tl.zeros((ROWS, WIDTH), dtype=tl.float32)
    motion = tl.zeros((ROWS, WIDTH), dtype=tl.float32)
    for start in range(0, d, WIDTH):
        column = start + tl.arange(0, WIDTH)
        inside = column < d
        x = tl.load(
            X + row[:, None] * stride + column[None, :],
            mask=(row < n)[:, None] & inside[None, :],
            other=0.0,
            eviction_policy="evict_first",
        )
        delta += x * tl.load(columns + column, mask=inside, other=0.0)[None, :]
        motion += x * tl.load(columns + d + column, mask=inside, other=0.0)[None, :]
    return tl.sum(delta, axis=1), tl.sum(motion, axis=1)


@jit
def two_columns(X, columns, out, n, d, stride):
    """Write the products of a few rows with two columns."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    a, b = both_products(X, columns, row, n, d, stride)
    tl.store(out + row, a, mask=row < n)
    tl.store(out + n + row, b, mask=row < n)


@jit
def two_classes(
    X,
    columns,
    constant,
    out,
    n,
    d,
    stride,
    CODE: tl.constexpr,
):
    """Write a statistic of p t and (p - 1) t for a few rows."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    z, t = both_products(X, columns, row, n, d, stride)
    z, t = z + tl.load(constant), t + tl.load(constant + 1)
    p, rest = tl.sigmoid(z), tl.sigmoid(-z)
    if CODE == 0:
        value = (p - 0.5) * t
    elif CODE == 1:
        value = tl.minimum(p * t, -rest * t)
    elif CODE == 2:
        value = tl.maximum(p * t, -rest * t)
    else:
        value = tl.sqrt(p * rest) * tl.abs(t)
    tl.store(out + row, value, mask=row < n)


@jit
def many_classes(moved, out, K, stride, CODE: tl.constexpr, WIDTH: tl.constexpr):
    """Write a statistic of ⟨p, s⟩ - s_k for one row of logits and motions."""
    row = tl.program_id(0).to(tl.int64)
    k = tl.arange(0, WIDTH)
    inside = k < K
    f = tl.load(moved + row * stride + k, mask=inside, other=float("-inf"))
    s = tl.load(moved + row * stride + K + k, mask=inside, other=0.0)
    weights = tl.exp(f - tl.max(f, axis=0))
    total = tl.sum(weights, axis=0)
    mean = tl.sum(weights * s, axis=0) / total
    if CODE == 0:
        value = mean - tl.sum(s, axis=0) / K
    elif CODE == 1:
        value = mean - tl.max(tl.where(inside, s, float("-inf")), axis=0)
    elif CODE == 2:
        value = mean - tl.min(tl.where(inside, s, float("inf")), axis=0)
    else:
        gap = s - mean
        value = tl.sqrt(tl.sum(weights * gap * gap, axis=0) / total)
    tl.store(out + row, value)
