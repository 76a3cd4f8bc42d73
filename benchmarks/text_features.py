"""What a sentence encoder is worth: `python benchmarks/text_features.py`.

Right answers on rt-polarity, by TF-IDF and by MiniLM vectors; GOALWARD_DATA as for `goalward simulate
rt-polarity`.
"""

import numpy as np
import typer

import goalward as gw
from goalward.lab.datasets import sentences
from goalward.studio.tables.embeddings import Sentences, Tfidf
from pages import tracked

LABELS = (30, 60, 100, 200, 300, 400, 600)


def accuracies(X: np.ndarray, y: np.ndarray, seeds: int) -> np.ndarray:
    """Return the share of 2,000 test rows that is right, by the number of random labels."""
    right = np.zeros((seeds, len(LABELS)))
    for seed in tracked(range(seeds), "seeds"):
        order = np.random.default_rng(seed).permutation(len(y))
        test = order[-2000:]
        for place, n in enumerate(LABELS):
            fitted = gw.Logistic(C="loo").fit(X[order[:n]], y[order[:n]])
            right[seed, place] = np.mean(fitted.predict(X[test]) == y[test])
    return right.mean(axis=0)


def main(seeds: int = 10) -> None:
    """Print the accuracy on rt-polarity by TF-IDF and by MiniLM vectors."""
    texts, y = sentences()
    vectors = {
        "TF-IDF": Tfidf.fit(texts)[1],
        "MiniLM": Sentences.fit(texts, "minilm")[1],
    }
    print("| random labels |", " | ".join(map(str, LABELS)), "|")
    print("|---" * (1 + len(LABELS)) + "|")
    for name, X in vectors.items():
        print(f"| {name} |", " | ".join(f"{v:.3f}" for v in accuracies(X, y, seeds)), "|")


if __name__ == "__main__":
    typer.run(main)
