"""`goalward reproduce`: run the paper, draw it, judge it, report it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from time import perf_counter

import numpy as np

from goalward.errors import BadParameter, DataMissing
from goalward.lab.datasets import Dataset, Thinned, load, synth2
from goalward.lab.paper import studies
from goalward.lab.paper.claims import Claim, claims
from goalward.lab.paper.report import Report, write_report
from goalward.lab.paper.results import Results, goal_pictures, snapshot, synth2_pictures
from goalward.lab.plots import paper
from goalward.plots import save

__all__ = ["FIGURES", "reproduce"]

FIGURES = ("approx-serial", "approx-batch", "expred", "synth2", "letter", "rt-polarity")

CAPTIONS = {
    "synth2": "synth2, draw 0. Left: six clusters, of which the two central ones hold all initial "
    "labels. Right: the initial labels give an almost horizontal boundary.",
    "approx-serial": "Utility of one more label: retrained (vertical) against first order "
    "(horizontal). Points keep their colour, the rank of their retrained oracle utility, in all "
    "panels; the same five rows are numbered.",
    "approx-batch": "The same for sliding windows of 10 rows. Average, minimum and maximum run "
    "over all labelings of a window.",
    "expred": "Retrained utilities of windows of b rows: expected under the model's own prediction, "
    "and under the other operators. To first order the purple distribution is a single point.",
    "synth2-snapshots": "Which rows each strategy asks for on synth2 (darker: later), and the "
    "boundary it has learned by then.",
    "synth2-groups": "Queries spent on each group of clusters. Uncertainty exhausts the central "
    "clusters first.",
    "synth2-curves": "synth2: mean test accuracy over draws, with 95 % bands.",
    "goals": "Above: test accuracy. Below: the goal itself. One column for each goal, four ways to "
    "resolve the label; means over seeds with 95 % bands.",
    "utilities": "How the utilities of the rows still in the pool are spread as labels come in "
    "(seed 0, symmetric log scale).",
}


def reproduce(
    out: Path,
    figures: Sequence[str] = (),
    *,
    size: studies.Size | None = None,
    tick: Callable[[str], None] = lambda message: None,
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
    wanted = tuple(figures) or FIGURES
    size = size or studies.Size.full()
    began = perf_counter()
    report = Report(out, size)
    results = _collect(wanted, size, out, report, tick)
    tick("drawing")
    _draw(results, report)
    found = claims(results)
    (out / "claims.json").write_text(
        json.dumps([asdict(c) | {"command": c.command} for c in found], indent=1, default=_plain)
    )
    report.seconds = perf_counter() - began
    return found, write_report(report, found)


def _collect(
    wanted: tuple[str, ...],
    size: studies.Size,
    out: Path,
    report: Report,
    tick: Callable[[str], None],
) -> Results:
    results = Results()
    results.datasets = _datasets(wanted, size, report)
    text = results.datasets.get("rt-polarity") or results.datasets.get("digits-3v8")
    if "approx-serial" in wanted and text is not None:
        results.serial[text.name] = studies.scatter_serial(text, size, tick)
        second = _second_embedding(text)
        if second is not None:
            results.serial["rt-polarity (MiniLM)"] = studies.scatter_serial(second, size, tick)
    if "approx-batch" in wanted and text is not None:
        results.batch[text.name] = studies.scatter_batch(text, size, tick)
    if "expred" in wanted and text is not None:
        results.expred = studies.expected_prediction(text, size, tick)
    if "synth2" in wanted:
        results.synth2 = studies.synthetic(size, tick, out / "runs" / "synth2")
    for name in ("letter", "rt-polarity"):
        if name in wanted and name in results.datasets:
            dataset = results.datasets[name]
            results.learning[name] = studies.learning(dataset, size, tick, out / "runs" / name)
    learned = {n: d for n, d in results.datasets.items() if n in wanted}
    if learned:
        results.penalties = studies.penalties(learned, tick)
    return results


def _datasets(wanted: tuple[str, ...], size: studies.Size, report: Report) -> dict[str, Dataset]:
    found: dict[str, Dataset] = {"synth2": synth2()}
    approximations = {"approx-serial", "approx-batch", "expred"} & set(wanted)
    for name in ("rt-polarity", "letter"):
        if name in wanted or (name == "rt-polarity" and approximations):
            try:
                found[name] = _smaller(load(name), size)
            except DataMissing as error:
                report.notes.append(f"{name} was left out: {error}")
    if approximations and "rt-polarity" not in found:
        found["digits-3v8"] = load("digits-3v8")
        report.notes.append(
            "rt-polarity is not here, so the approximation and ExPred figures use digits, 3 "
            "against 8."
        )
    return found


def _second_embedding(dataset: Dataset) -> Dataset | None:
    """Return MiniLM's vectors if another embedding served first and they are on disk."""
    if dataset.name != "rt-polarity" or "MiniLM" in dataset.source:
        return None
    try:
        return load("rt-polarity:minilm")
    except DataMissing:
        return None


def _smaller(dataset: Dataset, size: studies.Size) -> Dataset:
    """Return at most `size.rows` rows of a dataset, every part thinned alike."""
    if size.rows is None or len(dataset.y) <= size.rows:
        return dataset
    thin = Thinned(dataset.split, size.rows / len(dataset.y))
    return replace(dataset, split=thin)


def _draw(results: Results, report: Report) -> None:
    data = results.datasets["synth2"]
    assert data.groups is not None
    first = snapshot(data, np.empty(0, dtype=np.int64))
    picture = paper.synth2_figure(data.X, data.y, data.groups, data.split(0).init, first["line"])
    report.add("synth2", picture, CAPTIONS["synth2"])
    for name, scatter in results.serial.items():
        what = f"One more label on {name}: {scatter.source}"
        key = "approx-serial" if name in ("rt-polarity", "digits-3v8") else "approx-serial-minilm"
        picture = paper.approximation_figure(scatter.exact, scatter.cheap, what=what)
        report.add(key, picture, CAPTIONS["approx-serial"], scatter.table)
    for scatter in results.batch.values():
        what = f"Windows of 10 rows, all labelings: {scatter.source}"
        picture = paper.approximation_figure(scatter.exact, scatter.cheap, what=what)
        report.add("approx-batch", picture, CAPTIONS["approx-batch"], scatter.table)
    if results.expred is not None:
        picture = paper.density_figure(results.expred.panels)
        report.add("expred", picture, CAPTIONS["expred"], results.expred.overlap)
    if results.synth2:
        for name, picture in synth2_pictures(results.synth2).items():
            report.add(name, picture, CAPTIONS[name])
    for name, curves in results.learning.items():
        levels = (0.5, 0.6, 0.65) if name == "letter" else (0.7, 0.75, 0.8)
        for key, picture in goal_pictures(name, curves, results.datasets[name]).items():
            caption = CAPTIONS[key.rsplit("-", 1)[-1]]
            table = curves.summary(levels) if key.endswith("goals") else None
            report.add(key, picture, f"{name}. {caption}", table)
        report.tables[f"{name}-differences"] = curves.differences("random")
        report.tables[f"{name}-ranks"] = curves.ranks()
    if results.penalties is not None:
        report.tables["penalties"] = results.penalties
    report.describe(results.datasets)
    for name, picture in report.pictures.items():
        save(picture, report.out / "figures" / name)
    for name, table in report.tables.items():
        folder = report.out / "tables"
        folder.mkdir(parents=True, exist_ok=True)
        table.write_csv(folder / f"{name}.csv")


def _plain(value: object) -> object:
    return value.item() if isinstance(value, np.generic) else str(value)
