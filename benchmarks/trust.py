"""What studies report beside what is true: `python benchmarks/trust.py --seeds 2 --budget 300`.

A study reports how good its model is, with an interval, and when one could stop. Sessions of the
recommended strategy are played as a study would be, with and without a tenth of the answers kept to
measure, and what the page would say after every round is written beside the truth. For several labels
and for numbers, studies themselves are played.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import typer
from numpy.typing import NDArray
from sklearn.metrics import f1_score, r2_score
from typer import Argument, Option

from goalward.cli.console import console, in_json, show
from goalward.core.arrays import to_numpy
from goalward.errors import BadParameter
from goalward.lab.benchmark import Protocol
from goalward.lab.datasets import Dataset, Split, load
from goalward.lab.parallel import Tell, resumed
from goalward.lab.session import Session, Step
from goalward.models import Fitted
from goalward.models.fitted import left_out
from goalward.models.logistic import Logistic
from goalward.models.multi_label import MultiLabel
from goalward.models.ridge import Ridge
from goalward.strategies import recipe
from goalward.strategies.recipes import RECOMMENDED
from goalward.studio.stopping import AHEAD, ANSWERS, PRICE, Snapshot, gain_below_price, next_gain
from goalward.studio.study import Study
from goalward.studio.study.answers import LeftOut
from goalward.studio.study.kind import measured_classes
from goalward.studio.study.rounds import StudyRound
from goalward.studio.study.settings import DEV
from tasks import PARTS, task_rows

DATASETS = (
    *("letter", "ringnorm", "banana", "magic", "marketing", "penbased", "phoneme", "satimage"),
    *("segment", "spambase", "texture", "twonorm", "vehicle", "vowel", "contraceptive"),
    *("mammographic", "chess", "mushroom", "splice", "german", "tic-tac-toe", "flare-F", "yeast3"),
    *("abalone-17_vs_7-8-9-10", "car-good", "kddcup-guess_passwd_vs_satan"),
    *("kr-vs-k-zero-one_vs_draw", "page-blocks0", "shuttle-c0-vs-c4", "winequality-red-4"),
    *("rt-polarity:minilm", "subj", "trec", "digits", "mnist", "fashion-mnist"),
)
"""All sets of the benchmark with 800 rows or more."""
LEAST = 400
"""Rows of a table of several labels or numbers, so that there are enough answers to play for."""
STOP_ROWS = 1000
POOL, TEST = 2000, 1000
"""Rows of a study of several labels or numbers at most, and of those that it never has."""
STEP = 10
"""Answers between two rankings."""
POINTS = 0.02
"""The gain that must still be to be had for a word to stop to be wrong."""


class Round(NamedTuple):
    """What a study would report after a round, beside the truth.

    Parameters
    ----------
    kept
        Whether a tenth of the answers is kept to measure.
    answers
        All that were given; `labels` of them train the model.
    truth, value, low, high
        Accuracy (macro-F1, R²) on all rows without an answer, and what is shown, the ends in whole
        percents; None where nothing is.
    curve
        The same on rows that are never asked in the whole session: the same in every round.
    most
        The upper end of the gain that is reported for the next 100 answers.
    stop
        Whether it says that one could stop.
    """

    kept: bool
    answers: int
    labels: int
    truth: float
    value: float | None
    low: float | None
    high: float | None
    curve: float
    most: float | None
    stop: bool


def advice(
    datasets: Sequence[str] | None = None,
    *,
    task: str = "class",
    seeds: int = 3,
    budget: int = 400,
    out: Path,
    n_jobs: int | None = None,
    progress: Tell = True,
) -> pl.DataFrame:
    """Return one line per dataset, seed, share of answers kept to measure, and round.

    Parameters
    ----------
    datasets
        All that are large enough by default.
    task
        "class"; "labels" or "numbers", on sets of tasks.py.
    budget
        Labels that train; at most four fifths of the pool.
    out
        Folder: a finished session is a line of its `advice.jsonl`, so a killed run resumes from it.
    """
    if task not in ("class", *PARTS):
        raise BadParameter(f"task must be one of class, {', '.join(PARTS)}, got {task!r}.")
    names = datasets or DATASETS
    if task != "class" and not datasets:
        sets = PARTS[task].get("design", PARTS[task]["all"])
        names = [name for name in sets if len(task_rows(task, name)[0]) >= LEAST]
    jobs = {
        f"{task} {name} {seed} {budget}": (task, name, seed, budget)
        for seed in range(seeds)
        for name in names
    }
    path = out / "advice.jsonl"
    done = resumed(_played, jobs, path, n_jobs=n_jobs, progress=progress, name="trust")
    lines = [
        {"dataset": name, "seed": seed, **dict(zip(Round._fields, line, strict=True))}
        for key, (_, name, seed, _) in jobs.items()
        for line in done[key]["rounds"]
    ]
    return pl.DataFrame(lines, infer_schema_length=None)


def _played(job: tuple[str, str, int, int]) -> dict[str, Any]:
    """Return the rounds of one session, without answers that measure and with them."""
    task, name, seed, budget = job
    if task == "class":
        return {"rounds": [list(line) for line in _session(name, seed, budget)]}
    studies = (_study(task, name, seed, budget, kept) for kept in (False, True))
    return {"rounds": [list(line) for study in studies for line in study]}


def _session(name: str, seed: int, budget: int) -> Iterator[Round]:
    """Yield the rounds of a session of classes."""
    protocol = Protocol(budget=budget)
    # What new studies learn with.
    task = protocol.conditions(replace(load(name), learner=Logistic(C="loo", features="auto")))
    whole = protocol.split(task, seed)
    # As in a study: rows that measure are drawn at random and never asked for training.
    drawn = np.random.default_rng([seed, 21]).permutation(whole.pool)
    dev, pool = drawn[: len(drawn) // 10], np.sort(drawn[len(drawn) // 10 :])
    size = min(budget, len(pool) * 4 // 5) // 10 * 10
    split = Split(whole.init, pool, whole.test, whole.dev)
    steps = list(Session(task, recipe(RECOMMENDED), seed, 10, size, split).steps())
    steps = [step for step in steps if len(np.unique(task.y[step.spent])) > 1]
    for kept in (False, True):
        yield from _reported(task, split, dev, steps, kept)


def _reported(
    task: Dataset, split: Split, dev: NDArray[Any], steps: list[Step], kept: bool
) -> Iterator[Round]:
    """Yield what a study would report after each step."""
    never = np.concatenate([split.test, np.setdiff1d(split.pool, steps[-1].spent)])
    rows = np.concatenate([split.pool, dev])
    stop_rows = np.random.default_rng(11).permutation(rows)[:STOP_ROWS]
    codes = np.searchsorted(task.classes, task.y)
    snapshots: list[Snapshot] = []
    for step in steps:
        labels = len(step.spent)
        random = dev[: round(labels * DEV / (1 - DEV))] if kept else dev[:0]
        answered = np.concatenate([step.spent, random])
        predicted = partial(_predicted, task, step.model)
        left_out_proba = to_numpy(step.model.loss.proba(left_out(step.model)))
        answers = LeftOut(
            rows=answered,
            truth=codes[answered],
            proba=np.concatenate([left_out_proba, *([predicted(random)] if len(random) else [])]),
            chosen=np.arange(len(answered)) < labels,
        )
        rest, shown = np.setdiff1d(rows, answered), predicted(stop_rows)
        estimate = measured_classes(answers, shown[np.isin(stop_rows, rest)], len(rest))
        counts = np.bincount(answers.truth, minlength=len(task.classes))
        snapshots.append(
            Snapshot(
                labels=labels,
                bought=len(answered),
                least=int(counts.min()),
                low=estimate.low if estimate else None,
                predicted=tuple(shown.argmax(axis=1).tolist()),
            )
        )
        gain = next_gain(snapshots)
        yield Round(
            kept=kept,
            answers=len(answered),
            labels=labels,
            truth=float(np.mean(predicted(rest).argmax(axis=1) == codes[rest])),
            value=estimate.value if estimate else None,
            low=math.floor(100 * estimate.low) / 100 if estimate else None,
            high=math.ceil(100 * estimate.high) / 100 if estimate else None,
            curve=float(np.mean(predicted(never).argmax(axis=1) == codes[never])),
            most=gain.high if gain else None,
            stop=bool(gain_below_price(snapshots, price=PRICE).stop),
        )


def _predicted(task: Dataset, model: Fitted, rows: NDArray[Any]) -> NDArray[Any]:
    return to_numpy(model.predict_proba(task.X[rows]))


def _study(task: str, name: str, seed: int, budget: int, kept: bool) -> Iterator[Round]:
    """Yield what a study of several labels or of numbers reports after every 10 answers."""
    X, y = task_rows(task, name)
    order = np.random.default_rng([17, seed]).permutation(len(X))
    cut = min(TEST, len(X) // 4)
    test, pool = order[:cut], order[cut : cut + POOL]
    names = [f"label {k}" for k in range(y.shape[1])] if task == "labels" else ["number"]
    learner = MultiLabel() if task == "labels" else Ridge()
    size = min(budget, len(pool) * 7 // 10) // STEP * STEP
    options: Any = {"classes": names, "learner": learner, "dev": DEV * kept, "seed": seed}
    rounds: list[tuple[Fitted, Round]] = []
    with (
        TemporaryDirectory() as folder,
        Study.create(Path(folder) / "played.db", pool=X[pool], **options) as study,
    ):
        for _ in range(size // STEP):
            for row in study.ask(STEP, refresh=False):
                study.tell(row, _answer(task, names, y[pool[row]]))
            if study.refresh() is None:
                continue
            state, status = study.state, study.status()
            model = StudyRound(state, study.pool).fitted
            rest = np.concatenate([test, np.delete(pool, list(state.labels))])
            line = Round(
                kept=kept,
                answers=state.n_labels,
                labels=state.n_training,
                truth=_score(task, model, X[rest], y[rest]),
                value=status["accuracy"]["value"],
                low=math.floor(100 * status["accuracy"]["low"]) / 100,
                high=math.ceil(100 * status["accuracy"]["high"]) / 100,
                curve=math.nan,
                most=study.stop().high,
                stop="You could stop" in status["headline"],
            )
            rounds.append((model, line))
        never = np.concatenate([test, np.delete(pool, list(study.state.labels))])
    for model, line in rounds:
        yield line._replace(curve=_score(task, model, X[never], y[never]))


def _answer(task: str, names: list[str], values: NDArray[Any]) -> Any:
    if task == "numbers":
        return float(values[0])
    return {name for name, holds in zip(names, values, strict=True) if holds}


def _score(task: str, model: Fitted, X: NDArray[Any], y: NDArray[Any]) -> float:
    predicted = to_numpy(model.predict_proba(X)).reshape(y.shape)
    if task == "numbers":
        return float(r2_score(y, predicted))
    return float(f1_score(y > 0.5, predicted > 0.5, average="macro", zero_division=0.0))


def advice_summary(rounds: pl.DataFrame) -> pl.DataFrame:
    """Return one line per dataset and share of answers kept, and one over all datasets.

    `said` is the share of rounds from 30 answers on that show an accuracy, `held` the share of these
    whose interval held the truth, `width` its mean width at 100 answers and `off` the mean distance
    of the value from the truth. Of the `runs`, `stopped` said stop and `wrong` of them while 2 points
    or more were still to be had within the next 100 answers. `ended` are those whose gain was seen to
    end with 100 answers to spare; `in_time` of them said stop within these. `at` is the mean number of
    answers at the stop. `told` is the mean of the largest gain reported for the next 100 answers,
    `came` the gain that came, and `within` the share of rounds in which it was no more than that.
    """
    shown = rounds.filter(pl.col("answers") >= ANSWERS).with_columns(
        held=pl.col("truth").is_between(pl.col("low") - 1e-9, pl.col("high") + 1e-9),
        wide=pl.col("high") - pl.col("low"),
        off=(pl.col("value") - pl.col("truth")).abs(),
    )
    keys = ["dataset", "kept"]
    said = shown.group_by(keys, maintain_order=True).agg(
        pl.col("value").is_not_null().mean().alias("said"),
        pl.col("held").mean(),
        pl.col("wide").filter(pl.col("answers") == AHEAD).mean().alias("width"),
        pl.col("off").mean(),
    )
    runs = [
        {"dataset": name, "kept": kept, **_run(part.sort("labels"))}
        for (name, kept, _), part in rounds.group_by([*keys, "seed"], maintain_order=True)
    ]
    stops = pl.DataFrame(runs, infer_schema_length=None).group_by(keys, maintain_order=True)
    counted = ("stopped", "wrong", "ended", "in_time")
    ends = stops.agg(
        pl.len().alias("runs"),
        pl.col(counted).sum(),
        pl.col("at", "told", "came", "within").mean(),
    )
    table = said.join(ends, on=keys, maintain_order="left")
    whole = table.group_by("kept", maintain_order=True).agg(
        pl.lit("all").alias("dataset"),
        pl.col("said", "held", "width", "off", "at", "told", "came", "within").mean(),
        pl.col("runs", *counted).sum(),
    )
    both = pl.concat([table, whole.select(table.columns)]).sort("kept", maintain_order=True)
    return both.with_columns(pl.col(pl.Float64).round(4))


def _run(part: pl.DataFrame) -> dict[str, Any]:
    """Return when a session said stop, whether that was true, and what was told of gains."""
    curve, stop = part["curve"].to_numpy(), part["stop"].to_numpy()
    answers, told = part["answers"].to_numpy(), part["most"].to_list()
    padded = np.concatenate([curve[:1], curve, curve[-1:]])
    smooth = (padded[:-2] + padded[1:-1] + padded[2:]) / 3.0
    ahead = round(AHEAD / float(np.median(np.diff(answers)))) if len(answers) > 1 else 1
    known = len(curve) - ahead
    left = np.array([smooth[i : i + ahead + 1].max() - smooth[i] for i in range(max(known, 0))])
    rising = np.flatnonzero(left >= POINTS)
    end = int(rising[-1]) + 1 if len(rising) else 0
    end_at = max(int(answers[min(end, len(answers) - 1)]), ANSWERS)
    ended = bool(end < known and end_at + AHEAD <= answers[-1])
    at = int(np.argmax(stop)) if stop.any() else None
    gains = [
        (told[i], smooth[i + ahead] - smooth[i])
        for i in range(max(known, 0))
        if told[i] is not None and answers[i] >= ANSWERS
    ]
    return {
        "stopped": at is not None,
        "wrong": at is not None and at < known and bool(left[at] >= POINTS),
        "ended": ended,
        "in_time": ended and at is not None and bool(answers[at] <= end_at + AHEAD),
        "at": None if at is None else int(answers[at]),
        "told": float(np.mean([a for a, _ in gains])) if gains else None,
        "came": float(np.mean([b for _, b in gains])) if gains else None,
        "within": float(np.mean([b <= a for a, b in gains])) if gains else None,
    }


def in_markdown(summary: pl.DataFrame, *, kept: bool) -> str:
    """Return the table of a page."""
    lines = [
        "| dataset | accuracy said | interval held the truth | width at 100 answers | off by | runs | "
        "said stop | wrongly | in time | answers then | gain, at most | gain that came | no more came |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in summary.filter(pl.col("kept") == kept).iter_rows(named=True):
        name = "**all**" if r["dataset"] == "all" else r["dataset"]
        at = "-" if r["at"] is None else f"{r['at']:.0f}"
        lines.append(
            f"| {name} | {r['said']:.0%} | {_share(r['held'])} | {_points(r['width'])} | {_points(r['off'])} | {r['runs']} | "
            f"{r['stopped']} | {r['wrong']} | {r['in_time']} of {r['ended']} | {at} | "
            f"{_points(r['told'])} | {_points(r['came'])} | {_share(r['within'])} |"
        )
    return "\n".join(lines)


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def _points(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}"


def main(
    datasets: list[str] = Argument(None, help="Names; by default all that are large enough."),
    task: str = Option("class", help="class, labels or numbers."),
    seeds: int = Option(3, min=1, help="Paired splits."),
    budget: int = Option(400, min=1, help="Labels bought."),
    out: Path = Option(Path("out/trust"), help="Folder; a killed run resumes from it."),
    jobs: int = Option(None, help="Processes; all cores by default."),
    as_json: bool = Option(False, "--json", help="Print JSON for a program to read."),
) -> None:
    """Write trust.csv and trust.md: what studies report beside what is true."""
    sizes: Any = {"seeds": seeds, "budget": budget, "n_jobs": jobs, "progress": not as_json}
    table = advice_summary(advice(datasets or None, task=task, **sizes, out=out))
    table.write_csv(out / "trust.csv")
    pages = [in_markdown(table, kept=kept) for kept in (True, False)]
    (out / "trust.md").write_text("\n\n".join(pages) + "\n")
    if as_json:
        print(in_json(table.to_dicts()))
        return
    for kept, words in ((True, "a tenth of the answers measures"), (False, "no answer measures")):
        show(
            f"what studies report, beside the truth: {words}", table.filter(kept=kept).drop("kept")
        )
    console.print(f"Tables: {out / 'trust.csv'} and trust.md beside it", soft_wrap=True)


if __name__ == "__main__":
    typer.run(main)
