"""The samples that come with the package, made of the whole data: `GOALWARD_DATA=... python scripts/make_samples.py`.

What they are, whose, and under which terms: src/goalward/lab/datasets/samples/README.md. The same data
give the same files, but for the signs and last bits of the components, which linear algebra may choose.
"""

from pathlib import Path

import numpy as np
from sklearn.decomposition import PCA

from goalward.core.cores import one_blas_thread
from goalward.lab.datasets.load import load
from goalward.lab.datasets.tables import letter_table

SAMPLES = Path(__file__).parents[1] / "src" / "goalward" / "lab" / "datasets" / "samples"


def letter() -> np.ndarray:
    """Return 2,250 rows of LIBSVM's training part and 750 of its test part, in its order."""
    rng = np.random.default_rng(0)
    rows = [
        rng.choice(15_000, 2_250, replace=False),
        15_000 + rng.choice(5_000, 750, replace=False),
    ]
    return letter_table()[0][np.sort(np.concatenate(rows))]


def rt_polarity() -> np.ndarray:
    """Return 64 components of 1,000 positive sentences, then of 1,000 negative ones."""
    X = load("rt-polarity:minilm").X
    rng = np.random.default_rng(0)
    rows = [start + np.sort(rng.choice(5_331, 1_000, replace=False)) for start in (0, 5_331)]
    with one_blas_thread():
        components = PCA(64, svd_solver="covariance_eigh").fit(X)
    return components.transform(X[np.concatenate(rows)]).astype(np.float16)


if __name__ == "__main__":
    np.save(SAMPLES / "letter.u8.npy", letter())
    np.save(SAMPLES / "rt-polarity.f16.npy", rt_polarity())
