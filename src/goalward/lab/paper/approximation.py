"""How well first order stands in for retraining: the data of the paper's first figures.

50 random labelled rows, 500 others as pool and as goal rows, the entropy goal, fixed C. Single
rows, and sliding windows of b rows under all their labelings.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from goalward.goals import DevLoss, Entropy, Fisher, Goal, Term
from goalward.goals.certainty import NegativeTrace
from goalward.lab.datasets import Dataset
from goalward.models import Fitted
from goalward.utility import FirstOrder, Retrain, Utility

__all__ = [
    "OPERATORS",
    "Agreement",
    "EqualNorms",
    "Setting",
    "agreement",
    "batches",
    "resolve",
    "serial",
    "setting",
]

OPERATORS = ("oracle", "average", "min", "max")


@dataclass(frozen=True, eq=False)
class EqualNorms(Fisher):
    """The Fisher goal with every ‖x‖² replaced by their mean: what is left without the norms."""

    def terms(self, fitted: Any) -> list[Term]:
        """Return the goal bound to a model."""
        (term,) = super().terms(fitted)
        assert isinstance(term.kernel, NegativeTrace)
        scale = np.asarray(term.kernel.scale)
        return [term._replace(kernel=NegativeTrace(np.full_like(scale, scale.mean())))]


@dataclass(frozen=True)
class Setting:
    """A fitted model, its pool with the true labels, and the goals measured on it."""

    fitted: Fitted = field(repr=False)
    X: NDArray[Any] = field(repr=False)
    codes: NDArray[Any] = field(repr=False)
    goals: dict[str, Goal] = field(repr=False)


def setting(
    dataset: Dataset, *, seed: int = 0, n_labelled: int = 50, n_pool: int = 500, n_dev: int = 100
) -> Setting:
    """Return the paper's setting on a random part of `dataset`."""
    rng = np.random.default_rng([seed, 4])
    order = rng.permutation(len(dataset.y))
    n_pool = min(n_pool, len(order) - n_labelled - n_dev)
    train, pool, dev = np.split(
        order[: n_labelled + n_pool + n_dev], [n_labelled, n_labelled + n_pool]
    )
    fitted = dataset.learner.fit(dataset.X[train], dataset.y[train])
    X = dataset.X[pool]
    codes = np.searchsorted(fitted.classes, dataset.y[pool])
    goals: dict[str, Goal] = {
        "entropy": Entropy(X),
        "fisher": Fisher(X),
        "fisher, equal norms": EqualNorms(X),
        "dev": DevLoss(dataset.X[dev], dataset.y[dev]),
    }
    return Setting(fitted, X, codes, goals)


def resolve(utility: NDArray[Any], true: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return utilities per (row, labeling) resolved by the paper's four operators.

    Parameters
    ----------
    true
        The index of the true labeling of each row.
    """
    return {
        "oracle": utility[np.arange(len(utility)), true],
        "average": utility.mean(axis=1),
        "min": utility.min(axis=1),
        "max": utility.max(axis=1),
    }


def serial(task: Setting, goal: str = "entropy") -> tuple[NDArray[Any], NDArray[Any]]:
    """Return retrained and approximate utilities of single rows, (rows, labels)."""
    exact, cheap = (
        utility(task.fitted, task.goals[goal], task.X) for utility in (Retrain(), FirstOrder())
    )
    return exact, cheap


def batches(
    task: Setting, size: int = 10, goal: str = "entropy", *, n_jobs: int | None = None
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return retrained and approximate utilities of sliding windows, and the true labelings.

    (windows, K**size) each, and the index of each window's true labeling.
    """
    count = len(task.X) - size + 1
    windows = np.lib.stride_tricks.sliding_window_view(task.X, size, axis=0)
    windows = np.ascontiguousarray(windows.transpose(0, 2, 1))
    utilities: tuple[Utility, ...] = (Retrain(n_jobs=n_jobs), FirstOrder())
    exact, cheap = (u.batch(task.fitted, task.goals[goal], windows) for u in utilities)
    K = task.fitted.n_classes
    place = K ** np.arange(size - 1, -1, -1)
    labels = np.lib.stride_tricks.sliding_window_view(task.codes, size)
    assert labels.shape == (count, size)
    return exact, cheap, labels @ place


def chances(task: Setting, size: int) -> NDArray[Any]:
    """Return P(Y) = ∏ P(y) of every labeling of every window, (windows, K**size)."""
    p = np.asarray(task.fitted.predict_proba(task.X))
    windows = np.lib.stride_tricks.sliding_window_view(p, size, axis=0).transpose(0, 2, 1)
    total = np.ones((len(windows), 1))
    for j in range(size):
        total = (total[:, :, None] * windows[:, j, None, :]).reshape(len(windows), -1)
    return total


@dataclass(frozen=True)
class Agreement:
    """How approximate utilities compare with retrained ones.

    Parameters
    ----------
    pearson, spearman
        Correlations.
    slope
        Of retrained on approximate utilities; below 1 the approximation over-estimates.
    error
        Median of |approximate - retrained| over the median |retrained|.
    """

    pearson: float
    spearman: float
    slope: float
    error: float


def agreement(exact: NDArray[Any], cheap: NDArray[Any]) -> Agreement:
    """Return the agreement of two sets of utilities."""
    slope = float(np.polyfit(cheap, exact, 1)[0])
    error = float(np.median(np.abs(cheap - exact)) / np.median(np.abs(exact)))
    pearson = float(np.corrcoef(exact, cheap)[0, 1])
    return Agreement(pearson, float(spearmanr(exact, cheap).statistic), slope, error)
