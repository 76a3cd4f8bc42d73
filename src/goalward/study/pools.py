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
from numpy.typing import NDArray

from goalward.core.arrays import is_sparse, to_numpy
from goalward.core.rows import check_finite, clean_rows
from goalward.errors import BadInput, BadParameter, PoolChanged
from goalward.journal.engine import files_of_database
from goalward.journal.store import Store
from goalward.learners import Opinion
from goalward.pool import as_pool
from goalward.study.guesses import Guesses, guess_columns
from goalward.study.parts import as_parts, digest_of, from_parts, in_memory
from goalward.tables.columns import copies_in, without_text
from goalward.tables.encoder import Encoder, Tick, Vectors, silent
from goalward.tables.loaded import Loaded
from goalward.tables.read import beside
from goalward.tables.table import Table, named_table
from goalward.tables.watch import Watch, rows_digest
from goalward.tables.words import Words

__all__ = ["PoolLoader", "StudyPool", "found_table", "store", "table_record", "told"]

FIRST_FEATURES = {"tfidf": "tfidf-svd-256/1", "numeric": "numbers/1"}
"""What made the numbers in studies of the first version."""


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
        encoder, X = Words.fitted(self.texts, tick)
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
        record, parts = as_parts(Words.fitted(list(pool), tick)[1])
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


def told(kept: Mapping[str, Any]) -> list[str]:
    """Return what to tell people of a table: what the model looks at, and what was found in it."""
    says = [f"Features: {kept['says']}."] if kept.get("says") else []
    return [*says, *kept.get("notes", ())]


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
    # Earlier versions took the first sheet with rows.
    sheet = kept.get("sheet", "")
    table = Table(path, kept["text"], kept["image"], kept["numeric"], vectors, sheet=sheet)
    if "category" not in kept:
        # In the first version numbers stood alone, and a file's name said what separates its cells.
        alone = table.numeric if vectors == "numeric" else ()
        separator = "\t" if Path(path).suffix.lower() == ".tsv" else ","
        table = replace(table, numeric=alone, separator=separator)
    else:
        names = ("category", "separator", "encoding", "notes")
        stored = {name: kept[name] for name in names}
        table = replace(table, **stored, guesses=guess_columns(kept))
    made_with = kept.get("features", FIRST_FEATURES.get(kept["embeddings"], table.features))
    table = replace(table, alone=True, beside=made_with.partition("+")[2] or table.beside)
    if made_with != table.features:
        raise PoolChanged(
            f"The study was made with the features {made_with!r}, and this version of goalward makes "
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
