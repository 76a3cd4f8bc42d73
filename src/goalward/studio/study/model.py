"""A study's model by itself: what makes numbers of rows, weights, and the names of the classes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.metadata import version
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import expit

from goalward.core.arrays import softmax
from goalward.core.card import card
from goalward.core.files import NpyFile, whole_folder
from goalward.core.pool import Pool, as_pool
from goalward.core.pool_files import open_pool
from goalward.core.rows import check_archive, clean_rows
from goalward.core.threads import cores, one_blas_thread
from goalward.errors import BadInput, Damaged, DataMissing, Unsupported
from goalward.labels.opinion import feature_weights
from goalward.models import Fitted
from goalward.studio.store.events import Label
from goalward.studio.tables.encoder import Encoder, Vectors

BLOCK = 2**20
"""Numbers of a block of rows: a few MB, which stay in the cache between two products."""
WINDOW = 64
"""Blocks under way at once, so that memory stays bounded whatever is read."""
DESCRIBED, ARRAYS = "model.json", "arrays.npz"
FORMAT, OTHERS = 1, 2
"""Of a model of classes, and of labels or numbers, which older programs refuse."""


class Predictions(NamedTuple):
    """Labels, and the probability of every class, row by row.

    Parameters
    ----------
    labels
        The likeliest class of each row; for several labels (n, k) of whether each holds, for numbers
        the numbers.
    probabilities
        (n, k), in the order of the classes; None for numbers.
    """

    labels: NDArray[Any]
    probabilities: NDArray[Any] | None

    def _repr_html_(self) -> str:
        if self.probabilities is None or self.labels.ndim > 1:
            said = self.labels.T if self.labels.ndim > 1 else [self.labels]
            columns = {
                "row": range(len(self.labels)),
                **{f"{k}": one for k, one in enumerate(said)},
            }
            return card(f"{len(self.labels):,} predictions", columns, bar="")
        best = self.probabilities.max(axis=1, initial=0.0)
        columns = {"row": range(len(best)), "label": self.labels, "probability": best}
        return card(f"{len(best):,} predictions", columns, bar="probability", most=1)


@dataclass(frozen=True, eq=False)
class StudyModel:
    """A study's model and what makes numbers of its rows; it needs nothing else.

    Parameters
    ----------
    params
        (p, k): weights, and the intercepts as a last row.
    classes
        In the order of the columns.
    encoder
        Makes numbers of texts or of the rows of a table.
    intercept
        Whether the last row of `params` is added to every row.
    kind
        What it predicts: "class", "labels" (each a yes or a no) or "numbers".

    Examples
    --------
    >>> import tempfile, goalward as gw
    >>> place = f"{tempfile.mkdtemp()}/labels.db"
    >>> texts = ["good film", "bad film", "good good", "so bad", "a good one", "bad, bad"]
    >>> study = gw.Study.create(place, pool=texts, classes=["good", "bad"], dev=0)
    >>> _ = study.tell_many([(row, "good" if "good" in texts[row] else "bad") for row in range(6)])
    >>> folder = study.model.save(f"{place}.model")
    >>> gw.load_model(folder).predict(["good", "bad"]).tolist()
    ['good', 'bad']
    """

    params: NDArray[Any] = field(repr=False)
    classes: tuple[Label, ...]
    encoder: Encoder = field(repr=False)
    intercept: bool = True
    kind: str = "class"

    @classmethod
    def of(
        cls,
        fitted: Fitted,
        classes: Sequence[Label],
        encoder: Encoder | None = None,
        kind: str = "class",
    ) -> StudyModel:
        """Return a fitted model without the rows that it was fitted on."""
        params, intercept = feature_weights(fitted, "A study's model")
        encoder = encoder or Vectors(len(params) - intercept)
        return cls(params, tuple(classes), encoder, intercept, kind)

    def predict_proba(self, rows: Any) -> NDArray[Any]:
        """Return (n, k) probabilities of rows: texts or a frame like the study's own, or numbers."""
        if self.kind == "numbers":
            raise Unsupported(
                "Probabilities were asked of a model of numbers; one of classes or of several labels was "
                "expected. Use predict."
            )
        to_proba = softmax if self.kind == "class" else expit
        found = [to_proba(logits.T) for logits in self._logits(rows)]
        return np.concatenate(found) if found else np.empty((0, len(self.classes)))

    def predict(self, rows: Any) -> NDArray[Any]:
        """Return the likeliest class of each row, whether each label holds, or its number."""
        if self.kind != "class":
            return self.predictions(rows).labels
        return self._named(self.likeliest(rows)[0])

    def predictions(self, rows: Any) -> Predictions:
        """Return labels and probabilities."""
        if self.kind == "numbers":
            found = [np.empty(0), *(logits[0] for logits in self._logits(rows))]
            return Predictions(np.concatenate(found), None)
        proba = self.predict_proba(rows)
        if self.kind == "labels":
            return Predictions(proba > 0.5, proba)
        return Predictions(self._named(proba.argmax(axis=1)), proba)

    def likeliest(self, rows: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the place of the likeliest class of each row, and its probability."""
        codes, confidence = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.float32)]
        for logits in self._logits(rows):
            codes.append(logits.argmax(axis=0))
            confidence.append(1.0 / np.exp(logits - logits.max(axis=0)).sum(axis=0))
        return np.concatenate(codes), np.concatenate(confidence)

    def _logits(self, rows: Any) -> Iterator[NDArray[Any]]:
        """Yield the logits, (k, n), of a few MB of rows at a time, by all cores.

        Those of the first class are 0: one product less than classes, and for two of them as fast as
        the rows are read.
        """
        exclusive = self.kind == "class"
        weights = self.params[:, 1:] - self.params[:, :1] if exclusive else self.params
        pool = self._numbers(rows)
        size = max(1, BLOCK // max(1, self.params.shape[0]))
        width = len(weights) - self.intercept

        def block(part: Any) -> NDArray[Any]:
            X = clean_rows(part, "X", n_features=width, finite=False)
            W = weights.astype(X.dtype)
            columns = W[:width, 0] if W.shape[1] == 1 else np.ascontiguousarray(W[:width].T).T
            moved = np.asarray(X @ columns).reshape(X.shape[0], -1).T
            if self.intercept:
                moved = moved + W[-1][:, None]
            if not np.isfinite(moved).all():
                clean_rows(part, "X", n_features=width)
            return np.concatenate([np.zeros_like(moved[:1]), moved]) if exclusive else moved

        parts = (part for _, part in (pool.blocks(size) if len(pool) else ()))
        with ThreadPoolExecutor(cores()) as threads, one_blas_thread():
            while window := list(islice(parts, WINDOW)):
                yield from threads.map(block, window)

    def _numbers(self, rows: Any) -> Pool:
        if isinstance(rows, str):
            raise BadInput("One text came; a list of texts was expected. Write [text].")
        if hasattr(rows, "iloc"):
            rows = pl.from_pandas(rows)
        words = (
            isinstance(rows, (list, tuple, pl.Series)) and len(rows) and isinstance(rows[0], str)
        )
        frame = isinstance(rows, pl.DataFrame)
        if isinstance(rows, NpyFile):
            # Rows that are used up at once are looked at where they are, without a copy.
            held: Pool = open_pool(rows.path)
            return held
        return as_pool(self.encoder.transform(rows) if words or frame else rows)

    def _named(self, codes: NDArray[Any]) -> NDArray[Any]:
        kinds = {type(label) for label in self.classes}
        names = np.array(self.classes, dtype=None if len(kinds) == 1 else object)
        return np.asarray(names[codes])

    def save(self, folder: str | Path, *, force: bool = False, **about: Any) -> Path:
        """Write the model to a new folder, whole or not at all, and return the folder.

        `model.json` describes it and `arrays.npz` holds its numbers: nothing in them is code. What
        else is `about` it stands in the first. `force` takes the place of another model.
        """
        described, arrays = self.encoder.state()
        numbers = BytesIO()
        kept: Any = {f"encoder.{name}": array for name, array in arrays.items()}
        np.savez(numbers, params=self.params, **kept)
        words = {
            "model of goalward": FORMAT if self.kind == "class" else OTHERS,
            "version": version("goalward"),
            "classes": list(self.classes),
            "intercept": self.intercept,
            **({} if self.kind == "class" else {"kind": self.kind}),
            **about,
            "encoder": described,
            "sha256": sha256(numbers.getvalue()).hexdigest(),
        }
        with whole_folder(folder, holds=DESCRIBED, force=force) as partial_folder:
            (partial_folder / ARRAYS).write_bytes(numbers.getvalue())
            (partial_folder / DESCRIBED).write_text(json.dumps(words, indent=1), "utf-8")
        return Path(folder)


def load_model(folder: str | Path) -> StudyModel:
    """Return a model that `StudyModel.save` or `goalward model` wrote; a stranger's runs no code.

    `DataMissing` where there is none, `Damaged` where its files do not belong together.
    """
    folder = Path(folder)
    try:
        words = json.loads((folder / DESCRIBED).read_text("utf-8"))
        content = (folder / ARRAYS).read_bytes()
    except OSError as error:
        raise DataMissing(
            f"{error.filename} could not be opened ({error.strerror}); the folder of a model, with "
            f"{DESCRIBED} and {ARRAYS}, was expected. Write one with `goalward model STUDY {folder}`."
        ) from error
    except (ValueError, RecursionError) as error:
        raise _damaged(folder / DESCRIBED, f"is no JSON: {error}") from error
    found = words.get("model of goalward") if isinstance(words, dict) else None
    if found not in (FORMAT, OTHERS):
        raise BadInput(
            f"{folder / DESCRIBED} is of format {found!r}; {FORMAT} or {OTHERS} was expected. Upgrade goalward, or "
            "write the model again."
        )
    if sha256(content).hexdigest() != words.get("sha256"):
        raise _damaged(folder / ARRAYS, f"is not the file that {DESCRIBED} describes")
    try:
        check_archive(file := BytesIO(content))
        with np.load(file, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        params, classes = arrays.pop("params"), tuple(words["classes"])
        inner = {name.removeprefix("encoder."): value for name, value in arrays.items()}
        encoder = Encoder.restored(words["encoder"], inner)
        if params.ndim != 2 or params.shape[1] != len(classes) or params.dtype.kind != "f":
            raise ValueError(f"weights {params.dtype} {params.shape} of {len(classes)} classes")
        if not np.isfinite(params).all():
            raise ValueError("weights that are not finite")
        kind = "class" if found == FORMAT else words["kind"]
        if kind not in ("class", "labels", "numbers"):
            raise ValueError(f"kind {kind!r}")
        return StudyModel(params, classes, encoder, bool(words["intercept"]), kind)
    except Exception as error:  # what was not written by `save` fails in a dozen ways
        raise _damaged(folder, f"holds no model: {error}") from error


def _damaged(path: Path, why: str) -> Damaged:
    return Damaged(f"{path} {why}; what was written was expected. Write the model again.")
