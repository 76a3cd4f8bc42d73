"""Tables and figures of the benchmark, all from its CSV."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from goalward.lab.curves import bootstrap
from goalward.lab.efficiency.entries import CONFIRMED, DESIGNED, MAIN, RECOMMENDED
from goalward.lab.efficiency.results import Results, critical_difference
from goalward.plots import save
from goalward.plots.ranks import critical_difference_figure, differences_figure

__all__ = ["report", "tables"]


def report(results: Results, folder: Path) -> list[Path]:
    """Write the figures and `tables.md`, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    text = folder / "tables.md"
    text.write_text(tables(results))
    main = _main(results)
    paths = [text]
    if len(main.strategies) > 1 and len(main.datasets) > 1:
        ranks = dict(main.ranks().select("strategy", "mean_rank").iter_rows())
        distance = critical_difference(len(ranks), len(main.datasets))
        title = f"Mean rank of the area under the accuracy curve, {len(main.datasets)} datasets"
        fig = critical_difference_figure(ranks, distance, ours=[RECOMMENDED], title=title)
        paths += save(fig, folder / "critical-difference")[:1]
    if RECOMMENDED in main.strategies and len(main.strategies) > 1:
        fig = differences_figure(
            _gaps(main), main.datasets, title=f"{RECOMMENDED}: what it gains, by dataset"
        )
        paths += save(fig, folder / "differences")[:1]
    return paths


def tables(results: Results) -> str:
    """Return all tables as Markdown."""
    parts = []
    main = _main(results)
    for title, datasets in _groups(results):
        part = main.only(datasets=datasets)
        parts += [f"### The main comparison: {title}", _main_table(part)]
    if RECOMMENDED in main.strategies and len(main.strategies) > 1:
        parts += ["### Paired differences", _against(main)]
    parts += ["### Every strategy, every label charged", _all(results)]
    free = [s for s in results.strategies if not _paid_without_goal(results, s)]
    if len(free) > 1:
        parts += ["### The same with dev labels free", _free(results.only(free))]
    parts += ["### Area under the accuracy curve, by dataset", _by_dataset(main, "accuracy")]
    parts += ["### Area under the log-loss curve, by dataset", _by_dataset(main, "log_loss")]
    return "\n\n".join(parts) + "\n"


def markdown(table: pl.DataFrame) -> str:
    """Return a table as Markdown; numbers come as texts."""
    head = "| " + " | ".join(table.columns) + " |"
    rule = "|" + "|".join("---" for _ in table.columns) + "|"
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in table.iter_rows()]
    return "\n".join([head, rule, *lines])


def _groups(results: Results) -> list[tuple[str, list[str]]]:
    """Return all datasets, and apart those the recipe was designed on and those it was not."""
    groups = [(f"all {len(results.datasets)} datasets", results.datasets)]
    for title, names in (
        ("datasets that took no part in its design", CONFIRMED),
        ("datasets the recipe was designed on (other splits)", DESIGNED),
    ):
        # A set's own name leaves out which vectors stand for it.
        plain = {name.partition(":")[0] for name in names}
        found = [name for name in results.datasets if name in plain]
        if found and len(found) < len(results.datasets):
            groups.append((title, found))
    return groups


def _main_table(part: Results) -> str:
    accuracy, loss = part.ranks(), part.ranks("log_loss")
    other = dict(loss.select("strategy", "mean_rank").iter_rows())
    final = dict(part.ranks("final").select("strategy", "mean_rank").iter_rows())
    heights = dict(zip(part.strategies, part.seeds("log_loss").mean(axis=(1, 2)), strict=True))
    lines = [
        {
            "strategy": _shown(r["strategy"]),
            "mean rank, accuracy": f"{r['mean_rank']:.2f}{_ends(r)}",
            "best on": r["best_on"],
            "mean area, accuracy": f"{r['mean_area']:.4f}",
            "mean rank, log-loss": f"{other[r['strategy']]:.2f}",
            "mean area, log-loss": f"{heights[r['strategy']]:.3f}",
            "mean rank, final accuracy": f"{final[r['strategy']]:.2f}",
            "seconds to choose": f"{r['seconds']:.1f}",
        }
        for r in accuracy.iter_rows(named=True)
    ]
    if len(part.datasets) < 2 or len(part.strategies) < 3:
        return markdown(pl.DataFrame(lines))
    distance = critical_difference(len(part.strategies), len(part.datasets))
    said = (
        f"Friedman's test that all do equally well: p = {part.friedman():.2g}. Nemenyi's critical "
        f"difference of mean ranks at 5 %: {distance:.2f}."
    )
    return markdown(pl.DataFrame(lines)) + "\n\n" + said


def _against(main: Results) -> str:
    lines = []
    for metric in ("accuracy", "log_loss"):
        digits = 4 if metric == "accuracy" else 3
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
    return markdown(pl.DataFrame(lines))


def _all(results: Results) -> str:
    ranks = results.ranks()
    losses = dict(results.ranks("log_loss").select("strategy", "mean_rank").iter_rows())
    dev = dict(results.table.group_by("strategy").agg(pl.col("dev").max()).iter_rows())
    lines = [
        {
            "strategy": _shown(r["strategy"]),
            "dev labels": "up to " + str(dev[r["strategy"]]) if dev[r["strategy"]] else "none",
            "mean rank, accuracy": f"{r['mean_rank']:.2f}",
            "mean area": f"{r['mean_area']:.4f}",
            "mean rank, log-loss": f"{losses[r['strategy']]:.2f}",
            "seconds": f"{r['seconds']:.1f}",
        }
        for r in ranks.iter_rows(named=True)
    ]
    return markdown(pl.DataFrame(lines))


def _free(results: Results) -> str:
    ranks = results.ranks("free_accuracy")
    charged = dict(results.ranks().select("strategy", "mean_rank").iter_rows())
    lines = [
        {
            "strategy": _shown(r["strategy"]),
            "mean rank, dev labels free": f"{r['mean_rank']:.2f}",
            "mean area": f"{r['mean_area']:.4f}",
            "mean rank among these, charged": f"{charged[r['strategy']]:.2f}",
        }
        for r in ranks.iter_rows(named=True)
    ]
    return markdown(pl.DataFrame(lines))


def _by_dataset(main: Results, metric: str) -> str:
    means = main.means(metric)
    best = max if metric == "accuracy" else min
    lines = []
    for row in means.iter_rows(named=True):
        values = {k: v for k, v in row.items() if k != "dataset"}
        top = best(values.values())
        shown = {_shown(k): f"**{v:.4f}**" if v == top else f"{v:.4f}" for k, v in values.items()}
        lines.append({"dataset": row["dataset"], **shown})
    return markdown(pl.DataFrame(lines))


def _gaps(main: Results) -> dict[str, list[tuple[float, float, float]]]:
    values = main.seeds()
    mine = values[main.strategies.index(RECOMMENDED)]
    return {
        name: [bootstrap(gap, draws=2000) for gap in mine - values[i]]
        for i, name in enumerate(main.strategies)
        if name != RECOMMENDED
    }


def _main(results: Results) -> Results:
    """Return the main comparison, or all strategies where fewer than two of it took part."""
    known = [name for name in MAIN if name in results.strategies]
    return results.only(known) if len(known) > 1 else results


def _paid_without_goal(results: Results, strategy: str) -> bool:
    """Return whether a strategy trains on dev labels and so has no curve without them."""
    mine = results.table.filter(pl.col("strategy") == strategy)
    return mine["free_accuracy"].null_count() > 0


def _ends(line: dict[str, Any]) -> str:
    """Return an interval, where there is one."""
    return "" if line["low"] is None else f" [{line['low']:.2f}, {line['high']:.2f}]"


def _shown(name: str) -> str:
    return f"**`{name}`**" if name == RECOMMENDED else f"`{name}`"
