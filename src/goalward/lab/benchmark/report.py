"""Tables and the figure of the benchmark, all from its CSV."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import polars.selectors as cs

from goalward.lab.benchmark.areas import Areas, is_oracle
from goalward.lab.benchmark.sessions import FACTOR_NAMES
from goalward.lab.datasets.load import CONFIRM, DESIGN, IMBALANCED
from goalward.lab.plots import distances_figure, save
from goalward.strategies.recipes import RECOMMENDED


def report(areas: Areas, folder: Path) -> list[Path]:
    """Write the tables as CSV, and the figure where there is something to compare; return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = groups(areas)
    paths = []
    for name, table in TABLES.items():
        lines = [
            pl.select(sets=pl.lit(sets)).join(found, how="cross")
            for sets, part in parts.items()
            if (found := table(part)) is not None
        ]
        if lines:
            path = folder / f"{name}.csv"
            rounded = pl.concat(lines, how="diagonal").with_columns(cs.float().round_sig_figs(4))
            rounded.write_csv(path)
            paths.append(path)
    main = areas.main()
    if len(main.peers().strategies) < 2:
        return paths
    shown = {
        f"{len(part.datasets)} sets, {sets}": part.means()
        for sets, part in parts.items()
        if part.names("protocol") == main.names("protocol") and sets != SAME
    }
    oracles = [name for name in main.strategies if is_oracle(name)]
    fig = distances_figure(shown, ours=_compared(main.peers()), oracles=oracles)
    return [*paths, *save(fig, folder / "differences")[:1]]


SAME = "full, the sets of the other settings"


def groups(areas: Areas) -> dict[str, Areas]:
    """Return the parts that have lines of their own: sets that confirm, of the design, other settings."""
    main = areas.main()
    rest = [name for name in main.datasets if name not in {*CONFIRM, *DESIGN}]
    parts = {}
    for kind, names in {"confirm": CONFIRM, "design": DESIGN, "others": rest}.items():
        if here := [name for name in main.datasets if name in names]:
            parts[kind] = main.only(dataset=here)
    settings = [name for name in areas.names("protocol") if name in (*FACTOR_NAMES, "ceiling")]
    changed = {name: areas.only(protocol=[name]) for name in settings}
    if changed:
        first = next(iter(changed.values()))
        datasets = [name for name in main.datasets if name in first.datasets]
        strategies = [name for name in main.strategies if name in first.strategies]
        if datasets and strategies:
            parts[SAME] = main.only(dataset=datasets, strategy=strategies)
    return parts | changed


def _compared(areas: Areas) -> str:
    return RECOMMENDED if RECOMMENDED in areas.strategies else areas.strategies[0]


def ranking(part: Areas) -> pl.DataFrame:
    """Return mean ranks and mean values, the best area first; oracles have no rank."""
    measures = {"area": "accuracy", "final": "final", "log_loss": "log_loss"}
    ranks = pl.DataFrame({"strategy": part.strategies})
    for name, metric in measures.items():
        found = part.peers().ranks(metric).rename({"mean_rank": f"rank_{name}"})
        kept = ("low", "high", "best_on") if name == "area" else ()
        ranks = ranks.join(
            found.select("strategy", f"rank_{name}", *kept), on="strategy", how="left"
        )
    means = {
        n: part.seeds(m).mean(axis=(1, 2)) for n, m in {**measures, "balanced": "balanced"}.items()
    }
    # The median: other work on the machine makes some sessions slow.
    seconds = np.median(part.seeds("seconds"), axis=(1, 2))
    table = pl.DataFrame({"strategy": part.strategies, **means, "seconds": seconds})
    joined = ranks.join(table, on="strategy")
    return joined.sort("rank_area", "strategy", nulls_last=True)


def differences(part: Areas) -> pl.DataFrame | None:
    """Return the recommended strategy less each other one, and balanced on the imbalanced sets."""
    peers = part.peers()
    if len(peers.strategies) < 2:
        return None
    rare = [name for name in part.datasets if name in IMBALANCED]
    compared = {"area": (peers, "accuracy"), "final": (peers, "final")}
    if rare:
        compared["balanced, imbalanced sets"] = peers.only(dataset=rare), "balanced"
    ours = _compared(peers)
    return pl.concat(
        pl.select(of=pl.lit(name), strategy=pl.lit(ours)).join(
            areas.against(ours, metric).with_columns(of_sets=len(areas.datasets)), how="cross"
        )
        for name, (areas, metric) in compared.items()
    )


def regrets(part: Areas) -> pl.DataFrame | None:
    """Return how far each strategy is behind the best of the others; of one seed it is not known."""
    peers = part.peers()
    if len(peers.strategies) < 2 or peers.table["seed"].n_unique() < 2:
        return None
    both = {"area": peers.regrets(), "final": peers.regrets("final")}
    return pl.concat(table.with_columns(of=pl.lit(of)) for of, table in both.items())


TABLES: dict[str, Callable[[Areas], pl.DataFrame | None]] = {
    "ranks": ranking,
    "against": differences,
    "regrets": regrets,
    "areas": Areas.means,
}
