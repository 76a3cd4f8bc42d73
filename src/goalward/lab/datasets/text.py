"""Sentences with labels, as the vectors that `goalward label --embeddings minilm` computes.

Subjectivity: B. Pang and L. Lee, A sentimental education, ACL 2004. TREC's questions: X. Li and
D. Roth, Learning question classifiers, COLING 2002; their six coarse classes, training and test
part together.
"""

from __future__ import annotations

import gzip
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.errors import DataMissing, MissingExtra
from goalward.lab.datasets.dataset import Dataset, stratified
from goalward.lab.datasets.fetch import checked, download, locate
from goalward.studio.tables.cache import cached
from goalward.studio.tables.encoder import silent
from goalward.studio.tables.words import sentences

__all__ = ["labelled_texts", "text"]

HOME = "https://raw.githubusercontent.com/harvardnlp/sent-conv-torch/"
COMMIT = "d61ded09c99c0199d8c5bca946cd65864de2b296"
DIGESTS = {
    "subj": "3760820b24c5a5ff021875e6fec95f0a512b6c81d8301f0ad1a27e53d6410995",
    "trec": "66b330b7eb7fea5b2784134a5b07f7ce8c1c15bb139c568c9e9b111c67dfaf4e",
}
FILES = {"subj": ("subj.objective", "subj.subjective"), "trec": ("TREC.train", "TREC.test")}


def text(name: str) -> Dataset:
    """Return "subj" or "trec" as MiniLM vectors of root mean square length 1, with a study's C = 1.

    They are computed once, which takes minutes, and kept in the per-user cache.
    """
    texts, y = labelled_texts(name)
    try:
        X = cached("sentences/1/minilm", texts, lambda: sentences(texts, "minilm", silent))
    except MissingExtra as error:
        raise DataMissing(f"The vectors of {name} are not in the cache. {error}") from error
    return stratified(name, X.astype(np.float64), y, f"{name}, all-MiniLM-L6-v2 (384)")


def labelled_texts(name: str) -> tuple[list[str], NDArray[Any]]:
    """Return the sentences of a set and their labels."""
    path = checked(f"{name}.tsv", DIGESTS[name], partial(_lines, name))
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").split("\n") if line]
    return [row[1] for row in rows], np.array([row[0] for row in rows])


def _lines(name: str) -> bytes:
    """Return `label<TAB>text` lines, from `NAME.tsv.gz` or the public files."""
    packed = locate(f"{name}.tsv.gz")
    if packed is not None:
        return gzip.decompress(packed.read_bytes())
    lines = []
    for file in FILES[name]:
        for line in download(f"{HOME}{COMMIT}/data/raw/{file}").decode("latin-1").split("\n"):
            # "DESC:manner How did ..." in TREC's files; the label is the file in the others.
            label, words = line.split(" ", 1) if name == "trec" and line else (file[5:], line)
            if words.strip():
                lines.append(f"{label.split(':')[0]}\t{words.strip()}\n")
    return "".join(lines).encode()
