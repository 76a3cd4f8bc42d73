"""Tables and figures of the benchmark, all from its CSV."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from goalward.lab.benchmark.areas import Areas, is_oracle
from goalward.lab.benchmark.sessions import FACTOR_NAMES
from goalward.lab.datasets.load import CONFIRM, DESIGN, IMBALANCED
from goalward.lab.plots import critical_difference_figure, distances_figure, save
from goalward.lab.statistics import critical_difference
from goalward.strategies.recipes import RECOMMENDED


def report(areas: Areas, folder: Path) -> list[Path]:
    """Write the figures and `tables.md`, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    text = folder / "tables.md"
    text.write_text(tables(areas))
    groups = _groups(areas)
    title, main = next(iter(groups.items()))
    peers, paths = main.peers(), [text]
    if len(peers.strategies) < 2:
        return paths
    if len(peers.datasets) > 1:
        ranks = dict(peers.ranks().select("strategy", "mean_rank").iter_rows())
        distance = critical_difference(len(ranks), len(peers.datasets))
        title = f"Mean rank of the area under the accuracy curve, {title}"
        fig = critical_difference_figure(ranks, distance, ours=RECOMMENDED, title=title)
        paths += save(fig, folder / "critical-difference")[:1]
    panels = {title: part.means() for title, part in groups.items()}
    oracles = [name for name in main.strategies if is_oracle(name)]
    fig = distances_figure(panels, ours=_compared(peers), oracles=oracles)
    return [*paths, *save(fig, folder / "differences")[:1]]


def tables(areas: Areas) -> str:
    """Return all tables as Markdown."""
    texts: dict[str, str] = {}
    groups = _groups(areas)
    for title, part in groups.items():
        peers = part.peers()
        texts[f"Ranks and areas, {title}"] = _ranking(part)
        if len(peers.strategies) > 1:
            texts[f"Paired differences, {title}"] = _against(peers)
            if len(set(peers.table["seed"])) > 1:
                texts[f"Regret, {title}"] = _regret(peers)
    for title, part in groups.items():
        rare, peers = [name for name in part.datasets if name in IMBALANCED], part.peers()
        if rare and len(peers.strategies) > 1:
            balanced = _against(peers.only(dataset=rare), ("balanced",))
            texts[f"Balanced accuracy on imbalanced data, {len(rare)} of {title}"] = balanced
    if others := [name for name in areas.names("protocol") if name in FACTOR_NAMES]:
        parts = _factor_parts(areas, others)
        texts["One factor at a time: mean areas"] = _factors(parts)
        texts["One factor at a time: differences"] = _factor_differences(parts)
    if "ceiling" in areas.names("protocol"):
        texts["The ceiling: an oracle"] = _ranking(areas.only(protocol=["ceiling"]))
    for title, part in groups.items():
        texts[f"Area under the accuracy curve, {title}"] = _by_dataset(part)
    return "\n\n".join(f"### {title}\n\n{table}" for title, table in texts.items()) + "\n"


def _groups(areas: Areas) -> dict[str, Areas]:
    """Return the confirming and the design datasets apart; others unchanged."""
    main = areas.main()
    rest = [name for name in main.datasets if name not in {*CONFIRM, *DESIGN}]
    kinds = {"sets that confirm": CONFIRM, "sets of the design": DESIGN, "other sets": rest}
    here = {kind: [n for n in main.datasets if n in names] for kind, names in kinds.items()}
    return {f"{len(names)} {k}": main.only(dataset=names) for k, names in here.items() if names}


def _compared(areas: Areas) -> str:
    return RECOMMENDED if RECOMMENDED in areas.strategies else areas.strategies[0]


def _markdown(lines: Sequence[dict[str, Any]]) -> str:
    rows = [f"| {' | '.join(map(str, row))} |" for row in (lines[0], *map(dict.values, lines))]
    return "\n".join([rows[0], "|" + "---|" * len(lines[0]), *rows[1:]])


def _means(part: Areas, metric: str = "accuracy") -> dict[str, float]:
    return dict(zip(part.strategies, part.seeds(metric).mean(axis=(1, 2)), strict=True))


def _ranking(part: Areas) -> str:
    peers = part.peers()
    ranks = {
        metric: {line["strategy"]: line for line in peers.ranks(metric).iter_rows(named=True)}
        for metric in ("accuracy", "final", "log_loss")
    }
    metrics = ("accuracy", "final", "balanced", "log_loss")
    area, final, balanced, loss = (_means(part, metric) for metric in metrics)
    # The median: other work on the machine makes some sessions slow.
    seconds = dict(zip(part.strategies, np.median(part.seeds("seconds"), axis=(1, 2)), strict=True))
    lines = []
    for name in [*ranks["accuracy"], *(name for name in part.strategies if is_oracle(name))]:
        oracle = is_oracle(name)
        rank = {m: "oracle" if oracle else f"{r[name]['mean_rank']:.2f}" for m, r in ranks.items()}
        if not oracle and ranks["accuracy"][name]["low"] is not None:
            rank["accuracy"] += " [{low:.2f}, {high:.2f}]".format(**ranks["accuracy"][name])
        lines.append(
            {
                "strategy": _shown(name),
                "mean rank, area": rank["accuracy"],
                "best on": "–" if oracle else ranks["accuracy"][name]["best_on"],
                "area": f"{area[name]:.4f}",
                "mean rank, final": rank["final"],
                "final": f"{final[name]:.4f}",
                "balanced": f"{balanced[name]:.4f}",
                "mean rank, log-loss": rank["log_loss"],
                "log-loss": f"{loss[name]:.3f}",
                "seconds": f"{seconds[name]:.2g}",
            }
        )
    return _markdown(lines)


def _against(peers: Areas, metrics: Sequence[str] = ("accuracy", "final")) -> str:
    names = {"accuracy": "area", "final": "final accuracy", "balanced": "area, balanced"}
    ours, lines = _compared(peers), []
    for metric in metrics:
        for r in peers.against(ours, metric).iter_rows(named=True):
            line = {"of": names[metric], **_difference(ours, r)}
            line["ahead on"] = f"{r['wins']} of {len(peers.datasets)}"
            line["p (Holm)"] = f"{r['p']:.2g}"
            line["worse, same, better"] = "{worse:.2f}, {same:.2f}, {better:.2f}".format(**r)
            lines.append(line)
    return _markdown(lines)


def _difference(ours: str, r: dict[str, Any]) -> dict[str, str]:
    return {
        f"{_shown(ours)} against": _shown(r["against"]),
        "better by": f"{r['better_by']:+.4f} [{r['low']:+.4f}, {r['high']:+.4f}]",
        "at worst": f"{r['worst']:+.4f} ({r['on']})",
    }


def _regret(peers: Areas) -> str:
    area, final = (
        {r["strategy"]: r for r in peers.regrets(metric).iter_rows(named=True)}
        for metric in ("accuracy", "final")
    )
    lines = []
    for name in area:
        line = {"strategy": _shown(name)}
        for of, regrets in (("area", area), ("final", final)):
            line[f"mean regret, {of}"] = "{mean:+.4f}".format(**regrets[name])
            line[f"largest, {of}"] = "{largest:+.4f} ({on})".format(**regrets[name])
        lines.append(line)
    return _markdown(lines)


def _factor_parts(areas: Areas, protocols: Sequence[str]) -> dict[str, Areas]:
    parts = {name: areas.only(protocol=[name]).peers() for name in protocols}
    first, main = next(iter(parts.values())), areas.main()
    datasets = [name for name in main.datasets if name in first.datasets]
    strategies = [name for name in main.strategies if name in first.strategies]
    if datasets and strategies:
        same = main.only(dataset=datasets, strategy=strategies)
        parts = {main.names("protocol")[0]: same} | parts
    return parts


def _factors(parts: dict[str, Areas]) -> str:
    means = {name: _means(part) for name, part in parts.items()}
    lines = []
    for strategy in next(reversed(parts.values())).strategies:
        cells = {
            name: _best(values[strategy], max(values.values())) if strategy in values else "–"
            for name, values in means.items()
        }
        lines.append({"strategy": _shown(strategy), **cells})
    return _markdown(lines)


def _factor_differences(parts: dict[str, Areas]) -> str:
    lines = []
    for name, part in parts.items():
        ours = _compared(part)
        for r in part.against(ours).iter_rows(named=True):
            lines.append({"protocol": name, **_difference(ours, r), "p (Holm)": f"{r['p']:.2g}"})
    return _markdown(lines)


def _by_dataset(part: Areas) -> str:
    lines = []
    for row in part.means().iter_rows(named=True):
        name = row.pop("dataset")
        top = max(value for strategy, value in row.items() if not is_oracle(strategy))
        lines.append({"dataset": name, **{_shown(s): _best(v, top) for s, v in row.items()}})
    return _markdown(lines)


def _best(value: float, top: float) -> str:
    return f"**{value:.4f}**" if value == top else f"{value:.4f}"


def _shown(name: str) -> str:
    return f"**`{name}`**" if name == RECOMMENDED else f"`{name}`"
