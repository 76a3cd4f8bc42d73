"""Tables and figures of the benchmark, all from its CSV."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from goalward.lab.benchmark.areas import Areas
from goalward.lab.benchmark.plan import FACTOR_NAMES, is_oracle
from goalward.lab.datasets.collection import CONFIRM, DESIGN, IMBALANCED
from goalward.lab.plots import critical_difference_figure, distances_figure, save
from goalward.lab.statistics import critical_difference
from goalward.strategies.recipes import RECOMMENDED

__all__ = ["report", "tables"]


def report(areas: Areas, folder: Path) -> list[Path]:
    """Write the figures and `tables.md`, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    text = folder / "tables.md"
    text.write_text(tables(areas))
    groups = _groups(areas)
    # What confirms, where there is such.
    title, main = next(iter(groups.items()))
    peers, paths = main.peers(), [text]
    if len(peers.strategies) < 2:
        return paths
    if len(peers.datasets) > 1:
        ranks = dict(peers.ranks().select("strategy", "mean_rank").iter_rows())
        distance = critical_difference(len(ranks), len(peers.datasets))
        title = f"Mean rank of the area under the accuracy curve, {title}"
        fig = critical_difference_figure(ranks, distance, ours=[RECOMMENDED], title=title)
        paths += save(fig, folder / "critical-difference")[:1]
    panels = {title: part.means() for title, part in groups.items()}
    oracles = [name for name in main.strategies if is_oracle(name)]
    fig = distances_figure(panels, ours=_compared(peers), oracles=oracles)
    return [*paths, *save(fig, folder / "differences")[:1]]


def tables(areas: Areas) -> str:
    """Return all tables as Markdown."""
    found: dict[str, str] = {}
    groups = _groups(areas)
    for title, part in groups.items():
        peers = part.peers()
        found[f"Ranks and areas, {title}"] = _ranking(part)
        if len(peers.strategies) > 1:
            found[f"Paired differences, {title}"] = _against(peers)
            if len(set(peers.table["seed"])) > 1:
                found[f"Regret, {title}"] = _regret(peers)
    for kind, part in groups.items():
        rare = [name for name in part.datasets if name in IMBALANCED]
        if rare and len(part.peers().strategies) > 1:
            chosen = part.peers().only(dataset=rare)
            title = f"Balanced accuracy on imbalanced data, {len(rare)} of {kind}"
            found[title] = _against(chosen, ("balanced",))
    if others := [name for name in areas.names("protocol") if name in FACTOR_NAMES]:
        found["One factor at a time: mean areas"] = _factors(areas, others)
        found["One factor at a time: differences"] = _factor_differences(areas, others)
    if "ceiling" in areas.names("protocol"):
        found["The ceiling: an oracle"] = _ranking(areas.only(protocol=["ceiling"]))
    for title, part in groups.items():
        found[f"Area under the accuracy curve, {title}"] = _by_dataset(part)
    return "\n\n".join(f"### {title}\n\n{table}" for title, table in found.items()) + "\n"


def _groups(areas: Areas) -> dict[str, Areas]:
    """Return the sets that confirm and those of the design, apart; others as they are."""
    main = areas.main()
    kinds = {"sets that confirm": CONFIRM, "sets of the design": DESIGN}
    rest = [name for name in main.datasets if name not in {*CONFIRM, *DESIGN}]
    groups = {}
    for kind, names in (kinds | {"other sets": rest}).items():
        if here := [name for name in main.datasets if name in names]:
            groups[f"{len(here)} {kind}"] = main.only(dataset=here)
    return groups


def _compared(areas: Areas) -> str:
    """Return the strategy that the others are compared with."""
    return RECOMMENDED if RECOMMENDED in areas.strategies else areas.strategies[0]


def _markdown(lines: Sequence[dict[str, Any]]) -> str:
    rows = [f"| {' | '.join(map(str, row))} |" for row in (lines[0], *map(dict.values, lines))]
    return "\n".join([rows[0], "|" + "---|" * len(lines[0]), *rows[1:]])


def _ranking(part: Areas) -> str:
    """Return a line per strategy, the best first; oracles last, without ranks."""
    areas = part.peers().ranks()
    final, loss = (dict(part.peers().ranks(name).select("strategy", "mean_rank").iter_rows())
                   for name in ("final", "log_loss"))  # fmt: skip
    means = {
        name: dict(zip(part.strategies, part.seeds(name).mean(axis=(1, 2)), strict=True))
        for name in ("accuracy", "final", "balanced", "log_loss")
    }
    # The median: other work on the machine makes some sessions slow.
    seconds = dict(zip(part.strategies, np.median(part.seeds("seconds"), axis=(1, 2)), strict=True))
    oracles = [{"strategy": name} for name in part.strategies if is_oracle(name)]
    lines = []
    for r in [*areas.iter_rows(named=True), *oracles]:
        name = r["strategy"]
        ranks = [f"{ranks[name]:.2f}" if name in ranks else "oracle" for ranks in (final, loss)]
        lines.append(
            {
                "strategy": _shown(name),
                "mean rank, area": _rank(r) if "mean_rank" in r else "oracle",
                "best on": r.get("best_on", "–"),
                "area": f"{means['accuracy'][name]:.4f}",
                "mean rank, final": ranks[0],
                "final": f"{means['final'][name]:.4f}",
                "balanced": f"{means['balanced'][name]:.4f}",
                "mean rank, log-loss": ranks[1],
                "log-loss": f"{means['log_loss'][name]:.3f}",
                "seconds": f"{seconds[name]:.2g}",
            }
        )
    return _markdown(lines)


def _against(peers: Areas, metrics: Sequence[str] = ("accuracy", "final")) -> str:
    named = {"accuracy": "area", "final": "final accuracy", "balanced": "area, balanced"}
    ours, lines = _compared(peers), []
    for metric in metrics:
        for r in peers.against(ours, metric).iter_rows(named=True):
            lines.append(
                {
                    "of": named[metric],
                    f"{_shown(ours)} against": _shown(r["against"]),
                    **_difference(r),
                    "ahead on": f"{r['wins']} of {len(peers.datasets)}",
                    "p (Holm)": f"{r['p']:.2g}",
                    "worse, same, better": f"{r['worse']:.2f}, {r['same']:.2f}, {r['better']:.2f}",
                }
            )
    return _markdown(lines)


def _difference(r: dict[str, Any]) -> dict[str, str]:
    return {
        "better by": f"{r['better_by']:+.4f} [{r['low']:+.4f}, {r['high']:+.4f}]",
        "at worst": f"{r['worst']:+.4f} ({r['on']})",
    }


def _regret(peers: Areas) -> str:
    area, final = (peers.regrets(metric) for metric in ("accuracy", "final"))
    last = {r["strategy"]: r for r in final.iter_rows(named=True)}
    return _markdown(
        [
            {
                "strategy": _shown(r["strategy"]),
                "mean regret, area": f"{r['mean']:+.4f}",
                "largest, area": f"{r['largest']:+.4f} ({r['on']})",
                "mean regret, final": f"{last[r['strategy']]['mean']:+.4f}",
                "largest, final": "{largest:+.4f} ({on})".format(**last[r["strategy"]]),
            }
            for r in area.iter_rows(named=True)
        ]
    )


def _factor_parts(areas: Areas, protocols: Sequence[str]) -> dict[str, Areas]:
    """Return the results under each protocol, and under the main one on the same data."""
    parts = {name: areas.only(protocol=[name]).peers() for name in protocols}
    first = next(iter(parts.values()))
    main = areas.main()
    same = [name for name in main.datasets if name in first.datasets]
    who = [name for name in main.strategies if name in first.strategies]
    if same and who:
        parts = {main.names("protocol")[0]: main.only(dataset=same, strategy=who)} | parts
    return parts


def _factors(areas: Areas, protocols: Sequence[str]) -> str:
    parts = _factor_parts(areas, protocols)
    means = {
        name: dict(zip(part.strategies, part.seeds().mean(axis=(1, 2)), strict=True))
        for name, part in parts.items()
    }
    lines = []
    for who in next(reversed(parts.values())).strategies:
        cells = {}
        for name, values in means.items():
            shown = f"{values[who]:.4f}" if who in values else "–"
            cells[name] = f"**{shown}**" if values.get(who) == max(values.values()) else shown
        lines.append({"strategy": _shown(who), **cells})
    return _markdown(lines)


def _factor_differences(areas: Areas, protocols: Sequence[str]) -> str:
    lines = []
    for name, part in _factor_parts(areas, protocols).items():
        ours = _compared(part)
        for r in part.against(ours).iter_rows(named=True):
            lines.append(
                {
                    "protocol": name,
                    f"{_shown(ours)} against": _shown(r["against"]),
                    **_difference(r),
                    "p (Holm)": f"{r['p']:.2g}",
                }
            )
    return _markdown(lines)


def _by_dataset(part: Areas) -> str:
    lines = []
    for row in part.means().iter_rows(named=True):
        name = row.pop("dataset")
        top = max(value for key, value in row.items() if not is_oracle(key))
        shown = {_shown(k): f"**{v:.4f}**" if v == top else f"{v:.4f}" for k, v in row.items()}
        lines.append({"dataset": name, **shown})
    return _markdown(lines)


def _rank(r: dict[str, Any]) -> str:
    """Return a mean rank with its interval, where there is one."""
    ends = "" if r["low"] is None else f" [{r['low']:.2f}, {r['high']:.2f}]"
    return f"{r['mean_rank']:.2f}{ends}"


def _shown(name: str) -> str:
    return f"**`{name}`**" if name == RECOMMENDED else f"`{name}`"
