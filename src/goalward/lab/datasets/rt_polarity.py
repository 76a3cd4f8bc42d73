"""Sentence polarity of film reviews, as sentence vectors: two classes.

B. Pang and L. Lee, Seeing stars, ACL 2005; sentence polarity data v1.0. The paper used the [CLS]
vector of BERT-base; which encoder stands in for it is said in `Dataset.source`.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.npy import NpyFile
from goalward.errors import BadInput, BadParameter, DataMissing
from goalward.lab.datasets.dataset import Dataset, Split, with_dev
from goalward.lab.datasets.encoder import embed_bert, embed_minilm, minilm_folder
from goalward.lab.datasets.fetch import cache_folder, checked, download, locate
from goalward.learners import Logistic

__all__ = ["rt_polarity", "sentences"]

HOME = "https://www.cs.cornell.edu/people/pabo/movie-review-data/rt-polaritydata.tar.gz"
DIGESTS = {
    "pos": "4134882974a28d0c7b5151256f0e33a6169984ee7372c279e673f1114f475d58",
    "neg": "2d11cfbc790f1cd96d78339f41ce53ced1efa83cd22d37d6788fa3fe3d17e2fd",
}


@dataclass(frozen=True)
class _Vectors:
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
            return _dataset(VECTORS[name], _embedded(name, partial(embed_bert, folder=checkpoint)))
    if "minilm" in wanted:
        minilm_folder()  # before anything is fetched for it
        return _dataset(VECTORS["minilm"], _embedded("minilm", embed_minilm))
    raise DataMissing(
        f"{VECTORS[wanted[0]].file} is not in the folder of GOALWARD_DATA, nor in "
        f"{cache_folder()}; one of them was expected to hold it. Put it there, or use "
        "vectors='minilm', which can be computed with `pip install goalward[text]`."
    )


def sentences() -> tuple[list[str], NDArray[Any]]:
    """Return the 10,662 snippets, positive first, and their labels 1 and 0."""
    texts, labels = [], []
    for label, side in ((1, "pos"), (0, "neg")):
        path = checked(f"rt-polarity.{side}", DIGESTS[side], partial(_part, side))
        lines = [line.strip() for line in path.read_text(encoding="utf-8").split("\n")]
        lines = [line for line in lines if line]
        texts += lines
        labels += [label] * len(lines)
    return texts, np.array(labels)


def _part(side: str) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(download(HOME))) as archive:
        member = archive.extractfile(f"rt-polaritydata/rt-polarity.{side}")
        if member is None:
            raise DataMissing(
                f"{HOME} has no rt-polarity.{side}; it was expected. Fetch the file by hand."
            )
        text = member.read().decode("windows-1252").replace("\r", "")
    return text.encode("utf-8")


def _embedded(name: str, embed: Callable[[list[str]], NDArray[Any]]) -> NDArray[Any]:
    """Return vectors computed here, and keep them in the cache."""
    texts, _ = sentences()
    X = embed(texts).astype(np.float16)
    path = cache_folder() / VECTORS[name].file
    path.parent.mkdir(parents=True, exist_ok=True)
    partial_file = path.with_suffix(".part.npy")
    np.save(partial_file, X)
    _digest_file(path).write_text(sha256(partial_file.read_bytes()).hexdigest())
    partial_file.replace(path)
    return X


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
        spread = X.std(axis=0)
        # Statistics of all rows: they need no label.
        X = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
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
        test, rest = np.sort(order[:1066]), order[1066:]
        init = np.concatenate([rest[self.y[rest] == c][:5] for c in (0, 1)])
        return with_dev(init, np.sort(rest[~np.isin(rest, init)]), test, rng)
