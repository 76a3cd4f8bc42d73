"""`goalward reproduce`: run the paper, draw it, judge it, report it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from time import perf_counter

from goalward.errors import BadParameter, DataMissing
from goalward.lab.datasets import Dataset, Thinned, load, synth2
from goalward.lab.paper import studies
from goalward.lab.paper.approximation import expected_prediction, scatter
from goalward.lab.paper.findings import Claim, Findings, claims
from goalward.lab.paper.pictures import pictures, tables
from goalward.lab.paper.report import write_report
from goalward.lab.paper.studies import Size, Tick
from goalward.plots import save

__all__ = ["FIGURES", "reproduce"]

APPROXIMATIONS = ("approx-serial", "approx-batch", "expred")
FIGURES = (*APPROXIMATIONS, "synth2", "letter", "rt-polarity")


def reproduce(
    out: Path,
    figures: Sequence[str] = (),
    *,
    size: Size | None = None,
    tick: Tick = lambda message: None,
) -> tuple[list[Claim], Path]:
    """Run the named figures (all by default), and return the claims and the report's path.

    Finished rounds are kept under `out`: a run that was killed goes on where it stopped.
    """
    for name in figures:
        if name not in FIGURES:
            raise BadParameter(
                f"There is no figure {name!r}; one of {', '.join(FIGURES)} was expected. Leave the "
                "names out for all of them."
            )
    size = size or Size.full()
    began = perf_counter()
    findings = _collect(tuple(figures) or FIGURES, size, out, tick)
    tick("drawing")
    drawn, listed, judged = pictures(findings), tables(findings), claims(findings)
    for name, picture in drawn.items():
        save(picture.figure, out / "figures" / name)
    (out / "tables").mkdir(parents=True, exist_ok=True)
    for name, table in listed.items():
        table.write_csv(out / "tables" / f"{name}.csv")
    lines = [asdict(claim) | {"command": claim.command} for claim in judged]
    (out / "claims.json").write_text(json.dumps(lines, indent=1, default=lambda v: v.item()))
    seconds = perf_counter() - began
    return judged, write_report(out, size, findings, drawn, listed, judged, seconds)


def _collect(wanted: tuple[str, ...], size: Size, out: Path, tick: Tick) -> Findings:
    findings = Findings()
    data = findings.datasets
    data["synth2"] = synth2()
    approximated = set(wanted) & set(APPROXIMATIONS)
    for name in ("rt-polarity", "letter"):
        if name in wanted or (name == "rt-polarity" and approximated):
            try:
                data[name] = _smaller(load(name), size)
            except DataMissing as error:
                findings.notes.append(f"{name} was left out: {error}")
    if approximated:
        _approximate(findings, approximated, size, tick)
    if "synth2" in wanted:
        findings.synth2 = studies.synthetic(size, tick, out / "runs" / "synth2")
    learned = {name: dataset for name, dataset in data.items() if name in wanted}
    for name in ("letter", "rt-polarity"):
        if name in learned:
            runs = out / "runs" / name
            findings.learning[name] = studies.learning(data[name], size, tick, runs)
    if learned:
        findings.penalties = studies.penalties(learned, tick)
    return findings


def _approximate(findings: Findings, wanted: set[str], size: Size, tick: Tick) -> None:
    """Compare first order with retraining: on rt-polarity, or on digits where it is not here."""
    data = findings.datasets
    if "rt-polarity" not in data:
        data["digits-3v8"] = load("digits-3v8")
        findings.notes.append(
            "rt-polarity is not here, so the approximation and ExPred figures use digits, 3 "
            "against 8."
        )
    text = data.get("rt-polarity") or data["digits-3v8"]
    if "approx-serial" in wanted:
        findings.serial[text.name] = scatter(text, size, tick)
        second = _second_embedding(text)
        if second is not None:
            findings.serial["rt-polarity (MiniLM)"] = scatter(second, size, tick)
    if "approx-batch" in wanted:
        findings.batch = scatter(text, size, tick, b=10)
    if "expred" in wanted:
        findings.expred = expected_prediction(text, size, tick)


def _second_embedding(dataset: Dataset) -> Dataset | None:
    """Return MiniLM's vectors if another embedding served first and they are on disk."""
    if dataset.name != "rt-polarity" or "MiniLM" in dataset.source:
        return None
    try:
        return load("rt-polarity:minilm")
    except DataMissing:
        return None


def _smaller(dataset: Dataset, size: Size) -> Dataset:
    """Return at most `size.rows` rows of a dataset, every part thinned alike."""
    if size.rows is None or len(dataset.y) <= size.rows:
        return dataset
    return replace(dataset, split=Thinned(dataset.split, size.rows / len(dataset.y)))
