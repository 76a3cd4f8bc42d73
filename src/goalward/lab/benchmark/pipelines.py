"""Whole pipelines compared: which rows are labelled, and which model is fitted to them."""

import json
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from goalward.errors import BadParameter, MissingExtra
from goalward.lab.benchmark.sessions import MADE_BY, Protocol, mark_of, task_of
from goalward.lab.datasets import Dataset
from goalward.lab.parallel import Tell, resumed
from goalward.lab.plots import figure, quiet
from goalward.lab.session import Session
from goalward.lab.statistics import bootstrap, holm, signed_rank
from goalward.models.features import Linear
from goalward.models.logistic import Logistic
from goalward.strategies import recipe
from goalward.strategies.recipes import RECOMMENDED

CHECKS = (30, 60, 120, 200)
"""Labels after which models are tested; on a small pool the last check is at half of it."""
OURS, LINEAR = "ours", "ours, linear"
MODELS = ("extra trees", "random forest", "boosting", "rbf svc", "logistic cv")
"""scikit-learn's classifiers that a person would try; parameters are theirs unless said."""
OTHERS = {"tabpfn": "TabPFNClassifier", "tabicl": "TabICLClassifier"}
"""Classifiers whose weights must be on the machine already; only where they are named."""


def learner(name: str) -> Any:
    """Return our learner: features chosen at each fit, or one scale alone as before."""
    return Logistic(C="loo", features="auto" if name == OURS else [Linear(tame=True)])


def classifier(name: str, y: NDArray[Any], seed: int = 0) -> Any:
    """Return an unfitted classifier for labels y; C is chosen where each class has three labels."""
    fewest = int(np.unique(y, return_counts=True)[1].min())
    match name:
        case "extra trees":
            return ExtraTreesClassifier(random_state=seed)
        case "random forest":
            return RandomForestClassifier(random_state=seed)
        case "boosting":
            return HistGradientBoostingClassifier(random_state=seed)
        case "rbf svc":
            grid = {"C": [1.0, 10.0, 100.0]}
            return GridSearchCV(SVC(), grid, cv=3) if fewest >= 3 else SVC(C=10.0)
        case "logistic cv":
            chosen = LogisticRegressionCV(cv=3, max_iter=1000)
            return chosen if fewest >= 3 else LogisticRegression(max_iter=1000)
        case "tabpfn" | "tabicl":
            try:
                return getattr(import_module(name), OTHERS[name])(random_state=seed)
            except ImportError as error:
                raise MissingExtra(
                    f"{name} is not installed ({error}). Run `pip install {name}` where its weights are."
                ) from error
    raise BadParameter(f"A model must be one of {', '.join((*MODELS, *OTHERS))}, got {name!r}.")


def leads(model: Any, X: NDArray[Any]) -> NDArray[Any]:
    """Return how far the best class of each row is ahead of the second."""
    if hasattr(model, "predict_proba"):
        scores = model.predict_proba(X)
    else:
        scores = model.decision_function(X)
        if scores.ndim == 1:
            scores = np.column_stack([-scores, scores])
    second, first = np.sort(scores, axis=1)[:, -2:].T
    lead: NDArray[Any] = first - second
    return lead


Bought = Iterator[tuple[NDArray[Any], dict[str, Any]]]
"""Labelled rows, batch by batch, and the models by name that are fitted to them already."""


class Job(NamedTuple):
    """A session of one kind of rows: "hedged" (ours), "random", or the margin of a model."""

    dataset: str | Dataset
    rows: str
    models: tuple[str, ...]
    seed: int
    protocol: Protocol

    def key(self) -> str:
        facts = [MADE_BY, "pipelines 1", mark_of(self.dataset), self.rows, self.models, self.seed]
        return sha256(json.dumps([*facts, asdict(self.protocol)]).encode()).hexdigest()[:16]

    def play(self) -> dict[str, Any]:
        """Return the accuracy of every model at every check."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return {"lines": list(self.lines())}

    def lines(self) -> Iterator[dict[str, Any]]:
        task = task_of(self.dataset, self.protocol)
        split = self.protocol.split(task, self.seed)
        batch, budget = self.protocol.sizes(len(split.pool))
        checks = sorted({min(check, budget) for check in CHECKS})
        bought = self._ours if self.rows == RECOMMENDED else self._bought
        for spent, known in bought(task, split, batch, budget):
            for name in self.models if len(spent) in checks else ():
                model = known[name] if name in known else self._fitted(name, task, split, spent)
                right = float(np.mean(model.predict(task.X[split.test]) == task.y[split.test]))
                names = {"dataset": task.name, "rows": self.rows, "model": name, "seed": self.seed}
                yield {**names, "labels": len(spent), "accuracy": round(right, 4)}

    def _ours(self, task: Dataset, split: Any, batch: int, budget: int) -> Bought:
        own = replace(task, learner=learner(self.models[0]))
        session = Session(own, recipe(self.rows), self.seed, batch, budget, split)
        for step in session.steps():
            yield step.spent, {self.models[0]: step.model}

    def _bought(self, task: Dataset, split: Any, batch: int, budget: int) -> Bought:
        order = np.random.default_rng([self.seed, 31]).permutation(split.pool)
        spent, name = order[:batch], self.rows.removesuffix(" margin")
        while True:
            known = {}
            if name != "random":
                known[name] = fitted(name, task.X[spent], task.y[spent], self.seed)
            yield spent, known
            if len(spent) >= budget:
                return
            free = order[~np.isin(order, spent)]
            for model in known.values():
                free = free[np.argsort(leads(model, task.X[free]), kind="stable")]
            spent = np.concatenate([spent, free[: min(batch, budget - len(spent))]])

    def _fitted(self, name: str, task: Dataset, split: Any, spent: NDArray[Any]) -> Any:
        X, y = task.X[spent], task.y[spent]
        if name not in (OURS, LINEAR):
            return fitted(name, X, y, self.seed)
        own = Session(replace(task, learner=learner(name)), recipe("random"), parts=split)
        given: Any = {"classes": task.classes, "penalize_intercept": "until-seen"}
        return own.learner.having(**given).fit(X, y)


class Always:
    """The model of labels of a single class."""

    def __init__(self, label: Any) -> None:
        self.label = label

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        return np.full(len(X), self.label)

    def predict_proba(self, X: NDArray[Any]) -> NDArray[Any]:
        return np.full((len(X), 2), 0.5)


def fitted(name: str, X: NDArray[Any], y: NDArray[Any], seed: int) -> Any:
    """Return a classifier fitted to labelled rows."""
    if len(np.unique(y)) < 2:
        return Always(y[0])
    return classifier(name, y, seed).fit(X, y)


def jobs(
    datasets: Sequence[str | Dataset],
    models: Sequence[str] = MODELS,
    *,
    seeds: int = 5,
    protocol: Protocol | None = None,
) -> list[Job]:
    """Return the sessions of every pipeline, seed by seed: stopped early it has whole comparisons."""
    rules, all_jobs = protocol or Protocol(), []
    for seed in range(seeds):
        for data in datasets:
            all_jobs.append(Job(data, RECOMMENDED, (OURS, "extra trees"), seed, rules))
            all_jobs.append(Job(data, RECOMMENDED, (LINEAR,), seed, rules))
            all_jobs.append(Job(data, "random", (*models, OURS), seed, rules))
            all_jobs += [Job(data, f"{name} margin", (name,), seed, rules) for name in models]
    return all_jobs


@dataclass(frozen=True)
class Pipelines:
    """Accuracies in a `table`: a line for each dataset, pipeline, seed and number of labels."""

    table: pl.DataFrame = field(repr=False)

    def at(self, check: int) -> tuple[list[str], dict[str, NDArray[Any]]]:
        """Return the datasets, and each pipeline's mean accuracy on them, after so many labels or all."""
        capped = self.table.with_columns(
            pl.col("labels").max().over("dataset").clip(upper_bound=check).alias("check")
        ).filter(pl.col("labels") == pl.col("check"))
        # Its rows, then its model where that is not said yet.
        rows, both = pl.col("rows"), pl.col("rows") + ", " + pl.col("model")
        name = pl.when(rows.str.ends_with(" margin")).then(rows).otherwise(both)
        named = capped.with_columns(pipeline=name)
        wide = named.pivot(
            "pipeline", index="dataset", values="accuracy", aggregate_function="mean"
        )
        wide = wide.drop_nulls().sort("dataset")
        return wide["dataset"].to_list(), {name: wide[name].to_numpy() for name in wide.columns[1:]}

    def compared(self, check: int) -> list[dict[str, Any]]:
        """Return each pipeline beside ours: mean, difference with its interval, p (Holm), worst set."""
        datasets, means = self.at(check)
        ours = means.pop(f"{RECOMMENDED}, {OURS}")
        lines = []
        for name, theirs in means.items():
            gain = ours - theirs
            mean, low, high = bootstrap(gain)
            worst = int(gain.argmin())
            lines.append(
                {
                    **{"pipeline": name, "accuracy": float(theirs.mean()), "ours ahead by": mean},
                    **{"low": low, "high": high, "p": signed_rank(gain)},
                    **{"better on": int((gain > 0).sum()), "of": len(datasets)},
                    **{"worst": float(gain[worst]), "on": datasets[worst]},
                }
            )
        for line, p in zip(lines, holm(np.array([line["p"] for line in lines])), strict=True):
            line["p"] = float(p)
        return sorted(lines, key=lambda line: -line["accuracy"])


def play_pipelines(
    sessions: Sequence[Job], out: Path, n_jobs: int | None = None, progress: Tell = True
) -> Pipelines:
    """Return all accuracies; a killed run resumes from the finished sessions in `out`."""
    keyed = {job.key(): job for job in sessions}
    path = out / "pipelines.jsonl"
    done = resumed(Job.play, keyed, path, n_jobs=n_jobs, progress=progress, name="pipelines")
    found = Pipelines(pl.DataFrame([line for key in keyed for line in done[key]["lines"]]))
    found.table.write_csv(out / "pipelines.csv")
    return found


SHOWN = {
    f"{RECOMMENDED}, {OURS}": ("goalward", "#1f6fb4", "-"),
    f"{RECOMMENDED}, {LINEAR}": ("goalward, linear model", "#1f6fb4", ":"),
    "extra trees margin": ("extra trees, rows by its margin", "#d1495b", "-"),
    "random, extra trees": ("extra trees, random rows", "#d1495b", ":"),
    "random, random forest": ("random forest, random rows", "#2e8b57", ":"),
    "random, boosting": ("gradient boosting, random rows", "#e08e2b", ":"),
    "random, rbf svc": ("RBF-SVC, random rows", "0.35", ":"),
}
"""The pipelines of the figure: their names, colours and lines."""


def pipelines_figure(found: Pipelines) -> Any:
    """Draw the mean accuracy over datasets by the number of labels, a line for each pipeline."""
    fig = figure(7.2, 3.8)
    axes = fig.subplots()
    quiet(axes)
    means = {check: found.at(check)[1] for check in CHECKS}
    starts, ends = [], []
    for name, (title, colour, style) in SHOWN.items():
        if name in means[CHECKS[-1]]:
            heights = [100 * float(means[check][name].mean()) for check in CHECKS]
            wide = 2.2 if title == "goalward" else 1.4
            axes.plot(CHECKS, heights, color=colour, ls=style, lw=wide, marker="o", ms=3.5)
            starts.append(heights[0])
            ends.append((heights[-1], title, colour))
    # What starts far below the others would flatten all.
    axes.set_ylim(bottom=sorted(starts)[min(1, len(starts) - 1)] - 2.0)
    least, height = 0.055 * float(np.ptp(axes.get_ylim())), np.inf
    for value, title, colour in sorted(ends, reverse=True):
        height = min(value, height - least)  # names that would cover each other move down
        beside: Any = {"xytext": (6, 0), "textcoords": "offset points", "va": "center"}
        axes.annotate(title, (CHECKS[-1], height), color=colour, fontsize=9, **beside)
    sets = len(found.at(CHECKS[-1])[0])
    axes.set(xlabel="labels", ylabel=f"% right, mean of {sets} datasets", xticks=CHECKS)
    axes.set_xlim(CHECKS[0] - 8, CHECKS[-1] + 4)
    return fig
