"""What is played: who takes part, on which data, by which rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import PowerTransformer

from goalward.errors import BadParameter
from goalward.goals import LeaveOneOut
from goalward.lab.datasets import Dataset, Split
from goalward.lab.datasets.collection import CONFIRM, DESIGN, FACTORS
from goalward.lab.statistics import height
from goalward.models import Fitted
from goalward.models.logistic import Logistic
from goalward.strategies import recipe
from goalward.strategies.recipes import RECOMMENDED

__all__ = [
    "FACTOR_NAMES",
    "FULL",
    "PARTS",
    "PROTOCOLS",
    "STRATEGIES",
    "ChosenC",
    "Job",
    "Part",
    "Protocol",
    "is_oracle",
]


@dataclass(frozen=True)
class Protocol:
    """How a session is played: from no label at all, every label charged.

    Parameters
    ----------
    name
        What its results are called; it changes nothing.
    budget
        Labels bought; at most half of the pool.
    batch
        Labels per round; at most half of the budget.
    noise
        Probability that an answer names another class.
    learner
        "fixed": the dataset's own, its C fixed. "chosen": `ChosenC`, on transformed features.
    pool, test
        At most so many rows, drawn by the seed, may be asked for and measure.
    """

    name: str = "full"
    budget: int = 200
    batch: int = 10
    noise: float = 0.0
    learner: str = "fixed"
    pool: int = 2000
    test: int = 2000

    def __post_init__(self) -> None:
        for name in ("budget", "batch", "pool", "test"):
            if getattr(self, name) < 1:
                raise BadParameter(
                    f"{name}={getattr(self, name)}; at least 1 was expected. Give more."
                )
        if self.learner not in ("fixed", "chosen"):
            raise BadParameter(
                f"learner={self.learner!r}; 'fixed' or 'chosen' was expected. Use 'fixed'."
            )

    def sizes(self, n_pool: int) -> tuple[int, int]:
        """Return batch and budget for a pool, whole batches."""
        budget = min(self.budget, n_pool // 2)
        batch = min(self.batch, budget // 2)
        if batch < 1:
            raise BadParameter(
                f"A budget of {self.budget} labels came for a pool of {n_pool} rows; two batches at least, "
                "and not more than half of the pool, were expected. Raise the budget or take more rows."
            )
        return batch, budget // batch * batch

    def conditions(self, dataset: Dataset) -> Dataset:
        """Return the task as it is played."""
        if self.learner == "chosen":
            params = dataset.learner.get_params(deep=False)
            dataset = replace(dataset, X=_transformed(dataset.X), learner=ChosenC(**params))
        return dataset.under(from_nothing=True, noise=self.noise)

    def split(self, dataset: Dataset, seed: int) -> Split:
        """Return the rows of a seed."""
        whole = dataset.split(seed)
        rng = np.random.default_rng([seed, 8])
        pool = np.sort(rng.permutation(whole.pool)[: self.pool])
        test = np.sort(rng.permutation(whole.test)[: self.test])
        return Split(whole.init, pool, test, whole.dev[:0])

    def area(self, curves: NDArray[Any]) -> NDArray[Any]:
        """Return the areas under curves, their last axis, over labels bought."""
        return height(curves)


def _transformed(X: Any) -> Any:
    """Return features made as normal as a power of each can make them, scaled; no label is needed."""
    rows = np.random.default_rng(9).permutation(len(X))[:300]
    return PowerTransformer().fit(X[rows]).transform(X)


class ChosenC(Logistic):
    """Softmax regression whose C is chosen at each fit, by approximate leave-one-out.

    Examples
    --------
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1]
    >>> ChosenC().fit(X, y).C
    0.01
    """

    def fit(
        self, X: object, y: Any, *, sample_weight: object = None, start: Fitted | None = None
    ) -> Fitted:
        """Return the model, of those with C from 0.01 to 10, that predicts left-out rows best."""
        fits = []
        for C in (0.01, 0.1, 1.0, 10.0) if len(set(y)) > 1 else (self.C,):
            one = Logistic(**(self.get_params() | {"C": C}))
            start = one.fit(X, y, sample_weight=sample_weight, start=start)
            fits.append(start)
        return max(fits, key=LeaveOneOut().value) if len(fits) > 1 else fits[0]


PROTOCOLS = {
    one.name: one
    for one in (
        Protocol(),
        Protocol("budget-50", budget=50),
        Protocol("budget-1000", budget=1000),
        Protocol("batch-1", batch=1),
        Protocol("batch-50", batch=50),
        Protocol("flipped-10", noise=0.1),
        Protocol("flipped-20", noise=0.2),
        Protocol("second-learner", learner="chosen"),
    )
}
"""The main rules, and others that differ from them in one thing."""

RIVALS = (RECOMMENDED, "coverage", "margin", "badge", "random")
"""Who takes part where one thing is different: those that are quick, one label at a time too."""
STRATEGIES = (
    *(*RIVALS, "bait", "bait-backward", "decision-risk", "max-herding", "refine", "typiclust"),
    *("tcm", "core-set", "entropy", "epig", "bald"),
)
"""Who takes part. `coverage` is Uncertainty Herding."""
ORACLE = "boss"


def is_oracle(strategy: str) -> bool:
    """Return whether a strategy is told the true labels: a ceiling, out of competition."""
    return "truth" in recipe(strategy).needs


class Job(NamedTuple):
    """One session."""

    protocol: Protocol
    dataset: str | Dataset
    strategy: str
    seed: int

    @property
    def name(self) -> str:
        """What its dataset is called in results."""
        return self.dataset if isinstance(self.dataset, str) else self.dataset.name


@dataclass(frozen=True)
class Part:
    """Some strategies on some data under some protocols."""

    datasets: Sequence[str | Dataset]
    strategies: Sequence[str] = STRATEGIES
    protocols: Sequence[Protocol] = (PROTOCOLS["full"],)
    seeds: int = 4

    def jobs(self) -> list[Job]:
        """Return its sessions, each once, seed by seed: stopped early it has whole comparisons."""
        if not min(self.seeds, len(self.datasets), len(self.strategies)) > 0:
            raise BadParameter(
                f"{len(self.datasets)} datasets, {len(self.strategies)} strategies and {self.seeds} "
                "seeds came; at least 1 of each was expected. Name more."
            )
        for name in self.strategies:
            if "dev" in recipe(name).needs:
                raise BadParameter(
                    f"{name!r} needs dev labels, which the benchmark does not give; a strategy without them "
                    "was expected. `goalward simulate` charges them."
                )
        names = [one if isinstance(one, str) else one.name for one in self.datasets]
        twice = [
            one for one in self.datasets if not isinstance(one, str) and names.count(one.name) > 1
        ]
        if twice:
            raise BadParameter(
                f"Two datasets are called {twice[0].name!r}; each by a name of its own was expected. Use "
                "gw.lab.datasets.from_arrays(X, y, name='mine')."
            )
        jobs = [
            Job(protocol, dataset, strategy, seed)
            for seed in range(self.seeds)
            for protocol in self.protocols
            for dataset in self.datasets
            for strategy in self.strategies
        ]
        return list(dict.fromkeys(jobs))


FACTOR_NAMES = tuple(PROTOCOLS)[1:]
PARTS = {
    "design": Part(DESIGN),
    "confirm": Part(CONFIRM),
    "factors": Part(FACTORS, RIVALS, [PROTOCOLS[name] for name in FACTOR_NAMES], seeds=2),
    # The oracle is dear; the sessions of the others are those of the main run.
    "ceiling": Part(FACTORS, (*RIVALS, ORACLE), [Protocol("ceiling")], seeds=2),
    "quick": Part(
        DESIGN[::2], (*STRATEGIES, ORACLE), [Protocol(budget=100, pool=1000, test=1000)], seeds=2
    ),
}
"""What can be asked for. The sets of "confirm" are kept back until a recipe is fixed."""
FULL = ("design", "confirm", "factors", "ceiling")
"""The parts of a full run."""
