"""A study's model, kept in a folder of its own: encoder, weights and classes."""

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
from goalward.core.cores import cores, one_blas_thread
from goalward.core.files import NpyFile, whole_folder
from goalward.core.pool import Pool, as_pool
from goalward.core.pool_files import open_pool
from goalward.core.rows import check_archive, clean_rows
from goalward.errors import BadInput, Damaged, DataMissing, Unsupported
from goalward.labels.opinion import feature_weights
from goalward.models import Fitted
from goalward.models.features import Features
from goalward.studio.store.events import Label
from goalward.studio.tables.encoder import Encoder, Vectors

BLOCK = 2**20
"""Numbers of a block of rows: a few MB, which stay in the cache between two products."""
WINDOW = 64
"""Blocks computed at once, so that memory stays bounded."""
DESCRIBED, ARRAYS = "model.json", "arrays.npz"
FORMAT = 1


class Predictions(NamedTuple):
    """Labels, and the probability of every class, row by row.

    `labels` are classes, numbers, or (n, k) booleans for several labels; `probabilities` are (n, k), in
    the order of the classes, and None for numbers.
    """

    labels: NDArray[Any]
    probabilities: NDArray[Any] | None

    def _repr_html_(self) -> str:
        if self.probabilities is None or self.labels.ndim > 1:
            columns: dict[str, Any] = {"row": range(len(self.labels))}
            columns |= {str(k): column for k, column in enumerate(np.atleast_2d(self.labels.T))}
            return card(f"{len(self.labels):,} predictions", columns, bar="")
        best = self.probabilities.max(axis=1, initial=0.0)
        columns = {"row": range(len(best)), "label": self.labels, "probability": best}
        return card(f"{len(best):,} predictions", columns, bar="probability", most=1)


@dataclass(frozen=True, eq=False)
class StudyModel:
    """A study's model with its encoder; it needs nothing else.

    Parameters
    ----------
    params
        (p, k): weights, and the intercepts as a last row.
    kind
        What it predicts: "class", "labels" (each a yes or a no) or "numbers".
    features
        The map between the encoder and the weights, if any.

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
    features: Features | None = field(default=None, repr=False)

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
        features = fitted.feature_map
        width = len(params) - intercept if features is None else features.width
        encoder = encoder or Vectors(width)
        return cls(params, tuple(classes), encoder, intercept, kind, features)

    def predict_proba(self, rows: Any) -> NDArray[Any]:
        """Return (n, k) probabilities of rows: texts or a frame like the study's own, or numbers."""
        if self.kind == "numbers":
            raise Unsupported(
                "Probabilities need a model of classes or of several labels, got one of numbers. Use predict."
            )
        to_proba = softmax if self.kind == "class" else expit
        blocks = [to_proba(logits.T) for logits in self._logits(rows)]
        return np.concatenate(blocks) if blocks else np.empty((0, len(self.classes)))

    def predict(self, rows: Any) -> NDArray[Any]:
        """Return the likeliest class of each row, whether each label holds, or its number."""
        if self.kind != "class":
            return self.predictions(rows).labels
        return self._named(self.likeliest(rows)[0])

    def predictions(self, rows: Any) -> Predictions:
        """Return labels and probabilities."""
        if self.kind == "numbers":
            numbers = [np.empty(0), *(logits[0] for logits in self._logits(rows))]
            return Predictions(np.concatenate(numbers), None)
        proba = self.predict_proba(rows)
        if self.kind == "labels":
            return Predictions(proba > 0.5, proba)
        return Predictions(self._named(proba.argmax(axis=1)), proba)

    def likeliest(self, rows: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the index of the likeliest class of each row, and its probability."""
        codes, confidence = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.float32)]
        for logits in self._logits(rows):
            codes.append(logits.argmax(axis=0))
            confidence.append(1.0 / np.exp(logits - logits.max(axis=0)).sum(axis=0))
        return np.concatenate(codes), np.concatenate(confidence)

    def _logits(self, rows: Any) -> Iterator[NDArray[Any]]:
        """Yield the logits, (k, n), of a few MB of rows at a time; those of the first class are 0."""
        exclusive = self.kind == "class"
        weights = self.params[:, 1:] - self.params[:, :1] if exclusive else self.params
        pool = self._numbers(rows)
        size = max(1, BLOCK // max(1, self.params.shape[0]))
        width = len(weights) - self.intercept
        raw = width if self.features is None else self.features.width

        def block(part: Any) -> NDArray[Any]:
            X = clean_rows(part, "X", n_features=raw, finite=False)
            X = X if self.features is None else self.features.transform(X)
            W = weights.astype(X.dtype)
            columns = W[:width, 0] if W.shape[1] == 1 else np.ascontiguousarray(W[:width].T).T
            moved = np.asarray(X @ columns).reshape(X.shape[0], -1).T
            if self.intercept:
                moved = moved + W[-1][:, None]
            if not np.isfinite(moved).all():
                clean_rows(part, "X", n_features=raw)
            return np.concatenate([np.zeros_like(moved[:1]), moved]) if exclusive else moved

        parts = (part for _, part in (pool.blocks(size) if len(pool) else ()))
        with ThreadPoolExecutor(cores()) as threads, one_blas_thread():
            while window := list(islice(parts, WINDOW)):
                yield from threads.map(block, window)

    def _numbers(self, rows: Any) -> Pool:
        if isinstance(rows, str):
            raise BadInput("Rows must be a list of texts, got one text. Write [text].")
        if isinstance(rows, NpyFile):
            held: Pool = open_pool(rows.path)
            return held
        if hasattr(rows, "iloc"):
            rows = rows.astype(object).where(rows.notna(), None)  # without pyarrow
            rows = rows.tolist() if rows.ndim == 1 else pl.DataFrame(rows.to_dict("list"))
        texts = (
            isinstance(rows, (list, tuple, pl.Series)) and len(rows) and isinstance(rows[0], str)
        )
        encoded = texts or isinstance(rows, pl.DataFrame)
        return as_pool(self.encoder.transform(rows) if encoded else rows)

    def _named(self, codes: NDArray[Any]) -> NDArray[Any]:
        kinds = {type(label) for label in self.classes}
        names = np.array(self.classes, dtype=None if len(kinds) == 1 else object)
        return np.asarray(names[codes])

    def save(self, folder: str | Path, *, force: bool = False, **about: Any) -> Path:
        """Write the model, whole or not at all, to a new folder and return it; `force` replaces another."""
        numbers, kept = BytesIO(), dict[str, Any]()
        described: dict[str, Any] = {"features": None}
        for part, fitted in {"encoder": self.encoder, "features": self.features}.items():
            if fitted is not None:
                described[part], arrays = fitted.state()
                kept |= {f"{part}.{name}": array for name, array in arrays.items()}
        np.savez(numbers, params=self.params, **kept)
        words = {
            "model of goalward": FORMAT,
            "version": version("goalward"),
            "classes": list(self.classes),
            "intercept": self.intercept,
            "kind": self.kind,
            **about,
            **described,
            "sha256": sha256(numbers.getvalue()).hexdigest(),
        }
        with whole_folder(folder, holds=DESCRIBED, force=force) as partial_folder:
            (partial_folder / ARRAYS).write_bytes(numbers.getvalue())
            (partial_folder / DESCRIBED).write_text(json.dumps(words, indent=1), "utf-8")
        return Path(folder)


def load_model(folder: str | Path) -> StudyModel:
    """Return a saved model, without running code; `DataMissing` if there is none, or `Damaged`."""
    folder = Path(folder)
    try:
        words = json.loads((folder / DESCRIBED).read_text("utf-8"))
        content = (folder / ARRAYS).read_bytes()
    except OSError as error:
        raise DataMissing(
            f"The folder of a model must have {DESCRIBED} and {ARRAYS}, and {error.filename} could not be "
            f"opened ({error.strerror}). Write one with `goalward model STUDY {folder}`."
        ) from error
    except (ValueError, RecursionError) as error:
        raise _damaged(folder / DESCRIBED, f"is no JSON: {error}") from error
    written_as = words.get("model of goalward") if isinstance(words, dict) else None
    if written_as != FORMAT:
        raise BadInput(
            f"{folder / DESCRIBED} must be of format {FORMAT}, got {written_as!r}. Upgrade goalward, or write "
            "the model again."
        )
    if sha256(content).hexdigest() != words.get("sha256"):
        raise _damaged(folder / ARRAYS, f"is not the file that {DESCRIBED} describes")
    try:
        check_archive(file := BytesIO(content))
        with np.load(file, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        params, classes = arrays.pop("params"), tuple(words["classes"])
        inner: dict[str, dict[str, Any]] = {"encoder": {}, "features": {}}
        for name, value in arrays.items():
            of, _, rest = name.partition(".")
            inner[of][rest] = value
        encoder = Encoder.restored(words["encoder"], inner["encoder"])
        features = None
        if words["features"] is not None:
            features = Features.restored(words["features"], inner["features"])
            width = features.transform(np.zeros((1, features.width))).shape[1]
            if width + bool(words["intercept"]) != len(params):
                raise ValueError(f"{len(params)} weights for {width} features")
        if params.ndim != 2 or params.shape[1] != len(classes) or params.dtype.kind != "f":
            raise ValueError(f"weights {params.dtype} {params.shape} of {len(classes)} classes")
        if not np.isfinite(params).all():
            raise ValueError("weights that are not finite")
        if words["kind"] not in ("class", "labels", "numbers"):
            raise ValueError(f"kind {words['kind']!r}")
        return StudyModel(
            params, classes, encoder, bool(words["intercept"]), words["kind"], features
        )
    except Exception as error:  # what was not written by `save` fails in a dozen ways
        raise _damaged(folder, f"holds no model: {error}") from error


def _damaged(path: Path, why: str) -> Damaged:
    return Damaged(f"{path} {why}. Write the model again.")
