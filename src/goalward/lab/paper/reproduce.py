"""`goalward reproduce`: run the paper, draw it, judge it, report it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from time import perf_counter

import numpy as np

from goalward.errors import BadParameter, DataMissing
from goalward.lab.datasets import Dataset, Thinned, load, synth2
from goalward.lab.paper import approximation, studies
from goalward.lab.paper.claims_approximation import APPROXIMATION
from goalward.lab.paper.claims_learning import LEARNING
from goalward.lab.paper.findings import Claim, Findings
from goalward.lab.paper.pictures import pictures, tables
from goalward.lab.paper.report import Page, write_page
from goalward.lab.paper.studies import Size, Tick
from goalward.plots import save

__all__ = ["FIGURES", "claims", "reproduce"]

APPROXIMATIONS = ("approx-serial", "approx-batch", "expred")
FIGURES = (*APPROXIMATIONS, "synth2", "letter", "rt-polarity")


def claims(findings: Findings) -> list[Claim]:
    """Return the verdict on every claim that the findings can speak to."""
    judged = (judge(findings) for judge in (*APPROXIMATION, *LEARNING))
    return [claim for claim in judged if claim is not None]


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
    drawn, more = pictures(findings), tables(findings)
    for name, picture in drawn.items():
        save(picture.figure, out / "figures" / name)
    (out / "tables").mkdir(parents=True, exist_ok=True)
    beside = {name: picture.table for name, picture in drawn.items() if picture.table is not None}
    for name, table in (beside | more).items():
        table.write_csv(out / "tables" / f"{name}.csv")
    judged = claims(findings)
    (out / "claims.json").write_text(
        json.dumps([asdict(c) | {"command": c.command} for c in judged], indent=1, default=_plain)
    )
    page = Page(out, size, findings.notes, drawn, more, judged, perf_counter() - began)
    return judged, write_page(page)


def _collect(wanted: tuple[str, ...], size: Size, out: Path, tick: Tick) -> Findings:
    findings = Findings()
    data = findings.datasets
    _load(findings, wanted, size)
    text = data.get("rt-polarity") or data.get("digits-3v8")
    if "approx-serial" in wanted and text is not None:
        findings.serial[text.name] = approximation.scatter_serial(text, size, tick)
        second = _second_embedding(text)
        if second is not None:
            scatter = approximation.scatter_serial(second, size, tick)
            findings.serial["rt-polarity (MiniLM)"] = scatter
    if "approx-batch" in wanted and text is not None:
        findings.batch[text.name] = approximation.scatter_batch(text, size, tick)
    if "expred" in wanted and text is not None:
        findings.expred = approximation.expected_prediction(text, size, tick)
    if "synth2" in wanted:
        findings.synth2 = studies.synthetic(size, tick, out / "runs" / "synth2")
    for name in ("letter", "rt-polarity"):
        if name in wanted and name in data:
            runs = out / "runs" / name
            findings.learning[name] = studies.learning(data[name], size, tick, runs)
    learned = {name: dataset for name, dataset in data.items() if name in wanted}
    if learned:
        findings.penalties = studies.penalties(learned, tick)
    return findings


def _load(findings: Findings, wanted: tuple[str, ...], size: Size) -> None:
    """Fill in the datasets; what is not here is noted."""
    data = findings.datasets
    data["synth2"] = synth2()
    approximated = bool(set(APPROXIMATIONS) & set(wanted))
    for name in ("rt-polarity", "letter"):
        if name in wanted or (name == "rt-polarity" and approximated):
            try:
                data[name] = _smaller(load(name), size)
            except DataMissing as error:
                findings.notes.append(f"{name} was left out: {error}")
    if approximated and "rt-polarity" not in data:
        data["digits-3v8"] = load("digits-3v8")
        findings.notes.append(
            "rt-polarity is not here, so the approximation and ExPred figures use digits, 3 "
            "against 8."
        )


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


def _plain(value: object) -> object:
    return value.item() if isinstance(value, np.generic) else str(value)
