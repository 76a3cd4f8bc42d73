"""What the paper says of first order against retraining."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

from goalward.lab.paper.claim import Claim, interval, verdict
from goalward.lab.paper.results import Results
from goalward.lab.paper.studies import OPERATORS

__all__ = ["APPROXIMATION"]


def _by_operator(table: pl.DataFrame, column: str, goal: str = "entropy") -> dict[str, Any]:
    mine = table.filter(pl.col("goal") == goal)
    return {op: mine.filter(pl.col("operator") == op)[column].to_numpy() for op in OPERATORS}


def _main(found: dict[str, Any]) -> Any:
    return next(iter(found.values()))


def _correlates(results: Results) -> Claim | None:
    if not results.serial:
        return None
    found = _by_operator(_main(results.serial).table, "pearson")
    means = {op: float(values.mean()) for op, values in found.items()}
    worst = min(means.values())
    return Claim(
        "approximation-serial",
        "First-order utilities correlate strongly with those of real retraining, row by row.",
        "reproduced if the mean Pearson correlation is at least 0.8 for all four operators, "
        "partly if at least 0.5",
        "; ".join(f"{op} {interval(values)}" for op, values in found.items()),
        verdict(worst >= 0.8, worst >= 0.5),
        "approx-serial",
        means,
    )


def _weaker_in_batches(results: Results) -> Claim | None:
    if not (results.serial and results.batch):
        return None
    one = _by_operator(_main(results.serial).table, "pearson")
    many = _by_operator(_main(results.batch).table, "pearson")
    drop = {op: float(one[op].mean() - many[op].mean()) for op in OPERATORS}
    extremes = (many["min"].mean() + many["max"].mean()) / 2
    centre = (many["oracle"].mean() + many["average"].mean()) / 2
    lower = sum(d > 0 for d in drop.values())
    return Claim(
        "approximation-batch",
        "The correlation is lower for batches of 10 than for single rows, and lowest for the "
        "minimum and maximum.",
        "reproduced if all four correlations fall and min/max average below oracle/average; partly "
        "if either holds",
        "; ".join(f"{op} {one[op].mean():.2f} → {interval(many[op])}" for op in OPERATORS),
        verdict(lower == 4 and extremes < centre, lower == 4 or bool(extremes < centre)),
        "approx-serial approx-batch",
        {"fall": drop, "min_max": float(extremes), "oracle_average": float(centre)},
    )


def _over_estimates(results: Results) -> Claim | None:
    if not results.serial:
        return None
    slopes = _by_operator(_main(results.serial).table, "slope")
    means = {op: float(values.mean()) for op, values in slopes.items()}
    below = sum(v < 1 for v in means.values())
    return Claim(
        "over-estimates",
        "The first-order utility over-estimates the change of the goal.",
        "reproduced if the mean slope of retrained on first-order utilities is below 1 for all "
        "four operators, partly for at least two",
        "slopes: " + "; ".join(f"{op} {interval(v)}" for op, v in slopes.items()),
        verdict(below == 4, below >= 2),
        "approx-serial",
        means,
    )


def _other_goals(results: Results) -> Claim | None:
    if not results.serial:
        return None
    table = _main(results.serial).table
    means = {
        goal: float(np.mean([v.mean() for v in _by_operator(table, "pearson", goal).values()]))
        for goal in ("entropy", "fisher", "dev")
    }
    gaps = [means["entropy"] - means[goal] for goal in ("fisher", "dev")]
    return Claim(
        "other-goals",
        "Other goals are approximated about as well as the entropy goal.",
        "reproduced if the mean correlation over operators of the Fisher and dev goals is at most "
        "0.1 below that of the entropy goal; partly if one of them is",
        "; ".join(f"{goal} {value:.2f}" for goal, value in means.items()),
        verdict(max(gaps) <= 0.1, min(gaps) <= 0.1),
        "approx-serial",
        means,
    )


def _constant(results: Results) -> Claim | None:
    if results.expred is None:
        return None
    worst = max(results.expred.flatness.values())
    return Claim(
        "expred-constant",
        "To first order, the expected utility under the model's own prediction is the same for "
        "every row and batch (Remark 1).",
        "reproduced if its spread is at most 1e-10 of the utilities' scale in every panel",
        f"largest relative spread {worst:.1e}",
        verdict(worst <= 1e-10, worst <= 1e-6),
        "expred",
        dict(results.expred.flatness),
    )


def _concentrated(results: Results) -> Claim | None:
    if results.expred is None:
        return None
    ratios = {}
    for title, series in results.expred.panels.items():
        others = [np.std(series[op]) for op in OPERATORS]
        ratios[title] = float(np.std(series["predicted"]) / np.median(others))
    narrow = sum(r < 0.5 for r in ratios.values())
    return Claim(
        "expred-concentrated",
        "Retrained, the expected utility under the prediction is concentrated compared with the "
        "other operators.",
        "reproduced if its standard deviation is below half of the operators' median in every "
        "panel, partly in at least half of them",
        "; ".join(f"{title}: {r:.2f} of the median" for title, r in ratios.items()),
        verdict(narrow == len(ratios), narrow >= len(ratios) / 2),
        "expred",
        ratios,
    )


def _different_orders(results: Results) -> Claim | None:
    if results.expred is None:
        return None
    pairs = {f"{a}-{b}": s for a, b, s in results.expred.overlap.iter_rows()}
    low = sum(s < 0.5 for s in pairs.values())
    return Claim(
        "operators-differ",
        "The operators rank the rows very differently.",
        "reproduced if at least half of the pairs of operators have a rank correlation below 0.5, "
        "partly if at least one has",
        "; ".join(f"{pair} {s:.2f}" for pair, s in pairs.items()),
        verdict(low >= len(pairs) / 2, low >= 1),
        "expred",
        pairs,
    )


APPROXIMATION: tuple[Callable[[Results], Claim | None], ...] = (
    _correlates,
    _weaker_in_batches,
    _over_estimates,
    _other_goals,
    _constant,
    _concentrated,
    _different_orders,
)
