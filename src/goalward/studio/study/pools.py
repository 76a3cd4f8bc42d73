"""The rows of a study: stored inside it if given in memory, else known by their fingerprint."""

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
from goalward.models.features import fitted_maps
from goalward.strategies.strategy import clean_costs
from goalward.studio.store.database import files_of_database
from goalward.studio.store.store import Store
from goalward.studio.study.guesses import Guesses, guess_columns
from goalward.studio.tables.cache import Watch, rows_digest
from goalward.studio.tables.cells import listed
from goalward.studio.tables.columns import copies_in, without_text
from goalward.studio.tables.embeddings import Tfidf
from goalward.studio.tables.encoder import Encoder, Tick, Vectors, from_npy, silent
from goalward.studio.tables.read import beside
from goalward.studio.tables.table import Loaded, Table, named_table

PART = 64 * 2**20
"""Bytes of an array kept in one piece: SQLite holds at most 1 GB in one."""


def in_memory(pool: Any) -> Any:
    """Return rows as a list of texts or an array of numbers."""
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
            "A frame must have columns of numbers, or one of texts, got the columns "
            f"{', '.join(columns[:8])} ({error}). Pass frame['text'], or write the frame to a file that "
            "keeps every column, and pass gw.tables.Table(path, text=...)."
        ) from error


def as_parts(X: Any) -> tuple[dict[str, Any], list[bytes]]:
    """Return the record of an array or sparse matrix, and its bytes."""
    if is_sparse(X):
        X = scipy.sparse.csr_array(X)
        arrays = [X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)]
        kind = "sparse"
    else:
        arrays, kind = [X], "array"
    kept, parts = zip(*map(_in_parts, arrays), strict=True)
    record = {"kind": kind, "n_rows": int(X.shape[0]), "shape": list(X.shape), "arrays": kept}
    return record, [part for pieces in parts for part in pieces]


def _in_parts(array: NDArray[Any]) -> tuple[dict[str, Any], list[bytes]]:
    # Little-endian bytes with their type and shape beside them: nothing to unpickle.
    plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    content = plain.tobytes()
    parts = [content[first : first + PART] for first in range(0, max(len(content), 1), PART)]
    digests = [sha256(part).hexdigest() for part in parts]
    return {"dtype": plain.dtype.str, "shape": list(plain.shape), "parts": digests}, parts


def from_parts(journal: Store, kept: Mapping[str, Any]) -> Any:
    """Return an array or sparse matrix from its record."""
    X, *others = (_restored(journal, array) for array in kept["arrays"])
    if kept["kind"] != "sparse":
        return X
    try:
        matrix = scipy.sparse.csr_array((X, *others), shape=tuple(kept["shape"]))
        check_sparse(matrix, "The pool")
    except ValueError as error:
        raise Damaged(
            f"The rows of {journal.name} are no sparse matrix any more ({error}). Restore a backup of the "
            "study."
        ) from error
    return matrix


def _restored(journal: Store, kept: Mapping[str, Any]) -> NDArray[Any]:
    dtype, shape = kept["dtype"], tuple(kept["shape"])
    content = b"".join(journal.blob(part) for part in kept["parts"])
    if dtype not in ("<f4", "<f8", "<i8") or len(content) != int(
        np.prod(shape, dtype=object) * int(dtype[2])
    ):
        raise Damaged(
            f"An array of {journal.name} has {len(content)} bytes, which is not {dtype} of shape {shape}. "
            "Restore a backup of the study."
        )
    return np.frombuffer(content, dtype=dtype).reshape(shape)


def digest_of(X: Any) -> str:
    """Return a digest of the features of rows."""
    digest = sha256(f"{X.dtype.str}{X.shape}".encode())
    for first in range(0, X.shape[0], 4096):
        digest.update(np.ascontiguousarray(X[first : first + 4096]).tobytes())
    return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class StudyPool:
    """The rows of a study, for the model and for people; `rows` are features given in memory."""

    rows: Any = field(default=None, repr=False)
    texts: list[str] | None = field(default=None, repr=False)
    table: Loaded | None = field(default=None, repr=False)
    watch: Watch | None = field(default=None, repr=False)
    guesses: Guesses | None = field(default=None, repr=False)

    @property
    def X(self) -> Any:
        """The features of all rows, computed if they are not there yet."""
        return self.rows if self.table is None else self.table.X

    @property
    def frame(self) -> pl.DataFrame | None:
        """The table's rows."""
        return None if self.table is None else self.table.frame

    @property
    def ready(self) -> bool:
        return self.table is None or self.table.ready

    def prepared(self, tick: Tick | None = None) -> Self:
        if self.table is not None:
            self.table.prepare(tick)
        return self

    @cached_property
    def _maps(self) -> dict[str, Any]:
        return {}

    def maps(self, features: Any) -> list[Any]:
        """Return the feature maps of a learner, fitted once to these rows."""
        if (key := repr(features)) not in self._maps:
            vectors = self.table is None or bool(self.table.source.vectors)
            encoded = self.texts is not None or not vectors
            self._maps[key] = fitted_maps(features, self.X, encoded=encoded)
        made: list[Any] = self._maps[key]
        return made

    def opinion(self, first: Any = None) -> Opinion | None:
        """Return the opinion that guesses give of any row, if there are some, by the `first` map."""
        if self.guesses is None:
            return None
        if "opinion" not in self._maps:
            given: Any = {"probabilities": self.guesses.probabilities, "features": first}
            self._maps["opinion"] = Opinion.of(self.X, self.guesses.labels, **given)
        made: Opinion = self._maps["opinion"]
        return made

    @cached_property
    def digest(self) -> str:
        return digest_of(self.X)

    @property
    def n_rows(self) -> int:
        return int(self.rows.shape[0]) if self.table is None else self.table.frame.height

    def take(self, rows: Sequence[int] | NDArray[Any]) -> Any:
        return as_pool(self.X).take(np.asarray(rows))

    def checked(self) -> Self:
        """Return the pool; raise `PoolChanged` if a file of it changed since it was loaded."""
        if self.watch is not None:
            self.watch.check(self.X if self.ready else None)
        return self

    def encoder(self, tick: Tick = silent) -> Encoder:
        """Return the encoder of these rows, for others."""
        if self.table is not None:
            return self.table.encoder(tick)
        if self.texts is None:
            return Vectors(int(self.X.shape[1]))
        encoder, X = Tfidf.fit(self.texts, tick)
        # Other versions may differ in the last digits.
        if X.shape != self.X.shape or not np.allclose(X, self.X, atol=1e-3):
            raise PoolChanged(
                "This version of scikit-learn makes other numbers of the texts than those the study was made "
                "with. Use the version that made it, or begin a new study and import the answers."
            )
        return encoder

    @cached_property
    def reader(self) -> Encoder:
        return self.encoder()

    def show(self, row: int) -> dict[str, Any]:
        if self.table is not None:
            return self.table.show(row)
        if self.texts is not None:
            return {"row": row, "text": self.texts[row], "columns": {}}
        values = self.X[[row]]
        dense = np.ravel(values.toarray() if is_sparse(values) else values)
        return {"row": row, "columns": {str(i): float(v) for i, v in enumerate(dense[:50])}}


class PoolLoader:
    """The rows of a study, read when first needed; a file that was `moved` is checked at once."""

    def __init__(
        self, journal: Store, kept: Callable[[], Mapping[str, Any]], moved: Any, tick: Tick
    ) -> None:
        self.journal, self.kept, self.moved, self.tick = journal, kept, moved, tick
        self._lock = threading.Lock()
        self._loaded: tuple[Mapping[str, Any], StudyPool] | None = None
        if moved is not None:
            self.load()

    def load(self) -> StudyPool:
        """Return the rows, checked against their record."""
        with self._lock:
            kept = self.kept()
            if self._loaded is None or self._loaded[0] is not kept:
                self._loaded = kept, _load(self.journal, kept, self.moved, self.tick)
            return self._loaded[1]

    def files(self) -> list[Path]:
        """Return the files of the study and of its pool, wherever they are looked for."""
        own, kept = self.journal.path, self.kept()
        paths = [Path(kept[name]) for name in ("path", "vectors") if kept.get(name)]
        if own is not None:
            paths += files_of_database(own)
            near = ("relative", "vectors_relative")
            paths += [own.parent / kept[name] for name in near if kept.get(name)]
        if self.moved is not None:
            table = as_table(self.moved)
            paths += [Path(table.path), beside(table.path, ".npy")]
            paths += [table.vectors] if table.vectors else []
        return paths


def store(pool: Any, home: Path | None, tick: Tick) -> tuple[dict[str, Any], list[bytes]]:
    """Return the record of a pool, and the bytes to store inside the study."""
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
                    f"The text of row {row} holds half of a character pair ({error.reason} at {error.start}). "
                    "Repair it: text.encode('utf-16', 'surrogatepass').decode('utf-16', 'replace')."
                ) from error
        content = json.dumps(pool).encode()
        record, parts = as_parts(Tfidf.fit(list(pool), tick)[1])
        never, about = _never_asked(without_text(plain), copies_in(pl.DataFrame({"text": plain})))
        kept = {"texts": sha256(content).hexdigest(), **never, "notes": about}
        return {**record, **kept}, [*parts, content]
    rows = clean_rows(pool, "pool")
    return as_parts(rows if is_sparse(rows) else to_numpy(rows))


def _never_asked(aside: list[int], same: Mapping[int, int]) -> tuple[dict[str, Any], list[str]]:
    """Return the rows set aside, copies among them, as data, and a note about copies."""
    copies = sorted((row, of) for row, of in same.items() if row not in set(aside))
    words = "row is a copy of another" if len(copies) == 1 else "rows are copies of others"
    note = f"{len(copies):,} {words}: one of each is asked, and its answer holds for all."
    never = {"aside": sorted({*aside, *(row for row, _ in copies)}), "copies": copies}
    return never, [note] if copies else []


def _load(journal: Store, kept: Mapping[str, Any], moved: Any, tick: Tick) -> StudyPool:
    """Return the pool of a study, checked against its record."""
    if kept["kind"] == "table":
        table = found_table(kept, journal.path.parent if journal.path else None, moved)
        watch = Watch(table.files, kept["fingerprint"])
        loaded = table.load(tick)
        if (rows := loaded.frame.height) != kept["n_rows"]:
            raise PoolChanged(f"{table.path} must have {kept['n_rows']} rows, got {rows}.")
        guesses = Guesses.load(journal, kept, loaded.frame)
        # Checked again: the file may have changed between the digests and the rows.
        return StudyPool(table=loaded, watch=watch, guesses=guesses).checked()
    if moved is not None:
        raise BadParameter(
            "pool= is for studies of a table; this one has its rows inside. Leave it out."
        )
    texts = json.loads(journal.blob(kept["texts"])) if "texts" in kept else None
    pool = StudyPool(from_parts(journal, kept), texts, guesses=Guesses.load(journal, kept))
    digest = sha256("".join(part for a in kept["arrays"] for part in a["parts"]).encode())
    vars(pool)["digest"] = digest.hexdigest()
    return pool


def as_table(pool: Any) -> Table:
    """Return a table, or that of a path."""
    return named_table(pool) or Table(os.fspath(pool))


OPTIONS = ("text", "image", "numeric", "category", "separator", "encoding", "sheet")


def table_record(table: Table, home: Path | None, tick: Tick) -> dict[str, Any]:
    """Return a table as data: where it is, how it is read, and its fingerprint."""
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
        # Recognizes a table after rows were appended to it.
        "rows": rows_digest(loaded.frame, path if path.is_dir() else None),
        "path": str(path),
        # For a study and its table that are moved together.
        "relative": os.path.relpath(path, home) if home else None,
        "vectors": vectors,
        "vector_rows": digest_of(loaded.X) if vectors else None,
        "vectors_relative": os.path.relpath(vectors, home) if home and vectors else None,
        **{name: getattr(table, name) for name in OPTIONS},
        "numeric": list(table.numeric),
        "category": list(table.category),
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
    """Return the table where it is now; raise if this version computes other features."""
    path, vectors = _there(kept, "path", "relative", home), kept["embeddings"]
    if kept["vectors"] is not None:
        vectors = _there(kept, "vectors", "vectors_relative", home)
    if moved is not None:
        given = as_table(moved)
        path, npy = given.path, beside(given.path, ".npy")
        if kept["vectors"] is not None and (given.vectors or npy.is_file()):
            vectors = given.embeddings if given.vectors else str(npy)
    stored = {name: kept[name] for name in (*OPTIONS, "notes")}
    table = Table(path, **stored, embeddings=vectors, alone=True, guesses=guess_columns(kept))
    if kept["features"] != table.features:
        raise PoolChanged(
            f"The study has the features {kept['features']!r}, and this version of goalward computes "
            f"{table.features!r}. Use the version that made it, or export the answers (`goalward export "
            "--every`), begin a new study and import them."
        )
    return table


def _there(kept: Mapping[str, Any], name: str, relative: str, home: Path | None) -> Any:
    """Return a stored path, or the one relative to the study if nothing is there any more."""
    if not Path(kept[name]).exists() and kept[relative] is not None and home is not None:
        beside = home / kept[relative]
        if beside.exists():
            return str(beside)
    return kept[name]


def grown(loader: PoolLoader, rows: Any) -> tuple[Mapping[str, Any], dict[str, Any], list[bytes]]:
    """Return the record of a pool with more rows, and the bytes to store; a table has no `rows`."""
    kept, own = loader.kept(), loader.journal.path
    home = own.parent if own else None
    if kept["kind"] == "table":
        if rows is not None:
            raise BadParameter(
                "A study of a table takes no rows. Append them to the table, and call extend() without any."
            )
        table = replace(found_table(kept, home, loader.moved), notes=())
        folder = Path(table.path) if Path(table.path).is_dir() else None
        if rows_digest(table.read().head(kept["n_rows"]), folder) != kept["rows"]:
            raise PoolChanged(
                f"The first {kept['n_rows']} rows of {table.path} must stay as they were; some differ or "
                "are gone. Restore them, or start a new study and import the labels."
            )
        if kept.get("vector_rows"):
            first = from_npy(table.files["vectors"], table.read().height).rows(0, kept["n_rows"])
            if digest_of(first) != kept["vector_rows"]:
                raise PoolChanged(
                    f"The first {kept['n_rows']} rows of {table.vectors} must stay as they were; some "
                    "differ. Add vectors of the new rows after them, in the table's order."
                )
        return kept, _with_guesses(kept, table_record(table, home, loader.tick)), []
    if rows is None:
        raise BadParameter("A study that has its rows inside needs the new ones: extend(rows).")
    pool, blobs = store(_together(loader.load(), rows), home, loader.tick)
    return kept, _with_guesses(kept, pool), blobs


def _with_guesses(kept: Mapping[str, Any], pool: dict[str, Any]) -> dict[str, Any]:
    """Return a pool with the guesses stored inside the study; new rows have none."""
    inside = kept.get("guesses") and not guess_columns(kept)
    return {**pool, "guesses": kept["guesses"]} if inside else pool


def _together(pool: StudyPool, rows: Any) -> Any:
    rows = in_memory(rows)
    if pool.texts is not None:
        return [*pool.texts, *rows]
    more = clean_rows(rows, "rows")
    if more.shape[1] != pool.X.shape[1]:
        raise ShapeMismatch(
            f"rows must have {pool.X.shape[1]} columns, as in the study, got {more.shape[1]}."
        )
    if is_sparse(pool.X):
        return scipy.sparse.csr_array(scipy.sparse.vstack([pool.X, scipy.sparse.csr_array(more)]))
    dense = more.toarray() if is_sparse(more) else to_numpy(more)
    return np.vstack([pool.X, dense])


def prices(frame: pl.DataFrame | None, column: str | None) -> NDArray[Any] | None:
    """Return the cost of each row, None without a column; raise if it is missing or not numeric."""
    if column is None:
        return None
    if frame is None or column not in frame.columns:
        there = "no columns" if frame is None else f"the columns {listed(frame.columns)}"
        raise BadParameter(
            f"costs= must name a column of the table, got {column!r}; the rows have {there}. Name one "
            "that is there, or leave costs out."
        )
    return clean_costs(frame[column].cast(pl.Float64, strict=False), None, frame.height)[0]
