"""The rows of a study: stored inside it when they came in memory, by fingerprint when in files."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl
import scipy.sparse
from numpy.typing import NDArray

from goalward.core.arrays import is_sparse, to_numpy
from goalward.core.pool import as_pool
from goalward.core.rows import check_finite, check_sparse, clean_rows, column_names, held
from goalward.errors import BadInput, BadParameter, Damaged, PoolChanged, ShapeMismatch
from goalward.labels.opinion import Opinion
from goalward.studio.store.engine import files_of_database
from goalward.studio.store.store import Store
from goalward.studio.study.guesses import Guesses, guess_columns
from goalward.studio.tables.cache import Watch, rows_digest
from goalward.studio.tables.columns import copies_in, without_text
from goalward.studio.tables.embeddings import Tfidf
from goalward.studio.tables.encoder import Encoder, Tick, Vectors, from_npy, silent
from goalward.studio.tables.read import beside
from goalward.studio.tables.table import Loaded, Table, named_table

# Arrays inside a study: bytes in pieces, with their type and shape beside them.


PART = 64 * 2**20
"""Bytes of an array kept in one piece: SQLite holds at most 1 GB in one."""


def in_memory(pool: Any) -> Any:
    """Return rows as a list of texts or a table of numbers, whatever held them."""
    pool = held(pool)
    columns = column_names(pool) or ()
    if len(columns) == 1:
        column = list(pool[columns[0]])
        return column if all(isinstance(cell, str) for cell in column) else pool
    if len(getattr(pool, "shape", ())) == 1:
        return list(pool)
    try:
        return pool if not columns else clean_rows(pool, "pool")
    except BadInput as error:
        raise BadInput(
            f"A frame with the columns {', '.join(columns[:8])} came, not all of them numbers ({error}); "
            "numbers, or one column of texts, were expected. Pass frame['text'], or write the frame to a "
            "file that keeps every column, and pass gw.tables.Table(path, text=...)."
        ) from error


def as_parts(X: Any) -> tuple[dict[str, Any], list[bytes]]:
    """Return how an array, or a sparse matrix, is kept, and its bytes."""
    if is_sparse(X):
        X = scipy.sparse.csr_array(X)
        arrays = [X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)]
        kind = "sparse"
    else:
        arrays, kind = [X], "array"
    kept, parts = zip(*map(_in_parts, arrays), strict=True)
    record = {"kind": kind, "n_rows": int(X.shape[0]), "shape": list(X.shape), "arrays": kept}
    return record, [part for one in parts for part in one]


def _in_parts(array: NDArray[Any]) -> tuple[dict[str, Any], list[bytes]]:
    # Little-endian bytes with their type and shape beside them: nothing to unpickle.
    plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    content = plain.tobytes()
    parts = [content[first : first + PART] for first in range(0, max(len(content), 1), PART)]
    digests = [sha256(part).hexdigest() for part in parts]
    return {"dtype": plain.dtype.str, "shape": list(plain.shape), "parts": digests}, parts


def from_parts(journal: Store, kept: Mapping[str, Any]) -> Any:
    """Return an array, or a sparse matrix, that is kept in a journal."""
    X, *others = (_restored(journal, one) for one in kept["arrays"])
    if kept["kind"] != "sparse":
        return X
    try:
        matrix = scipy.sparse.csr_array((X, *others), shape=tuple(kept["shape"]))
        check_sparse(matrix, "The pool")
    except ValueError as error:
        raise Damaged(
            f"The rows of {journal.name} are no sparse matrix any more ({error}); those that were "
            "stored were expected. Restore a backup of the study."
        ) from error
    return matrix


def _restored(journal: Store, kept: Mapping[str, Any]) -> NDArray[Any]:
    dtype, shape = kept["dtype"], tuple(kept["shape"])
    content = b"".join(journal.blob(part) for part in kept["parts"])
    if dtype not in ("<f4", "<f8", "<i8") or len(content) != int(
        np.prod(shape, dtype=object) * int(dtype[2])
    ):
        raise Damaged(
            f"An array of {journal.name} says {dtype} of shape {shape} and has {len(content)} bytes; "
            "as many as that takes were expected. Restore a backup of the study."
        )
    return np.frombuffer(content, dtype=dtype).reshape(shape)


def digest_of(X: Any) -> str:
    """Return what tells the numbers of rows from any other."""
    digest = sha256(f"{X.dtype.str}{X.shape}".encode())
    for first in range(0, X.shape[0], 4096):
        digest.update(np.ascontiguousarray(X[first : first + 4096]).tobytes())
    return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class StudyPool:
    """The rows: numbers for the model, and what a person sees of them.

    Parameters
    ----------
    rows
        The numbers, where they came in memory; those of a table are made when they are needed.
    """

    rows: Any = field(default=None, repr=False)
    texts: list[str] | None = field(default=None, repr=False)
    table: Loaded | None = field(default=None, repr=False)
    watch: Watch | None = field(default=None, repr=False)
    guesses: Guesses | None = field(default=None, repr=False)

    @property
    def X(self) -> Any:
        """The numbers of all rows; waits for those that take long to make."""
        return self.rows if self.table is None else self.table.X

    @property
    def ready(self) -> bool:
        """Whether nobody has to wait for the numbers."""
        return self.table is None or self.table.ready

    def prepared(self, tick: Tick | None = None) -> Self:
        """Return the pool with its numbers made."""
        if self.table is not None:
            self.table.prepare(tick)
        return self

    @cached_property
    def opinion(self) -> Opinion | None:
        """What guesses say of any row, where there are some."""
        return None if self.guesses is None else self.guesses.opinion(self.X, seed=0)

    @cached_property
    def digest(self) -> str:
        """What tells these numbers from any other."""
        return digest_of(self.X)

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return int(self.rows.shape[0]) if self.table is None else self.table.frame.height

    def take(self, rows: Sequence[int] | NDArray[Any]) -> Any:
        """Return the numbers of some rows."""
        return as_pool(self.X).take(np.asarray(rows))

    def checked(self) -> Self:
        """Return the pool; `PoolChanged` if a file of it is not what it was when it was loaded."""
        if self.watch is not None:
            self.watch.check(self.X if self.ready else None)
        return self

    def encoder(self, tick: Tick = silent) -> Encoder:
        """Return what makes numbers of other rows as it did of these."""
        if self.table is not None:
            return self.table.encoder(tick)
        if self.texts is None:
            return Vectors(int(self.X.shape[1]))
        encoder, X = Tfidf.fit(self.texts, tick)
        # A singular value decomposition in single precision, of another version perhaps.
        if X.shape != self.X.shape or not np.allclose(X, self.X, atol=1e-3):
            raise PoolChanged(
                "This version of scikit-learn makes other numbers of the texts than those the study "
                "was made with; the same were expected. Go on with the version that made it, or begin "
                "a new study and import the answers."
            )
        return encoder

    @cached_property
    def reader(self) -> Encoder:
        """The encoder, kept for the next time."""
        return self.encoder()

    def show(self, row: int) -> dict[str, Any]:
        """Return what a person is shown of a row: text, image or columns."""
        if self.table is not None:
            return self.table.show(row)
        if self.texts is not None:
            return {"row": row, "text": self.texts[row], "columns": {}}
        values = self.X[[row]]
        dense = np.ravel(values.toarray() if is_sparse(values) else values)
        return {"row": row, "columns": {str(i): float(v) for i, v in enumerate(dense[:50])}}


class PoolLoader:
    """The rows of a study, read when they are first needed.

    Parameters
    ----------
    journal, kept
        Where the study is, and what is stored of its pool now.
    moved
        Where the pool's file is now, if it was moved: it is checked at once.
    """

    def __init__(
        self, journal: Store, kept: Callable[[], Mapping[str, Any]], moved: Any, tick: Tick
    ) -> None:
        self.journal, self.kept, self.moved, self.tick = journal, kept, moved, tick
        self._lock = threading.Lock()
        self._loaded: tuple[Mapping[str, Any], StudyPool] | None = None
        if moved is not None:
            self.load()

    def load(self) -> StudyPool:
        """Return the rows, checked against what was stored of them."""
        with self._lock:
            kept = self.kept()
            if self._loaded is None or self._loaded[0] is not kept:
                self._loaded = kept, _load(self.journal, kept, self.moved, self.tick)
            return self._loaded[1]

    def files(self) -> list[Path]:
        """Return the files of the study, its pool's too: where they are and are looked for."""
        own, kept = self.journal.path, self.kept()
        found = [Path(kept[name]) for name in ("path", "vectors") if kept.get(name)]
        if own is not None:
            found += files_of_database(own)
            near = ("relative", "vectors_relative")
            found += [own.parent / kept[name] for name in near if kept.get(name)]
        if self.moved is not None:
            table = _as_table(self.moved)
            found += [Path(table.path), beside(table.path, ".npy")]
            found += [table.vectors] if table.vectors else []
        return found


def store(pool: Any, home: Path | None, tick: Tick) -> tuple[dict[str, Any], list[bytes]]:
    """Return a pool as data, and the bytes that must be kept inside the study."""
    if (table := named_table(pool)) is not None:
        return table_record(table, home, tick), []
    pool = in_memory(pool)
    if isinstance(pool, (list, tuple)) and pool and all(isinstance(x, str) for x in pool):
        plain = []
        for row, text in enumerate(pool):
            try:
                plain.append(text.encode().decode())
            except UnicodeEncodeError as error:
                raise BadInput(
                    f"The text of row {row} holds half of a character pair ({error.reason} at "
                    f"{error.start}); whole characters were expected. Repair it: "
                    "text.encode('utf-16', 'surrogatepass').decode('utf-16', 'replace')."
                ) from error
        content = json.dumps(pool).encode()
        record, parts = as_parts(Tfidf.fit(list(pool), tick)[1])
        never, about = _never_asked(without_text(plain), copies_in(pl.DataFrame({"text": plain})))
        kept = {"texts": sha256(content).hexdigest(), **never, "notes": about}
        return {**record, **kept}, [*parts, content]
    rows = clean_rows(pool, "pool")
    return as_parts(rows if is_sparse(rows) else to_numpy(rows))


def _never_asked(aside: list[int], same: Mapping[int, int]) -> tuple[dict[str, Any], list[str]]:
    """Return rows that nobody can answer, or need not, being copies, of which rows; and what to say."""
    none = set(aside)
    copies = sorted((row, of) for row, of in same.items() if row not in none)
    words = "row is a copy of another" if len(copies) == 1 else "rows are copies of others"
    said = f"{len(copies):,} {words}: one of each is asked, and its answer holds for all."
    never: dict[str, Any] = {
        "aside": sorted({*none, *(row for row, _ in copies)}),
        "copies": copies,
    }
    return never, [said] if copies else []


def _load(journal: Store, kept: Mapping[str, Any], moved: Any, tick: Tick) -> StudyPool:
    """Return the pool of a study, checked against what was stored of it."""
    if kept["kind"] == "table":
        table = found_table(kept, journal.path.parent if journal.path else None, moved)
        watch = Watch(table.files, kept["fingerprint"])
        loaded = table.load(tick)
        if (rows := loaded.frame.height) != kept["n_rows"]:
            raise PoolChanged(f"{table.path} has {rows} rows; {kept['n_rows']} were expected.")
        # Nothing came between the digests and the rows.
        said = Guesses.load(journal, kept, loaded.frame)
        return StudyPool(table=loaded, watch=watch, guesses=said).checked()
    if moved is not None:
        raise BadParameter(
            "pool= was given and the study has its rows inside; none was expected. Leave it out."
        )
    texts = json.loads(journal.blob(kept["texts"])) if "texts" in kept else None
    pool = StudyPool(from_parts(journal, kept), texts, guesses=Guesses.load(journal, kept))
    digest = sha256("".join(part for a in kept["arrays"] for part in a["parts"]).encode())
    vars(pool)["digest"] = digest.hexdigest()
    return pool


def _as_table(pool: Any) -> Table:
    return named_table(pool) or Table(os.fspath(pool))


def table_record(table: Table, home: Path | None, tick: Tick) -> dict[str, Any]:
    """Return a table as data: where it is, how it is read, and what tells it from any other."""
    table = table.settled()
    loaded = table.load(tick)
    aside, notes = loaded.aside()
    never, about = _never_asked(aside, loaded.copies())
    path = Path(table.path).absolute()
    for at, rows in as_pool(loaded.X).blocks(2**14) if loaded.ready else ():
        check_finite(clean_rows(rows, path.name, finite=False), path.name, start=at.start)
    vectors = str(table.vectors.absolute()) if table.vectors else None
    return {
        "kind": "table",
        # By its first rows a table is known that was appended to.
        "rows": rows_digest(loaded.frame, path if path.is_dir() else None),
        "path": str(path),
        # A study and its table that are moved together find each other again.
        "relative": os.path.relpath(path, home) if home else None,
        "vectors": vectors,
        "vector_rows": digest_of(loaded.X) if vectors else None,
        "vectors_relative": os.path.relpath(vectors, home) if home and vectors else None,
        "text": table.text,
        "image": table.image,
        "numeric": list(table.numeric),
        "category": list(table.category),
        "separator": table.separator,
        "encoding": table.encoding,
        "sheet": table.sheet,
        "embeddings": table.embeddings,
        "features": table.features,
        "says": table.says,
        "notes": [*table.notes, *notes, *about],
        "guesses": list(table.guesses),
        **never,
        "fingerprint": table.fingerprint(),
        "n_rows": loaded.frame.height,
    }


def found_table(kept: Mapping[str, Any], home: Path | None, moved: Any) -> Table:
    """Return the table where it is now; refused if this version makes other numbers of its rows."""
    path, vectors = _there(kept, "path", "relative", home), kept["embeddings"]
    if kept["vectors"] is not None:
        vectors = _there(kept, "vectors", "vectors_relative", home)
    if moved is not None:
        given = _as_table(moved)
        path, npy = given.path, beside(given.path, ".npy")
        if kept["vectors"] is not None and (given.vectors or npy.is_file()):
            vectors = given.embeddings if given.vectors else str(npy)
    names = ("text", "image", "numeric", "category", "separator", "encoding", "sheet", "notes")
    stored = {name: kept[name] for name in names}
    table = Table(path, **stored, embeddings=vectors, alone=True, guesses=guess_columns(kept))
    if kept["features"] != table.features:
        raise PoolChanged(
            f"The study was made with the features {kept['features']!r}, and this version of goalward makes "
            f"{table.features!r} in their place; the same were expected. Go on with the version that "
            "made it, or export the answers (`goalward export --every`), begin a new study and import "
            "them."
        )
    return table


def _there(kept: Mapping[str, Any], name: str, relative: str, home: Path | None) -> Any:
    """Return a stored path; the one beside the study where nothing is at that any more."""
    if not Path(kept[name]).exists() and kept[relative] is not None and home is not None:
        beside = home / kept[relative]
        if beside.exists():
            return str(beside)
    return kept[name]


# More rows for a study: after those it has, so that every answer stays with its row.


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
        folder = Path(table.path) if Path(table.path).is_dir() else None
        if rows_digest(table.read().head(kept["n_rows"]), folder) != kept["rows"]:
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
