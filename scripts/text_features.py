"""What a sentence encoder is worth: right answers on rt-polarity, by TF-IDF and by MiniLM vectors.

python scripts/text_features.py          # GOALWARD_DATA as for `goalward simulate rt-polarity`
"""

import numpy as np

import goalward as gw
from goalward.lab.datasets.rt_polarity import sentences
from goalward.studio.tables.encoder import silent
from goalward.studio.tables.words import Sentences, Words

LABELS = (30, 60, 100, 200, 300, 400, 600)
SEEDS = 10


def main():
    texts, y = sentences()
    vectors = {
        "TF-IDF": Words.fitted(texts, silent)[1],
        "MiniLM": Sentences.fitted(texts, "minilm", silent)[1],
    }
    print("| random labels |", " | ".join(map(str, LABELS)), "|")
    print("|---" * (1 + len(LABELS)) + "|")
    for name, X in vectors.items():
        right = np.zeros((SEEDS, len(LABELS)))
        for seed in range(SEEDS):
            order = np.random.default_rng(seed).permutation(len(y))
            test = order[-2000:]
            for place, n in enumerate(LABELS):
                fitted = gw.Logistic(C="loo").fit(X[order[:n]], y[order[:n]])
                right[seed, place] = np.mean(fitted.predict(X[test]) == y[test])
        print(f"| {name} |", " | ".join(f"{value:.3f}" for value in right.mean(axis=0)), "|")


if __name__ == "__main__":
    main()
