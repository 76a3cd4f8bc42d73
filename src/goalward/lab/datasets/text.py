"""Sentences as vectors: rt-polarity and subj (Pang and Lee 2005, 2004), trec (Li and Roth 2002)."""

import gzip
import io
import tarfile
import warnings
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from sklearn.preprocessing import scale

from goalward.core.files import NpyFile
from goalward.errors import BadInput, BadParameter, DataMissing, MissingExtra
from goalward.lab.datasets.dataset import Dataset, Split, stratified, with_dev
from goalward.lab.datasets.fetch import cache_folder, checked, download, locate
from goalward.lab.datasets.tables import SAMPLES
from goalward.models.logistic import Logistic
from goalward.studio.tables.cache import cached
from goalward.studio.tables.embeddings import Sentences, minilm_folder

POLARITY = "https://www.cs.cornell.edu/people/pabo/movie-review-data/rt-polaritydata.tar.gz"
OTHERS = (
    "https://raw.githubusercontent.com/harvardnlp/sent-conv-torch/"
    "d61ded09c99c0199d8c5bca946cd65864de2b296/data/raw/"
)
FILES = {"subj": ("subj.objective", "subj.subjective"), "trec": ("TREC.train", "TREC.test")}
DIGESTS = {
    "pos": "4134882974a28d0c7b5151256f0e33a6169984ee7372c279e673f1114f475d58",
    "neg": "2d11cfbc790f1cd96d78339f41ce53ced1efa83cd22d37d6788fa3fe3d17e2fd",
    "subj": "3760820b24c5a5ff021875e6fec95f0a512b6c81d8301f0ad1a27e53d6410995",
    "trec": "66b330b7eb7fea5b2784134a5b07f7ce8c1c15bb139c568c9e9b111c67dfaf4e",
}


class Embedding(NamedTuple):
    """Sentence vectors: their file, a description, and the paper's C on their scale."""

    file: str
    source: str
    C: float
    standardise: bool = False


VECTORS = {  # in order of preference; C is scikit-learn's
    "bert": Embedding(
        "rt-polarity.bert-base-uncased-cls-768.f16.npy", "BERT-base [CLS], the paper's", 0.1
    ),
    "smollm2": Embedding(
        "rt-polarity.smollm2-135m-l16-last-576.f16.npy",
        "SmolLM2-135M layer 16, last token (576), z-scored",
        0.01,
        standardise=True,
    ),
    "minilm": Embedding(
        "rt-polarity.minilm-l6-cls-mean-768.f16.npy", "all-MiniLM-L6-v2 [CLS] and mean (768)", 0.1
    ),
}


def rt_polarity(vectors: str | None = None) -> Dataset:
    """Return 9,586 pool, 10 initial and 1,066 test rows.

    `vectors` are "bert", "smollm2" or "minilm"; by default the first with a file or checkpoint, else
    MiniLM's, with the `[text]` extra.
    """
    if vectors is not None and vectors not in VECTORS:
        raise BadParameter(
            f"vectors must be one of {', '.join(VECTORS)}, got {vectors!r}. Or leave it out."
        )
    wanted = [vectors] if vectors else list(VECTORS)
    for name in wanted:
        path = locate(VECTORS[name].file)
        if path is not None:
            return _dataset(VECTORS[name], _stored(path))
        checkpoint = locate("bert-base-uncased") if name == "bert" else None
        if checkpoint is not None:
            return _dataset(VECTORS[name], _embedded(VECTORS[name].file, checkpoint))
    if "minilm" in wanted and find_spec("transformers") is not None:
        folder = minilm_folder()
        return _dataset(VECTORS["minilm"], _embedded(VECTORS["minilm"].file, folder, mean=True))
    raise DataMissing(
        f"{VECTORS[wanted[0]].file} is not in the folder of GOALWARD_DATA, nor in {cache_folder()}. Put "
        "it there, or use vectors='minilm', computed with `pip install goalward[text]`."
    )


def rt_polarity_sample() -> Dataset:
    """Return 2,000 sentences, 1,000 of each class: 64 components of MiniLM's vectors, on their scale."""
    X = np.load(SAMPLES / "rt-polarity.f16.npy").astype(np.float64)
    source = "2,000 sentences, 64 components of all-MiniLM-L6-v2"
    return stratified("rt-polarity", X, np.repeat([1, 0], 1000), source, C=0.05, per_class=5)


def _dataset(vectors: Embedding, stored: NDArray[Any]) -> Dataset:
    X = stored.astype(np.float64)
    if len(X) != 10662:
        raise DataMissing(
            f"{vectors.file} must have 10662 rows, got {len(X)}. Delete it and fetch it again."
        )
    if vectors.standardise:
        # Statistics of all rows: they need no label.
        X = scale(X)
    y = np.repeat([1, 0], 5331)
    # scikit-learn's binary C is ours at C/2.
    return Dataset("rt-polarity", X, y, _Random(y), Logistic(C=vectors.C / 2), vectors.source)


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


def _stored(path: Path) -> NDArray[Any]:
    try:
        return np.asarray(NpyFile(path))
    except BadInput as error:
        raise DataMissing(
            f"{path} could not be read ({error}). Delete it and fetch it again."
        ) from error


def _embedded(name: str, folder: Path, *, mean: bool = False) -> NDArray[Any]:
    texts, _ = sentences()
    compute = lambda: {"X": embed(texts, folder, mean=mean).astype(np.float16)}
    return cached(f"{name}/1", texts, compute)["X"]


def embed(texts: list[str], folder: Path, *, mean: bool = False) -> NDArray[Any]:
    """Return [CLS] vectors of the last layer of the BERT in `folder`, and with `mean` the tokens' mean."""
    if find_spec("transformers") is None:
        raise DataMissing(
            f"{folder} needs transformers, which is not installed. Run `pip install goalward[text]`."
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
            batch = [texts[i] for i in rows]
            tokens = tokenizer(batch, padding=True, truncation=True, return_tensors="pt")
            layer = model(**tokens).last_hidden_state
            vectors = layer[:, 0]
            if mean:
                mask = tokens["attention_mask"].unsqueeze(-1)
                vectors = torch.cat([vectors, (layer * mask).sum(1) / mask.sum(1)], dim=1)
            parts.append(vectors.numpy())
    return np.concatenate(parts)[np.argsort(order)]


def sentences() -> tuple[list[str], NDArray[Any]]:
    """Return rt-polarity's 10,662 snippets, positive first, and their labels 1 and 0."""
    texts: list[str] = []
    labels: list[int] = []
    for label, side in ((1, "pos"), (0, "neg")):
        path = checked(f"rt-polarity.{side}", DIGESTS[side], partial(_polarity_file, side))
        lines = path.read_text(encoding="utf-8").split("\n")
        texts += [line.strip() for line in lines if line.strip()]
        labels += [label] * (len(texts) - len(labels))
    return texts, np.array(labels)


def _polarity_file(side: str) -> bytes:
    name = f"rt-polaritydata/rt-polarity.{side}"
    with tarfile.open(fileobj=io.BytesIO(download(POLARITY))) as archive:
        member = archive.extractfile(name) if name in archive.getnames() else None
        if member is None:
            raise DataMissing(f"{POLARITY} has no file {name}. Fetch it by hand.")
        text = member.read().decode("windows-1252").replace("\r", "")
    return text.encode("utf-8")


def text(name: str) -> Dataset:
    """Return "subj" or "trec" as MiniLM vectors, computed once and kept in the per-user cache."""
    texts, y = labelled_texts(name)
    compute = lambda: {"X": Sentences.fit(texts, "minilm")[1]}
    try:
        X = cached("sentences/1/minilm", texts, compute)["X"].astype(np.float64)
    except MissingExtra as error:
        raise DataMissing(f"The vectors of {name} are not in the cache. {error}") from error
    return stratified(name, X, y, f"{name}, all-MiniLM-L6-v2 (384)")


def labelled_texts(name: str) -> tuple[list[str], NDArray[Any]]:
    """Return the sentences of subj or trec, and their labels."""
    path = checked(f"{name}.tsv", DIGESTS[name], partial(_labelled_lines, name))
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").split("\n") if line]
    return [row[1] for row in rows], np.array([row[0] for row in rows])


def _labelled_lines(name: str) -> bytes:
    """Return `label<TAB>text` lines, from `NAME.tsv.gz` or the public files."""
    packed = locate(f"{name}.tsv.gz")
    if packed is not None:
        return gzip.decompress(packed.read_bytes())
    lines = []
    for file in FILES[name]:
        for line in download(OTHERS + file).decode("latin-1").split("\n"):
            # "DESC:manner How did ..." in TREC's files; the label is the file in the others.
            label, words = line.split(" ", 1) if name == "trec" and line else (file[5:], line)
            if words.strip():
                lines.append(f"{label.split(':')[0]}\t{words.strip()}\n")
    return "".join(lines).encode()
