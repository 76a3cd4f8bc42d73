"""Is what a study says true? How good it is, with its interval, and its word to stop, against the truth.

Sessions of the recommended strategy are played as a study would be, with and without a tenth of the
answers kept to measure, and what the page would say after every round is written beside the truth.
Of several labels and of numbers studies are played themselves (`studies_played.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from goalward.core.arrays import to_numpy
from goalward.core.whole_file import whole_file
from goalward.errors import BadParameter
from goalward.lab.benchmark.plan import Protocol
from goalward.lab.benchmark.task_sets import PARTS, task_rows
from goalward.lab.datasets import Dataset, Split, load
from goalward.lab.parallel import Records, Tell, finished, telling
from goalward.lab.session import Session, Step
from goalward.lab.studies_played import Round, play_study
from goalward.models import Fitted
from goalward.models.left_out import left_out
from goalward.models.logistic import Logistic
from goalward.strategies import recipe
from goalward.strategies.recipes import RECOMMENDED
from goalward.studio.advice import PRICE, Snapshot, gain_below_price, next_gain
from goalward.studio.advice.gains import AHEAD, ANSWERS, enough
from goalward.studio.study.accuracy import measured
from goalward.studio.study.answers import LeftOut
from goalward.studio.study.settings import DEV

__all__ = ["DATASETS", "advice", "advice_summary", "in_markdown"]

DATASETS = (
    *("letter", "ringnorm", "banana", "magic", "marketing", "penbased", "phoneme", "satimage"),
    *(
        "segment",
        "spambase",
        "texture",
        "twonorm",
        "vehicle",
        "vowel",
        "contraceptive",
        "mammographic",
    ),
    *("chess", "mushroom", "splice", "german", "tic-tac-toe", "flare-F", "yeast3"),
    *("abalone-17_vs_7-8-9-10", "car-good", "kddcup-guess_passwd_vs_satan"),
    *("kr-vs-k-zero-one_vs_draw", "page-blocks0", "shuttle-c0-vs-c4", "winequality-red-4"),
    *("rt-polarity:minilm", "subj", "trec", "digits", "mnist", "fashion-mnist"),
)
"""All sets of the benchmark with 800 rows or more."""
LEAST = 400
"""Rows of a table of several labels or numbers, so that there are answers enough to play for."""
STOP_ROWS = 1000
MEANS = ("said", "held", "width", "off", "at", "told", "came", "within")
POINTS = 0.02
"""The gain that must still be to be had for a word to stop to be wrong."""


def advice(
    datasets: Sequence[str] | None = None,
    *,
    task: str = "class",
    seeds: int = 3,
    budget: int = 400,
    out: Path | str,
    n_jobs: int | None = None,
    progress: Tell = True,
) -> pl.DataFrame:
    """Return one line per dataset, seed, share of answers kept to measure, and round.

    Parameters
    ----------
    datasets
        All that are long enough by default.
    task
        "class"; "labels" or "numbers", on tables of `goalward benchmark --task`.
    budget
        Labels that train; at most four fifths of the pool.
    out
        Folder: a finished session is a line of its `advice.jsonl`, so a killed run goes on there.
    """
    store = Records(Path(out) / "advice.jsonl")
    names, play = _played(task, datasets)
    jobs = [(name, seed, budget) for seed in range(seeds) for name in names]
    ours = [r for r in store if r.get("task", "class") == task]
    done = {(r["dataset"], r["seed"], r["budget"]): r for r in ours}
    missing = [job for job in jobs if job not in done]
    before = len(jobs) - len(missing)
    with (
        store.appending() as keep,
        telling(progress, len(jobs), "advice", "sessions", before) as tell,
    ):
        for count, record in enumerate(finished(play, missing, n_jobs), before + 1):
            keep(record)
            done[record["dataset"], record["seed"], record["budget"]] = record
            tell(count)
    lines = [
        {"dataset": name, "seed": seed, **dict(zip(Round._fields, line, strict=True))}
        for name, seed, _ in jobs
        for line in done[name, seed, budget]["rounds"]
    ]
    table = pl.DataFrame(lines, infer_schema_length=None)
    with whole_file(Path(out) / "rounds.parquet", force=True) as path:
        table.write_parquet(path)
    return table


def _played(task: str, datasets: Sequence[str] | None) -> tuple[Sequence[str], Any]:
    """Return the datasets of a task, and what plays one of them."""
    if task == "class":
        return datasets or DATASETS, _session
    known = sorted({"class", *PARTS})
    if task not in known:
        raise BadParameter(f"task={task!r}; one of {', '.join(known)} was expected.")
    sets = PARTS[task].get("design", PARTS[task]["all"])
    wanted = datasets or [name for name in sets if len(task_rows(task, name)[0]) >= LEAST]
    return wanted, partial(play_study, task)


def _session(job: tuple[str, int, int]) -> dict[str, Any]:
    name, seed, budget = job
    protocol = Protocol(budget=budget)
    # What new studies learn with.
    task = protocol.conditions(replace(load(name), learner=Logistic(C="loo")))
    whole = protocol.split(task, seed)
    # As in a study: rows that measure are drawn at random and never asked for training.
    drawn = np.random.default_rng([seed, 21]).permutation(whole.pool)
    dev, pool = drawn[: len(drawn) // 10], np.sort(drawn[len(drawn) // 10 :])
    size = min(budget, len(pool) * 4 // 5) // 10 * 10
    split = Split(whole.init, pool, whole.test, whole.dev)
    steps = list(Session(task, recipe(RECOMMENDED), seed, 10, size, split).steps())
    steps = [step for step in steps if len(np.unique(task.y[step.spent])) > 1]
    found = [list(one) for kept in (False, True) for one in _rounds(task, split, dev, steps, kept)]
    return {"dataset": name, "seed": seed, "budget": budget, "rounds": found}


def _rounds(
    task: Dataset, split: Split, dev: NDArray[Any], steps: list[Step], kept: bool
) -> Iterator[Round]:
    """Yield what is said after each round, and what is true."""
    fixed = np.concatenate([split.test, np.setdiff1d(split.pool, steps[-1].spent)])
    rng = np.random.default_rng(11)
    stop_rows = rng.permutation(np.concatenate([split.pool, dev]))[:STOP_ROWS]
    snapshots: list[Snapshot] = []
    for step in steps:
        rows, labels = step.spent, len(step.spent)
        random = dev[: round(labels * DEV / (1 - DEV))] if kept else dev[:0]
        predicted = partial(_predicted, task, step.model)
        shown = predicted(stop_rows)
        answers = LeftOut(
            rows=np.concatenate([rows, random]),
            truth=_codes(task, np.concatenate([rows, random])),
            proba=np.concatenate(
                [_without_each(step.model), *([predicted(random)] if len(random) else [])]
            ),
            chosen=np.arange(labels + len(random)) < labels,
        )
        rest = np.setdiff1d(np.concatenate([split.pool, dev]), answers.rows)
        said = measured(answers, shown[np.isin(stop_rows, rest)], len(rest))
        counts = np.bincount(answers.truth, minlength=len(task.classes))
        snapshots.append(
            Snapshot(
                labels=labels,
                bought=len(answers.truth),
                least=int(counts.min()),
                low=said.low if said else None,
                predicted=tuple(shown.argmax(axis=1).tolist()),
            )
        )
        ahead = next_gain(snapshots)
        yield Round(
            kept,
            len(answers.truth),
            labels,
            _accuracy(task, predicted, rest),
            said.value if said else None,
            math.floor(100 * said.low) / 100 if said else None,
            math.ceil(100 * said.high) / 100 if said else None,
            _accuracy(task, predicted, fixed),
            ahead.high if ahead else None,
            bool(enough(snapshots) and gain_below_price(snapshots, price=PRICE).stop),
        )


def _predicted(task: Dataset, model: Fitted, rows: NDArray[Any]) -> NDArray[Any]:
    return to_numpy(model.predict_proba(task.X[rows]))


def _without_each(model: Fitted) -> NDArray[Any]:
    return to_numpy(model.loss.proba(left_out(model)))


def _codes(task: Dataset, rows: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(np.searchsorted(task.classes, task.y[rows]))


def _accuracy(task: Dataset, predicted: Any, rows: NDArray[Any]) -> float:
    return float(np.mean(predicted(rows).argmax(axis=1) == _codes(task, rows)))


def advice_summary(rounds: pl.DataFrame) -> pl.DataFrame:
    """Return one line per dataset and share of answers kept, and one over all datasets.

    `said` is the share of rounds from 30 answers on that show an accuracy, `held` the share of these
    whose interval held the truth, `width` its mean width at 100 answers and `off` the mean distance
    of the value from the truth. Of the `runs`, `stopped` said stop and `wrong` of them while 2 points
    or more were still to be had within the next 100 answers. `ended` are those whose gain was seen to
    end, and had 100 answers to say so: in time did `in_time`. `at` is the mean number of answers at
    the word. `told` is the mean of the most that the next 100 answers were said to bring, `came` what
    came, and `within` the share of rounds in which it was no more than told.
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
        *(pl.col(name).sum() for name in counted),
        *(pl.col(name).mean() for name in ("at", "told", "came", "within")),
    )
    table = said.join(ends, on=keys, maintain_order="left")
    whole = table.group_by("kept", maintain_order=True).agg(
        pl.lit("all").alias("dataset"),
        *(pl.col(name).mean() for name in MEANS),
        *(pl.col(name).sum() for name in ("runs", *counted)),
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
