"""What must be known of a pool before it is read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.errors import BadParameter, ShapeMismatch
from goalward.learners import Fitted
from goalward.scale.scan import Scan

__all__ = ["block_rows", "check_width", "positions_of", "size_of"]


def check_width(pool: Any, fitted: Fitted) -> None:
    """Raise if rows have other features than the model, before any is read."""
    shape = getattr(pool, "shape", None)
    if shape is None or fitted.transform is not None or len(shape) != 2:
        return
    if shape[1] != fitted.n_features:
        raise ShapeMismatch(
            f"The pool has {shape[1]} features; {fitted.n_features} were expected, as in the "
            "labelled rows. Build all of them with the same features, in order."
        )


def size_of(pool: Any) -> int | None:
    """Return the bytes of a pool, where they can be known."""
    if hasattr(pool, "nbytes"):
        return int(pool.nbytes)
    shape, dtype = getattr(pool, "shape", None), getattr(pool, "dtype", None)
    itemsize = getattr(dtype, "itemsize", None)
    return None if shape is None or itemsize is None else int(np.prod(shape)) * int(itemsize)


def block_rows(pool: Any, scan: Scan, block: int | None) -> int:
    """Return rows per block, on the grid that scores do not depend on."""
    dtype = getattr(pool, "dtype", np.dtype(np.float64))
    itemsize = int(getattr(dtype, "itemsize", 8))
    width = int(pool.shape[1]) if len(getattr(pool, "shape", ())) == 2 else 1000
    wanted = block if block is not None else 2**26 // (itemsize * width)
    grid = scan.grid(itemsize)
    return max(1, -(-wanted // grid)) * grid


def positions_of(exclude: Iterable[Any], ids: NDArray[Any] | None, total: int) -> NDArray[Any]:
    """Return the sorted positions of ids."""
    listed = np.asarray(exclude if isinstance(exclude, np.ndarray) else list(exclude))
    if listed.size == 0:
        return np.empty(0, dtype=np.int64)
    if ids is not None:
        place = {name: i for i, name in enumerate(ids.tolist())}
        unknown = [name for name in listed.tolist() if name not in place]
        if unknown:
            raise BadParameter(
                f"exclude names {len(unknown)} rows that are not in the pool, the first "
                f"{unknown[0]!r}; ids of the pool were expected."
            )
        return np.unique([place[name] for name in listed.tolist()])
    if listed.dtype.kind not in "iu" or listed.min() < 0 or listed.max() >= total:
        raise BadParameter(
            f"exclude holds {listed.dtype} from {listed.min()} to {listed.max()}; positions from 0 "
            f"to {total - 1} were expected."
        )
    return np.unique(listed)
