"""More rows for a study: after those it has, so that every answer stays with its row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from goalward.core.arrays import is_sparse, to_numpy
from goalward.core.rows import clean_rows
from goalward.errors import BadParameter, PoolChanged, ShapeMismatch
from goalward.study.guesses import guess_columns
from goalward.study.parts import digest_of, in_memory
from goalward.study.pools import PoolLoader, StudyPool, found_table, store, table_record
from goalward.tables.encoder import from_npy
from goalward.tables.watch import LOOKED, rows_digest

__all__ = ["grown"]


def grown(loader: PoolLoader, rows: Any) -> tuple[Mapping[str, Any], dict[str, Any], list[bytes]]:
    """Return what is stored of a pool, the same with more rows, and the bytes to keep of them.

    Parameters
    ----------
    rows
        What is added to rows that are inside the study; None for a table that has grown.
    """
    kept, own = loader.kept(), loader.journal.path
    home = own.parent if own else None
    if kept["kind"] == "table":
        if rows is not None:
            raise BadParameter(
                "Rows came for a study of a table; none were expected. Append them to the table, and "
                "call extend() without any."
            )
        table = replace(found_table(kept, home, loader.moved), notes=())
        folder = Path(table.path) if kept["fingerprint"]["table"].startswith(LOOKED) else None
        if rows_digest(table.read().head(kept["n_rows"]), folder) != kept.get("rows"):
            raise PoolChanged(
                f"{table.path} is not what it was with rows after it: some of its first "
                f"{kept['n_rows']} rows differ, are gone, or were not kept by the version that made "
                "the study. Restore them, or start a new study and import the labels."
            )
        if kept.get("vector_rows"):
            first = from_npy(table.files["vectors"], table.read().height).rows(0, kept["n_rows"])
            if digest_of(first) != kept["vector_rows"]:
                raise PoolChanged(
                    f"{table.vectors} is not what it was with rows after it: some of its first "
                    f"{kept['n_rows']} rows differ. Make vectors for the rows in the table's order, and "
                    "leave those that were there."
                )
        return kept, _with_guesses(kept, table_record(table, home, loader.tick)), []
    if rows is None:
        raise BadParameter(
            "No rows came for a study that has its own inside; some were expected: extend(rows)."
        )
    pool, blobs = store(_together(loader.load(), rows), home, loader.tick)
    return kept, _with_guesses(kept, pool), blobs


def _with_guesses(kept: Mapping[str, Any], pool: dict[str, Any]) -> dict[str, Any]:
    """Return a pool with the guesses that are inside the study; new rows have none."""
    inside = kept.get("guesses") and not guess_columns(kept)
    return {**pool, "guesses": kept["guesses"]} if inside else pool


def _together(pool: StudyPool, rows: Any) -> Any:
    rows = in_memory(rows)
    if pool.texts is not None:
        return [*pool.texts, *rows]
    more = clean_rows(rows, "rows")
    if more.shape[1] != pool.X.shape[1]:
        raise ShapeMismatch(
            f"rows has {more.shape[1]} columns; {pool.X.shape[1]} were expected, as in the study."
        )
    if is_sparse(pool.X):
        return scipy.sparse.csr_array(scipy.sparse.vstack([pool.X, scipy.sparse.csr_array(more)]))
    dense = more.toarray() if is_sparse(more) else to_numpy(more)
    return np.vstack([pool.X, dense])
