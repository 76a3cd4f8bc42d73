"""What the paper says of first order against retraining."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from goalward.lab.paper.approximation import ExPred, Scatter
from goalward.lab.paper.findings import Findings, Judgement, claim, interval
from goalward.lab.paper.studies import OPERATORS

__all__: list[str] = []


of_serial = partial(
    claim,
    figure="approx-serial",
    about=lambda findings: findings.scatters.get("approx-serial"),
    needs=("seeds", "pool"),
)
of_expred = partial(claim, figure="expred", about=lambda findings: findings.expred, needs=("pool",))
STRONG = 0.8


def _batches(findings: Findings) -> list[Scatter] | None:
    names = ("approx-batch", "approx-batch-minilm")
    return [findings.scatters[name] for name in names if name in findings.scatters] or None


def _both(findings: Findings) -> list[Scatter] | None:
    names = ("approx-serial", "approx-batch")
    both = [findings.scatters[name] for name in names if name in findings.scatters]
    return both if len(both) == 2 else None


def _by_operator(scatter: Scatter, column: str, goal: str = "entropy") -> dict[str, Any]:
    """Return a column of the table, operator -> (seeds,)."""
    mine = scatter.table.filter(goal=goal)
    return {op: mine.filter(operator=op)[column].to_numpy() for op in OPERATORS}


def _means(scatter: Scatter, column: str) -> tuple[dict[str, float], str]:
    """Return the mean of each operator, and the means with intervals as a text."""
    found = _by_operator(scatter, column)
    correlation = column == "pearson"
    shown = "; ".join(
        f"{op} {interval(values, correlation=correlation)}" for op, values in found.items()
    )
    return {op: float(values.mean()) for op, values in found.items()}, shown


@of_serial(
    says="First-order utilities correlate strongly with those of real retraining, row by row.",
    rule="reproduced if the mean Pearson correlation is at least 0.8 for all four operators, "
    "partly if at least 0.5",
)
def approximation_serial(serial: Scatter) -> Judgement:
    means, measured = _means(serial, "pearson")
    worst = min(means.values())
    return Judgement(measured, worst >= STRONG, worst >= 0.5, means)


@claim(
    "approx-batch",
    about=_batches,
    says="The correlation is strong in all cases for batches of 10 too.",
    rule="reproduced if the mean Pearson correlation is at least 0.8 for all four operators and all "
    "sentence vectors; one case below it refutes the claim",
    needs=("batch_seeds", "pool"),
)
def approximation_batch_strong(scatters: list[Scatter]) -> Judgement:
    found = {scatter.title.rpartition(": ")[2]: _means(scatter, "pearson") for scatter in scatters}
    measured = ". ".join(f"{source}: {shown}" for source, (_, shown) in found.items())
    numbers = {source: means for source, (means, _) in found.items()}
    strong = all(value >= STRONG for means in numbers.values() for value in means.values())
    return Judgement(measured, strong, False, numbers)


@claim(
    "approx-serial approx-batch",
    about=_both,
    says="The correlation is lower for batches of 10 than for single rows, and lowest for the "
    "minimum and maximum.",
    rule="reproduced if all four correlations fall and min/max average below oracle/average; partly "
    "if either holds",
    needs=("seeds", "batch_seeds", "pool"),
)
def approximation_batch(scatters: list[Scatter]) -> Judgement:
    one, many = (_by_operator(scatter, "pearson") for scatter in scatters)
    drop = {op: float(one[op].mean() - many[op].mean()) for op in OPERATORS}
    extremes = float(many["min"].mean() + many["max"].mean()) / 2
    centre = float(many["oracle"].mean() + many["average"].mean()) / 2
    falls, lowest = all(d > 0 for d in drop.values()), extremes < centre
    return Judgement(
        "; ".join(
            f"{op} {one[op].mean():.2f} → {interval(many[op], correlation=True)}"
            for op in OPERATORS
        ),
        falls and lowest,
        falls or lowest,
        {"fall": drop, "min_max": extremes, "oracle_average": centre},
    )


@of_serial(
    says="The first-order utility over-estimates the change of the goal.",
    rule="reproduced if the mean slope of retrained on first-order utilities is below 1 for all "
    "four operators, partly for at least two",
)
def over_estimates(serial: Scatter) -> Judgement:
    means, measured = _means(serial, "slope")
    below = sum(v < 1 for v in means.values())
    return Judgement(f"slopes: {measured}", below == 4, below >= 2, means)


@of_serial(
    says="Other goals are approximated about as well as the entropy goal.",
    rule="reproduced if the mean correlation over operators of the Fisher and dev goals is at most "
    "0.1 below that of the entropy goal; partly if one of them is",
)
def other_goals(serial: Scatter) -> Judgement:
    means = {}
    for goal in ("entropy", "fisher", "dev"):
        found = _by_operator(serial, "pearson", goal)
        means[goal] = float(np.mean([values.mean() for values in found.values()]))
    gaps = [means["entropy"] - means[goal] for goal in ("fisher", "dev")]
    measured = "; ".join(f"{goal} {value:.2f}" for goal, value in means.items())
    return Judgement(measured, max(gaps) <= 0.1, min(gaps) <= 0.1, means)


@of_expred(
    says="To first order, the expected utility under the model's own prediction is the same for "
    "every row and batch (Remark 1).",
    rule="reproduced if its spread is at most 1e-10 of the utilities' scale in every panel",
    needs=(),  # an identity: any run can refute it
)
def expred_constant(expred: ExPred) -> Judgement:
    worst = max(expred.flatness.values())
    measured = f"largest relative spread {worst:.1e}"
    return Judgement(measured, worst <= 1e-10, worst <= 1e-6, expred.flatness)


@of_expred(
    says="Retrained, the expected utility under the prediction is concentrated compared with the "
    "other operators.",
    rule="reproduced if its standard deviation is below half of the operators' median in every "
    "panel, partly in at least half of them",
)
def expred_concentrated(expred: ExPred) -> Judgement:
    ratios = {}
    for title, series in expred.panels.items():
        others = np.median([series[op].std() for op in OPERATORS])
        ratios[title] = float(series["predicted"].std() / others)
    narrow = sum(r < 0.5 for r in ratios.values())
    measured = "; ".join(f"{title}: {r:.2f} of the median" for title, r in ratios.items())
    return Judgement(measured, narrow == len(ratios), narrow >= len(ratios) / 2, ratios)


@of_expred(
    says="The operators rank the rows very differently.",
    rule="reproduced if at least half of the pairs of operators have a rank correlation below 0.5, "
    "partly if at least one has",
)
def operators_differ(expred: ExPred) -> Judgement:
    pairs = {f"{a}-{b}": s for a, b, s in expred.overlap.iter_rows()}
    low = sum(s < 0.5 for s in pairs.values())
    measured = "; ".join(f"{pair} {s:.2f}" for pair, s in pairs.items())
    return Judgement(measured, low >= len(pairs) / 2, low >= 1, pairs)
