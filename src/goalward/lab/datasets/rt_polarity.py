"""Sentence polarity of film reviews, as sentence vectors: two classes.

B. Pang and L. Lee, Seeing stars, ACL 2005; sentence polarity data v1.0. The paper used the [CLS]
vector of BERT-base; which encoder stands in for it is said in `Dataset.source`.
"""

from __future__ import annotations

import io
import tarfile
import warnings
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from sklearn.preprocessing import scale

from goalward.core.npy import NpyFile
from goalward.core.whole_file import whole_file
from goalward.errors import BadInput, BadParameter, DataMissing
from goalward.lab.datasets.dataset import Dataset, Split, with_dev
from goalward.lab.datasets.fetch import cache_folder, checked, download, locate
from goalward.models.logistic import Logistic
from goalward.studio.tables.words import minilm_folder

__all__ = ["embed", "rt_polarity", "sentences"]

HOME = "https://www.cs.cornell.edu/people/pabo/movie-review-data/rt-polaritydata.tar.gz"
DIGESTS = {
    "pos": "4134882974a28d0c7b5151256f0e33a6169984ee7372c279e673f1114f475d58",
    "neg": "2d11cfbc790f1cd96d78339f41ce53ced1efa83cd22d37d6788fa3fe3d17e2fd",
}


class _Vectors(NamedTuple):
    """Sentence vectors: their file, what they are, and the paper's C on their scale."""

    file: str
    what: str
    C: float
    standardise: bool


VECTORS = {
    "bert": _Vectors(
        "rt-polarity.bert-base-uncased-cls-768.f16.npy", "BERT-base [CLS], the paper's", 0.1, False
    ),
    "smollm2": _Vectors(
        "rt-polarity.smollm2-135m-l16-last-576.f16.npy",
        "SmolLM2-135M layer 16, last token (576), z-scored",
        0.01,
        True,
    ),
    "minilm": _Vectors(
        "rt-polarity.minilm-l6-cls-mean-768.f16.npy",
        "all-MiniLM-L6-v2 [CLS] and mean (768)",
        0.1,
        False,
    ),
}
"""In order of preference. C is scikit-learn's with a free intercept."""


def rt_polarity(vectors: str | None = None) -> Dataset:
    """Return 9,586 pool rows, 10 initial ones and 1,066 test rows.

    Parameters
    ----------
    vectors
        "bert", "smollm2" or "minilm". By default the first whose file is found (for BERT, a
        checkpoint folder `bert-base-uncased` does too); without any, the sentences are
        embedded with MiniLM if the `[text]` extra is installed.
    """
    if vectors is not None and vectors not in VECTORS:
        raise BadParameter(
            f"vectors={vectors!r}; one of {', '.join(VECTORS)} was expected. Leave it out for the "
            "best that is there."
        )
    wanted = [vectors] if vectors else list(VECTORS)
    for name in wanted:
        path = locate(VECTORS[name].file)
        if path is not None:
            return _dataset(VECTORS[name], _stored(path))
        checkpoint = locate("bert-base-uncased") if name == "bert" else None
        if checkpoint is not None:
            return _dataset(VECTORS[name], _embedded(VECTORS[name].file, checkpoint))
    folder = minilm_folder() if "minilm" in wanted else None
    if folder is not None:
        return _dataset(VECTORS["minilm"], _embedded(VECTORS["minilm"].file, folder, mean=True))
    raise DataMissing(
        f"{VECTORS[wanted[0]].file} is not in the folder of GOALWARD_DATA, nor in "
        f"{cache_folder()}; one of them was expected to hold it. Put it there, or use "
        "vectors='minilm', which can be computed with `pip install goalward[text]`."
    )


def sentences() -> tuple[list[str], NDArray[Any]]:
    """Return the 10,662 snippets, positive first, and their labels 1 and 0."""
    texts: list[str] = []
    labels: list[int] = []
    for label, side in ((1, "pos"), (0, "neg")):
        path = checked(f"rt-polarity.{side}", DIGESTS[side], partial(_part, side))
        lines = path.read_text(encoding="utf-8").split("\n")
        texts += [line.strip() for line in lines if line.strip()]
        labels += [label] * (len(texts) - len(labels))
    return texts, np.array(labels)


def _part(side: str) -> bytes:
    name = f"rt-polaritydata/rt-polarity.{side}"
    with tarfile.open(fileobj=io.BytesIO(download(HOME))) as archive:
        member = archive.extractfile(name) if name in archive.getnames() else None
        if member is None:
            raise DataMissing(f"{HOME} has no file {name}; it was expected. Fetch it by hand.")
        text = member.read().decode("windows-1252").replace("\r", "")
    return text.encode("utf-8")


def _embedded(name: str, folder: Path, *, mean: bool = False) -> NDArray[Any]:
    """Return vectors computed here, and keep them in the cache."""
    X = embed(sentences()[0], folder, mean=mean).astype(np.float16)
    path = cache_folder() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path, force=True) as part:
        np.save(part, X)
        _digest_file(path).write_text(sha256(part.read_bytes()).hexdigest())
    return X


def embed(texts: list[str], folder: Path, *, mean: bool = False) -> NDArray[Any]:
    """Return [CLS] vectors of the last layer of the BERT in `folder`; no network is used.

    Parameters
    ----------
    mean
        Whether the mean over all tokens stands beside each.
    """
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
    batches = np.split(order, range(64, len(order), 64))
    parts = []
    with torch.no_grad():
        for rows in track(batches, "embedding", console=Console(stderr=True), transient=True):
            some = [texts[i] for i in rows]
            tokens = tokenizer(some, padding=True, truncation=True, return_tensors="pt")
            layer = model(**tokens).last_hidden_state
            vectors = layer[:, 0]
            if mean:
                there = tokens["attention_mask"].unsqueeze(-1)
                vectors = torch.cat([vectors, (layer * there).sum(1) / there.sum(1)], dim=1)
            parts.append(vectors.numpy())
    return np.concatenate(parts)[np.argsort(order)]


def _stored(path: Path) -> NDArray[Any]:
    """Return vectors from a file, which has the digest beside it if they were computed here."""
    beside = _digest_file(path)
    if beside.is_file() and beside.read_text() != sha256(path.read_bytes()).hexdigest():
        raise DataMissing(
            f"{path} was changed, or is damaged: its SHA-256 is not that in {beside.name}; what was "
            "computed was expected. Delete both, and it is computed again."
        )
    try:
        return np.asarray(NpyFile(path))
    except BadInput as error:
        raise DataMissing(
            f"{path} could not be read ({error}); plain numbers were expected. Delete it and fetch it "
            "again."
        ) from error


def _digest_file(path: Path) -> Path:
    return path.with_suffix(".sha256")


def _dataset(vectors: _Vectors, stored: NDArray[Any]) -> Dataset:
    X = stored.astype(np.float64)
    if len(X) != 10662:
        raise DataMissing(
            f"{vectors.file} has {len(X)} rows; 10662 were expected. Delete it and fetch it again."
        )
    if vectors.standardise:
        # Statistics of all rows: they need no label.
        X = scale(X)
    y = np.repeat([1, 0], 5331)
    # scikit-learn's binary C is ours at C/2.
    return Dataset("rt-polarity", X, y, _Random(y), Logistic(C=vectors.C / 2), vectors.what)


@dataclass(frozen=True)
class _Random:
    """1,066 test rows, 10 initial ones (5 a class), the rest the pool."""

    y: NDArray[Any] = field(repr=False)

    def __call__(self, seed: int) -> Split:
        rng = np.random.default_rng([seed, 3])
        order = rng.permutation(len(self.y))
        test, rest = order[:1066], order[1066:]
        init = np.concatenate([rest[self.y[rest] == c][:5] for c in (0, 1)])
        return with_dev(init, rest[~np.isin(rest, init)], test, rng)
