"""`goalward reproduce`: run the paper, draw it, judge it, report it."""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from time import perf_counter

import polars as pl

from goalward.errors import BadParameter, DataMissing
from goalward.lab.benchmark import pipelines
from goalward.lab.benchmark.sessions import Protocol
from goalward.lab.datasets import Dataset, load, synth2
from goalward.lab.paper import protocol
from goalward.lab.paper.approximation import expected_prediction, scatter
from goalward.lab.paper.figures import figures as all_figures
from goalward.lab.paper.findings import Claim, Findings, claims
from goalward.lab.paper.protocol import Size, Tick
from goalward.lab.paper.report import write_report
from goalward.lab.plots import save
from goalward.models.logistic import Logistic

APPROXIMATIONS = ("approx-serial", "approx-batch", "expred")
STATED = 0.1  # the paper's C on rt-polarity
FIGURES = (*APPROXIMATIONS, "synth2", "letter", "rt-polarity", "penalties", "pipelines")
COMPARED = ("wine", "breast-cancer", "letter:sample")


def reproduce(
    out: Path,
    figures: Sequence[str] = (),
    *,
    size: Size | None = None,
    tick: Tick = lambda message: None,
) -> tuple[list[Claim], Path]:
    """Run the named figures (all by default), resumable under `out`; return the claims and the report."""
    for name in figures:
        if name not in FIGURES:
            raise BadParameter(
                f"A figure must be one of {', '.join(FIGURES)}, got {name!r}. Leave the names out for all."
            )
    size = size or Size.full()
    began = perf_counter()
    findings = _collect(tuple(figures) or FIGURES, size, out, tick)
    tick("drawing")
    drawn, tables, judged = all_figures(findings), _tables(findings), claims(findings)
    for name, figure in drawn.items():
        save(figure, out / "figures" / name)
    (out / "tables").mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        table.write_csv(out / "tables" / f"{name}.csv")
    lines = [asdict(claim) | {"command": claim.command} for claim in judged]
    (out / "claims.json").write_text(json.dumps(lines, indent=1, default=lambda v: v.item()))
    seconds = perf_counter() - began
    return judged, write_report(out, findings, list(drawn), tables, judged, seconds)


def _collect(wanted: tuple[str, ...], size: Size, out: Path, tick: Tick) -> Findings:
    findings = Findings(size)
    data = findings.datasets
    data["synth2"] = synth2()
    approximated = set(wanted) & set(APPROXIMATIONS)
    for name in ("rt-polarity", "letter"):
        if name in wanted or "penalties" in wanted or (name == "rt-polarity" and approximated):
            try:
                data[name] = load(f"{name}:sample" if size.samples else name)
            except DataMissing as error:
                findings.notes.append(f"{name} was left out: {error}")
    if approximated:
        _approximate(findings, approximated, size, tick)
    if "synth2" in wanted:
        # It is quick, and a sign test over five draws could not say that the oracle's pattern holds.
        draws = replace(size, seeds=2 * size.seeds) if size.samples else size
        findings.synth2 = protocol.synthetic(draws, tick, out / "runs" / "synth2")
    for name in ("letter", "rt-polarity"):
        if name in wanted and name in data:
            runs = out / "runs" / name
            findings.learning[name] = protocol.learning(data[name], size, tick, runs)
    if "penalties" in wanted:
        # Of the paper's C only: that of other sentence vectors was chosen by us.
        letter = [data["letter"]] if "letter" in data else []
        sentences = [data["rt-polarity"]] if size.samples else _second()
        stated = [data["synth2"], *sentences, *letter]
        findings.penalties = protocol.penalties(stated, size, tick)
    if "pipelines" in wanted:
        tick("pipelines")
        rules = Protocol(budget=min(200, size.queries))
        played = [
            job._replace(models=job.models[:1])
            for job in pipelines.jobs(COMPARED, ["extra trees"], seeds=2, protocol=rules)
            if job.models[0] != pipelines.LINEAR
        ]
        findings.pipelines = pipelines.play_pipelines(
            played, out=out / "runs" / "pipelines", n_jobs=size.n_jobs, progress=False
        )
    return findings


def _approximate(findings: Findings, wanted: set[str], size: Size, tick: Tick) -> None:
    """Compare first order with retraining: on rt-polarity, or on its sample where it is not here."""
    data = findings.datasets
    if "rt-polarity" not in data:
        findings.notes.append("The approximation and ExPred figures use a sample of rt-polarity.")
        data["rt-polarity, a sample"] = load("rt-polarity:sample")
    text = data.get("rt-polarity") or data["rt-polarity, a sample"]
    # Another embedding served first: these vectors are the second.
    second = [] if "MiniLM" in text.source else _second()
    for name, b in (("approx-serial", 1), ("approx-batch", 10)):
        if name in wanted:
            for end, dataset in zip(("", "-minilm"), [text, *second], strict=False):
                findings.scatters[name + end] = scatter(dataset, size, tick, b=b)
    if "approx-serial" in wanted:
        others = {"softmax": 2 * float(text.learner.C)}
        if protocol.stated_C(text) != STATED:
            others["stated"] = STATED / 2
        for end, C in others.items():
            other = replace(text, learner=Logistic(C=C))
            findings.scatters[f"approx-serial-{end}"] = scatter(other, size, tick, every_goal=False)
    if "expred" in wanted:
        runs = [
            findings.scatters[name].results for name in APPROXIMATIONS if name in findings.scatters
        ]
        known = {key: result for run in runs for key, result in run.items()}
        findings.expred = expected_prediction(text, size, tick, known=known)


def _second() -> list[Dataset]:
    """Return rt-polarity's second vectors, those with the paper's own C, where they are on disk."""
    with suppress(DataMissing):
        return [load("rt-polarity:minilm")]
    return []


def _tables(findings: Findings) -> dict[str, pl.DataFrame]:
    """Return every table by name: that of the figure it goes with, where there is one."""
    tables = {name: scatter.table for name, scatter in findings.scatters.items()}
    if findings.expred is not None:
        tables["expred"] = findings.expred.spread
        tables["expred-operators"] = findings.expred.overlap
    for name, curves in findings.learning.items():
        levels = (0.5, 0.6, 0.65) if name == "letter" else (0.7, 0.75, 0.8)
        tables[f"{name}-goals"] = curves.summary(levels)
        tables[f"{name}-differences"] = curves.differences("random")
        tables[f"{name}-ranks"] = curves.ranks()
    if findings.penalties is not None:
        tables["penalties"] = findings.penalties
    lines = []
    for dataset in findings.datasets.values():
        split = dataset.split(0)
        lines.append(
            {
                "dataset": dataset.name,
                "classes": len(dataset.classes),
                "features": dataset.X.shape[1],
                "pool": len(split.pool),
                "initial": len(split.init),
                "test": len(split.test),
                "dev": len(split.dev),
                "C (scikit-learn's)": protocol.stated_C(dataset),
                "rows from": dataset.source,
            }
        )
    return tables | {"datasets": pl.DataFrame(lines)}
