"""Tables and figures of the benchmark, all from its CSV."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from goalward.lab.benchmark.areas import Areas
from goalward.lab.benchmark.entries import CONFIRMED, DESIGNED, MAIN
from goalward.lab.plots import critical_difference_figure, differences_figure
from goalward.lab.statistics import bootstrap, critical_difference, friedman
from goalward.plots import save
from goalward.strategies.recipe_names import RECOMMENDED

__all__ = ["report", "tables"]


def report(areas: Areas, folder: Path) -> list[Path]:
    """Write the figures and `tables.md`, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    text = folder / "tables.md"
    text.write_text(tables(areas))
    main = _main(areas)
    paths = [text]
    if len(main.strategies) > 1 and len(main.datasets) > 1:
        ranks = main.mean_ranks()
        distance = critical_difference(len(ranks), len(main.datasets))
        title = f"Mean rank of the area under the accuracy curve, {len(main.datasets)} datasets"
        fig = critical_difference_figure(ranks, distance, ours=[RECOMMENDED], title=title)
        paths += save(fig, folder / "critical-difference")[:1]
    if RECOMMENDED in main.strategies and len(main.strategies) > 1:
        gaps = {
            name: [bootstrap(gap, draws=2000) for gap in by_dataset]
            for name, by_dataset in main.gaps(RECOMMENDED).items()
        }
        title = f"{RECOMMENDED}: what it gains, by dataset"
        fig = differences_figure(gaps, main.datasets, title=title)
        paths += save(fig, folder / "differences")[:1]
    return paths


def tables(areas: Areas) -> str:
    """Return all tables as Markdown."""
    main = _main(areas)
    found = {
        f"The main comparison: {title}": _main_table(main.only(datasets=datasets))
        for title, datasets in _groups(areas)
    }
    if RECOMMENDED in main.strategies and len(main.strategies) > 1:
        found["Paired differences"] = _against(main)
    found["Every strategy, every label charged"] = _all(areas)
    # Who trains on dev labels has no curve without them.
    paid = areas.table.filter(pl.col("free_accuracy").is_null())["strategy"].to_list()
    free = [name for name in areas.strategies if name not in paid]
    if len(free) > 1:
        found["The same with dev labels free"] = _free(areas.only(free))
    for metric in ("accuracy", "log_loss"):
        name = metric.replace("_", "-")
        found[f"Area under the {name} curve, by dataset"] = _by_dataset(main, metric)
    return "\n\n".join(f"### {title}\n\n{table}" for title, table in found.items()) + "\n"


def _markdown(lines: Sequence[dict[str, Any]]) -> str:
    rows = [f"| {' | '.join(map(str, row))} |" for row in (lines[0], *map(dict.values, lines))]
    return "\n".join([rows[0], "|" + "---|" * len(lines[0]), *rows[1:]])


def _ranking(
    areas: Areas, columns: dict[str, Callable[[dict[str, Any]], object]], metric: str = "accuracy"
) -> str:
    """Return a line per strategy, the best first; a column is a function of its ranks."""
    return _markdown(
        [
            {"strategy": _shown(r["strategy"])} | {name: cell(r) for name, cell in columns.items()}
            for r in areas.ranks(metric).iter_rows(named=True)
        ]
    )


def _groups(areas: Areas) -> list[tuple[str, list[str]]]:
    """Return all datasets, and apart those the recipe was designed on and those it was not."""
    groups = [(f"all {len(areas.datasets)} datasets", areas.datasets)]
    for title, names in (
        ("datasets that took no part in its design", CONFIRMED),
        ("datasets the recipe was designed on (other splits)", DESIGNED),
    ):
        # A set's own name leaves out which vectors stand for it.
        plain = {name.partition(":")[0] for name in names}
        found = [name for name in areas.datasets if name in plain]
        if found and len(found) < len(areas.datasets):
            groups.append((title, found))
    return groups


def _main_table(part: Areas) -> str:
    losses, final = part.mean_ranks("log_loss"), part.mean_ranks("final")
    heights = dict(zip(part.strategies, part.seeds("log_loss").mean(axis=(1, 2)), strict=True))
    table = _ranking(
        part,
        {
            "mean rank, accuracy": _rank,
            "best on": lambda r: r["best_on"],
            "mean area, accuracy": lambda r: f"{r['mean_area']:.4f}",
            "mean rank, log-loss": lambda r: f"{losses[r['strategy']]:.2f}",
            "mean area, log-loss": lambda r: f"{heights[r['strategy']]:.3f}",
            "mean rank, final accuracy": lambda r: f"{final[r['strategy']]:.2f}",
            "seconds to choose": lambda r: f"{r['seconds']:.1f}",
        },
    )
    if len(part.datasets) < 2 or len(part.strategies) < 3:
        return table
    distance = critical_difference(len(part.strategies), len(part.datasets))
    p = friedman(part.seeds().mean(axis=2))
    return (
        f"{table}\n\nFriedman's test that all do equally well: p = {p:.2g}.\n"
        f"Nemenyi's critical difference of mean ranks at 5 %: {distance:.2f}."
    )


def _against(main: Areas) -> str:
    lines = []
    for metric, digits in (("accuracy", 4), ("log_loss", 3)):
        for r in main.against(RECOMMENDED, metric).iter_rows(named=True):
            ends = ", ".join(f"{r[k]:+.{digits}f}" for k in ("low", "high"))
            lines.append(
                {
                    "metric": metric.replace("_", "-"),
                    f"`{RECOMMENDED}` against": _shown(r["against"]),
                    "better by": f"{r['better_by']:+.{digits}f} [{ends}]",
                    "ahead on": f"{r['wins']} of {r['datasets']}",
                    "clearly better / worse": f"{r['better']} / {r['worse']}",
                }
            )
    return _markdown(lines)


def _all(areas: Areas) -> str:
    losses = areas.mean_ranks("log_loss")
    dev = dict(areas.table.group_by("strategy").agg(pl.col("dev").max()).iter_rows())
    return _ranking(
        areas,
        {
            "dev labels": lambda r: f"up to {dev[r['strategy']]}" if dev[r["strategy"]] else "none",
            "mean rank, accuracy": lambda r: f"{r['mean_rank']:.2f}",
            "mean area": lambda r: f"{r['mean_area']:.4f}",
            "mean rank, log-loss": lambda r: f"{losses[r['strategy']]:.2f}",
            "seconds": lambda r: f"{r['seconds']:.1f}",
        },
    )


def _free(areas: Areas) -> str:
    charged = areas.mean_ranks()
    return _ranking(
        areas,
        {
            "mean rank, dev labels free": lambda r: f"{r['mean_rank']:.2f}",
            "mean area": lambda r: f"{r['mean_area']:.4f}",
            "mean rank among these, charged": lambda r: f"{charged[r['strategy']]:.2f}",
        },
        "free_accuracy",
    )


def _by_dataset(main: Areas, metric: str) -> str:
    best = max if metric == "accuracy" else min
    lines = []
    for row in main.means(metric).iter_rows(named=True):
        name = row.pop("dataset")
        top = best(row.values())
        shown = {_shown(k): f"**{v:.4f}**" if v == top else f"{v:.4f}" for k, v in row.items()}
        lines.append({"dataset": name, **shown})
    return _markdown(lines)


def _main(areas: Areas) -> Areas:
    """Return the main comparison, or all strategies where fewer than two of it took part."""
    known = [name for name in MAIN if name in areas.strategies]
    return areas.only(known) if len(known) > 1 else areas


def _rank(r: dict[str, Any]) -> str:
    """Return a mean rank with its interval, where there is one."""
    ends = "" if r["low"] is None else f" [{r['low']:.2f}, {r['high']:.2f}]"
    return f"{r['mean_rank']:.2f}{ends}"


def _shown(name: str) -> str:
    return f"**`{name}`**" if name == RECOMMENDED else f"`{name}`"
