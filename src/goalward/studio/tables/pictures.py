"""Pictures as rows: a folder of them as a table, and numbers that are made of what they show."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from goalward.core.extras import needing
from goalward.errors import BadInput
from goalward.studio.tables.encoder import Encoder, Rows, Tick, joined, silent
from goalward.studio.tables.read import PICTURE, read_table
from goalward.studio.tables.words import pretrained

__all__ = ["Pictures", "Pixels", "first_labels", "paths"]

UNNAMED = {"unlabelled", "unlabeled", "todo", "rest", "unknown"}
"""Folders that say nothing of the pictures in them, in small letters."""
SIDE, CELLS, ANGLES = 64, 8, 9
DIMENSIONS = 128
FITTED = 5000
"""Pictures, at most, that the dimensions are made of."""
LENGTH = 4.0
"""Root mean square length of the vectors; C is chosen around it."""


def first_labels(frame: pl.DataFrame, classes: Sequence[str]) -> tuple[list[str], dict[int, str]]:
    """Return the classes of a folder of pictures, and row -> label where a subfolder says it.

    Without classes, subfolders are their names where there are two or more.
    """
    within = frame["folder"].to_list()
    if not classes:
        classes = sorted({name for name in within if name and name.lower() not in UNNAMED})
    return list(classes), {row: name for row, name in enumerate(within) if name in classes}


@dataclass(frozen=True, eq=False)
class Pixels(Encoder):
    """What can be seen of pictures without a network: small grey pixels, edges (HOG) and colours.

    Together they are reduced to 128 dimensions.

    Parameters
    ----------
    columns
        The column of their paths.
    mean, components
        The middle of the pictures that were fitted, and the dimensions, one a row.
    """

    columns: Sequence[str]
    mean: NDArray[Any] = field(repr=False)
    components: NDArray[Any] = field(repr=False)

    @classmethod
    def fitted(
        cls, pictures: Sequence[str], tick: Tick = silent, columns: Sequence[str] = (PICTURE,)
    ) -> tuple[Self, NDArray[Any]]:
        """Return the encoder of some pictures, and their vectors."""
        X = _looked_at(pictures, tick)
        there = X[np.any(X, axis=1)]
        if len(there) < 2:
            raise BadInput(
                f"{len(there)} of {len(pictures)} pictures could be read; two at least were expected. "
                "Check the paths, and that they are .png, .jpg, .gif, .webp or .bmp."
            )
        # Rows that stand for all, whatever the order of their names.
        rows = np.random.default_rng(0).permutation(len(there))[:FITTED]
        size = min(DIMENSIONS, len(rows) - 1, X.shape[1])
        reduction = PCA(size, svd_solver="randomized", random_state=0).fit(there[rows])
        spread = max(float(reduction.explained_variance_.sum()), 1e-300) ** 0.5
        made = cls(list(columns), reduction.mean_, reduction.components_ * (LENGTH / spread))
        return made, made._reduced(X)

    def transform(self, rows: Rows, tick: Tick = silent) -> NDArray[Any]:
        """Return the vectors of pictures, by their paths; one that cannot be read is all zeros."""
        return self._reduced(_looked_at(joined(rows, self.columns), tick))

    def read(self, path: str | Path, tick: Tick = silent) -> tuple[pl.DataFrame, Any]:
        """Return a table or a folder, and the vectors of its pictures."""
        frame = read_table(path)
        return frame, self.transform(paths(frame, self.columns[0], Path(path)), tick)

    def _reduced(self, X: NDArray[Any]) -> NDArray[Any]:
        seen = np.any(X, axis=1, keepdims=True)
        return np.asarray(((X - self.mean) @ self.components.T) * seen, dtype=np.float32)


@dataclass(frozen=True, eq=False)
class Pictures(Encoder):
    """Vectors of an image encoder: a model of sentence-transformers, by its folder or its name."""

    columns: Sequence[str]
    model: str
    scale: float

    @classmethod
    def fitted(
        cls, pictures: Sequence[str], model: str, tick: Tick = silent, columns: Sequence[str] = ()
    ) -> tuple[Self, NDArray[Any]]:
        """Return the encoder scaled to some pictures, and their vectors."""
        raw = cls(list(columns), model, 1.0)
        X = raw.transform(pictures, tick)
        mean_square = float(np.mean(np.sum(X.astype(np.float64) ** 2, axis=1)))
        scale = LENGTH / max(mean_square, 1e-300) ** 0.5
        return cls(list(columns), model, scale), np.asarray(X * scale, dtype=np.float32)

    def transform(self, rows: Rows, tick: Tick = silent) -> NDArray[Any]:
        """Return the vectors of pictures, by their paths; one that cannot be read is all zeros."""
        named = joined(rows, self.columns)
        parts = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            encoder = pretrained(self.model)
            for first in range(0, len(named), 64):
                images = [_opened(path) for path in named[first : first + 64]]
                there = [image for image in images if image is not None]
                made = iter(encoder.encode(there, show_progress_bar=False) if there else [])
                parts += [None if image is None else next(made) for image in images]
                tick(f"looked at {first + len(images):,} of {len(named):,} pictures")
        width = next((len(part) for part in parts if part is not None), 0)
        X = np.stack([np.zeros(width) if part is None else part for part in parts])
        return np.asarray(X * self.scale, dtype=np.float32)

    def read(self, path: str | Path, tick: Tick = silent) -> tuple[pl.DataFrame, Any]:
        """Return a table or a folder, and the vectors of its pictures."""
        frame = read_table(path)
        return frame, self.transform(paths(frame, self.columns[0], Path(path)), tick)


def paths(frame: pl.DataFrame, column: str, source: Path) -> list[str]:
    """Return where the pictures of a table are: their paths start at its folder."""
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


def _looked_at(pictures: Sequence[str], tick: Tick) -> NDArray[Any]:
    return np.concatenate(list(_parts(pictures, tick)))


def _parts(pictures: Sequence[str], tick: Tick) -> Iterator[NDArray[Any]]:
    for first in range(0, len(pictures), 256):
        images = [_opened(path, SIDE) for path in pictures[first : first + 256]]
        gone = np.array([image is None for image in images])
        blank = np.zeros((SIDE, SIDE, 3))
        colours = (
            np.stack([blank if image is None else np.asarray(image) for image in images]) / 255
        )
        features = _features(colours)
        features[gone] = 0.0
        tick(f"looked at {first + len(images):,} of {len(pictures):,} pictures")
        yield features


def _features(colours: NDArray[Any]) -> NDArray[Any]:
    """Return grey pixels, edges and colours of (n, side, side, 3) pictures, side by side."""
    grey = colours @ np.array([0.299, 0.587, 0.114])
    parts = (_pooled(grey, 16) - 0.5, _edges(grey), _pooled(colours, 4) - 0.5)
    # Edges, which tell things apart whatever their colours, have twice the length of the others.
    scaled = (part.reshape(len(grey), -1) * part[0].size ** -0.5 for part in parts)
    return np.concatenate(
        [one * by for one, by in zip(scaled, (4.0, 20.0, 5.0), strict=True)], axis=1
    )


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
