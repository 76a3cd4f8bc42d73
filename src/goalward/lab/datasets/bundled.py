"""Data that scikit-learn carries: always there, no network."""

from __future__ import annotations

from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.preprocessing import scale

from goalward.lab.datasets.dataset import Dataset, Stratified
from goalward.learners import Logistic

__all__ = ["breast_cancer", "digits", "digits_3v8", "wine"]


def digits() -> Dataset:
    """Return the 1,797 handwritten digits, 8 x 8 grey levels in [0, 1]."""
    X, y = load_digits(return_X_y=True)
    split = Stratified(y, per_class=2, test=0.25)
    return Dataset("digits", X / 16.0, y, split, Logistic(C=1.0), "scikit-learn load_digits")


def digits_3v8() -> Dataset:
    """Return the digits 3 against 8: two classes that are easily confused."""
    X, y = load_digits(return_X_y=True)
    keep = (y == 3) | (y == 8)
    X, y = X[keep] / 16.0, y[keep]
    split = Stratified(y, per_class=5, test=0.25)
    source = "scikit-learn load_digits, 3 against 8"
    return Dataset("digits-3v8", X, y, split, Logistic(C=0.05), source)


def breast_cancer() -> Dataset:
    """Return the Wisconsin diagnostic breast cancer data, z-scored."""
    X, y = load_breast_cancer(return_X_y=True)
    split = Stratified(y, per_class=5, test=0.25)
    source = "scikit-learn load_breast_cancer, z-scored"
    return Dataset("breast-cancer", scale(X), y, split, Logistic(C=0.5), source)


def wine() -> Dataset:
    """Return the wine recognition data, z-scored."""
    X, y = load_wine(return_X_y=True)
    split = Stratified(y, per_class=2, test=0.25)
    source = "scikit-learn load_wine, z-scored"
    return Dataset("wine", scale(X), y, split, Logistic(C=1.0), source)
